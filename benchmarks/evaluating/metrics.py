"""All metrics of ten million scores, against one `numpy.argsort` of the scores and against other libraries.

Run as `python -m benchmarks.evaluating.metrics`; the extra `evaluate` and torchmetrics must be installed. Each rival
computes as many of our metrics as it can, with as few calls of its public functions as possible: one ROC curve for
AUROC, FPR and the detection errors, one precision-recall curve per positive class for both estimators of AUPR, and the
area under the risk-coverage curve if it has one. Ours computes all of them. Values are compared too.
"""

from collections.abc import Callable

import click
import numpy as np
import numpy.typing as npt
import torch
from pytorch_ood.metrics import functional as po
from sklearn import metrics as sk
from torchmetrics.functional.classification import binary_precision_recall_curve, binary_roc

from benchmarks.rivals import Run, interleave, report
from unknown_detection.evaluation.metrics.metrics import METRICS
from unknown_detection.evaluation.metrics.ranking import rank_open_set

Values = dict[str, float]
Floats = npt.NDArray[np.float64]


def of_roc(fpr: Floats, tpr: Floats) -> Values:
    """Return the figures of a ROC curve with the unknown rows positive, from (0, 0) to (1, 1)."""
    unknown = int(np.searchsorted(tpr, 0.95))
    # Known rows are found from the other end; a tolerance, because 1 - 0.05 is not 0.95 in floats.
    known = int(np.searchsorted(fpr, 0.05 + 1e-12, side="right")) - 1
    return {
        "auroc": float(np.trapezoid(tpr, fpr)),
        "fpr_at_95_tpr_unknown_positive": float(fpr[unknown]),
        "fpr_at_95_tpr_known_positive": float(1 - tpr[known]),
        "detection_error_known_positive": float(fpr[known] + 1 - tpr[known]) / 2,
    }


def of_precision_recall(side: str, precision: Floats, recall: Floats) -> Values:
    """Return the figures of a precision-recall curve, by falling recall."""
    return {
        f"aupr_{side}_average_precision": float(-np.sum(np.diff(recall) * precision[:-1])),
        f"aupr_{side}_trapezoid": float(-np.trapezoid(precision, recall)),
    }


def with_sklearn(scores: Floats, unknown: npt.NDArray[np.bool_]) -> Values:
    """Compute the metrics with scikit-learn."""
    fpr, tpr, _ = sk.roc_curve(unknown, scores, drop_intermediate=False)
    precision_in, recall_in, _ = sk.precision_recall_curve(~unknown, -scores)
    precision_out, recall_out, _ = sk.precision_recall_curve(unknown, scores)
    return {
        **of_roc(fpr, tpr),
        **of_precision_recall("in", precision_in, recall_in),
        **of_precision_recall("out", precision_out, recall_out),
    }


def with_pytorch_ood(scores: torch.Tensor, labels: torch.Tensor, right: torch.Tensor) -> Values:
    """Compute the metrics with pytorch-ood."""
    fpr, tpr, _ = po.roc_curve(scores, labels)
    precision_in, recall_in, _ = po.pr_curve(scores, labels, positive="id")
    precision_out, recall_out, _ = po.pr_curve(scores, labels, positive="ood")
    return {
        **of_roc(fpr.numpy(), tpr.numpy()),
        **of_precision_recall("in", precision_in.numpy(), recall_in.numpy()),
        **of_precision_recall("out", precision_out.numpy(), recall_out.numpy()),
        "aurc": 1 - po.aurra(-scores, right),
    }


def with_torchmetrics(scores: torch.Tensor, unknown: torch.Tensor) -> Values:
    """Compute the metrics with torchmetrics, which applies a sigmoid to scores unless all are from 0 to 1."""
    fpr, tpr, _ = binary_roc(scores, unknown)
    precision_in, recall_in, _ = binary_precision_recall_curve(1 - scores, 1 - unknown)
    precision_out, recall_out, _ = binary_precision_recall_curve(scores, unknown)
    return {
        **of_roc(fpr.double().numpy(), tpr.double().numpy()),
        **of_precision_recall("in", precision_in.double().numpy(), recall_in.double().numpy()),
        **of_precision_recall("out", precision_out.double().numpy(), recall_out.double().numpy()),
    }


def of_ours(scores: Floats, unknown: npt.NDArray[np.bool_], errors: npt.NDArray[np.bool_]) -> Values:
    """Compute all our metrics, with one sort."""
    rankings = dict(zip(("unknown", "errors", "open_set"), rank_open_set(scores, unknown, errors), strict=True))
    return {name: metric.of(rankings[metric.takes]) for name, metric in METRICS.items() if metric.takes in rankings}


@click.command(epilog="Example: python -m benchmarks.evaluating.metrics --rows 1000000")
@click.option("--rows", default=10_000_000, show_default=True, help="Scores.")
@click.option("--decimals", type=int, metavar="N", help="Round the scores, so that many rows tie.")
@click.option("--repeats", default=5, show_default=True, help="Runs of each side; the median counts.")
def main(rows: int, decimals: int | None, repeats: int) -> None:
    """Compare all metrics with one sort, and with other libraries."""
    random = np.random.default_rng(0)
    unknown = random.random(rows) < 0.4
    scores = 1 / (1 + np.exp(-random.normal(size=rows) - unknown))
    scores = scores if decimals is None else np.round(scores, decimals)
    errors = unknown | (random.random(rows) < 0.1)
    tensor, labels = torch.from_numpy(scores), torch.from_numpy(np.where(unknown, -1, 0))
    right, flags = torch.from_numpy(~errors), torch.from_numpy(unknown.astype(np.int64))
    values_of: dict[str, Values] = {}

    def run(name: str, work: Callable[[], Values]) -> Run:
        def run_once() -> float:
            values_of[name] = work()
            return 0.0

        return Run(clean=lambda: None, work=run_once)

    def argsort() -> Values:
        np.argsort(scores)
        return {}

    results = interleave(
        {
            "numpy.argsort": run("numpy.argsort", argsort),
            "ours, all metrics": run("ours", lambda: of_ours(scores, unknown, errors)),
            "scikit-learn": run("scikit-learn", lambda: with_sklearn(scores, unknown)),
            "pytorch-ood": run("pytorch-ood", lambda: with_pytorch_ood(tensor, labels, right)),
            "torchmetrics": run("torchmetrics", lambda: with_torchmetrics(tensor, flags)),
        },
        repeats,
    )
    print(f"{rows:,} scores{'' if decimals is None else f', rounded to {decimals} decimals'}")
    report(results, baseline="numpy.argsort")
    rivals = {name: results[name].median for name in ("scikit-learn", "pytorch-ood", "torchmetrics")}
    fastest = min(rivals, key=rivals.__getitem__)
    print(f"{fastest} is the fastest rival: {rivals[fastest] / results['ours, all metrics'].median:.1f} times ours")
    for name in rivals:
        away = {metric: abs(value - values_of["ours"][metric]) for metric, value in values_of[name].items()}
        worst = max(away, key=away.__getitem__)
        print(
            f"{name:14} {len(away)} of our {len(values_of['ours'])} figures, at most {away[worst]:.1e} away ({worst})"
        )


if __name__ == "__main__":
    main()
