"""`python -m unknown_detection evaluate score`: fits detectors on features and scores every row.

Tested by `tests/evaluation/scoring/test_fit.py`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from builders.cli.console import json_option, print_document
from unknown_detection.commands import as_started
from unknown_detection.evaluation.commands import options
from unknown_detection.evaluation.errors import EvaluationError
from unknown_detection.help import ESSENTIALS, HelpCommand

MISSING = 3
"""The exit code where some of the detectors that were asked for have no scores."""


class ScoringCommand(HelpCommand):
    """Lists the hyperparameters in its help."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options, then the hyperparameters."""
        from unknown_detection.evaluation.detectors.choice import describe_settable

        super().format_options(ctx, formatter)
        with formatter.section("Hyperparameters, their defaults and what a search tries"):
            formatter.write_dl(describe_settable())


@click.command(
    "score",
    cls=ScoringCommand,
    sections={ESSENTIALS: ("features", "out", "splits", "detectors", "own")},
    examples=(
        "python -m unknown_detection evaluate score --features build/features --detectors msp,energy,knn "
        "--out build/scores.parquet",
    ),
)
@options.features
@options.splits("Configs or single splits to score. Default: all configs with rows to evaluate.")
@options.detectors
@click.option("--out", type=options.FILE, required=True, help="Scores file to write, .parquet.")
@options.release(required=False)
@options.model(required=False)
@options.run_options
@json_option()
def command(
    features: Path,
    detectors: str | None,
    own: tuple[str, ...],
    members: tuple[Path, ...],
    *,
    as_json: bool,
    **flags: Any,
) -> int:
    """Fit detectors on features, and score every row of a release.

    Hyperparameters are chosen by the AUROC of validation rows against external_validation rows, those of Ens-V, Ens-R
    and Ens-F by that of right against wrong validation rows, and by nothing else; every trial is written next to the
    scores. ODIN, MC-dropout, CADet and RankFeat run the model on the images again, and need --release, --model and
    --weights or --pretrained.

    The exit code is 3 where others were scored, but not all that --detectors and --detector name: a warning says why.
    """
    from unknown_detection.evaluation.detectors.choice import choose
    from unknown_detection.evaluation.features.extract import extract
    from unknown_detection.evaluation.features.store import FeatureStore
    from unknown_detection.evaluation.report.report import short_results
    from unknown_detection.evaluation.scoring.run import score

    requested = asked(detectors, own)
    choose(requested, flags["settings"])  # before the model is opened
    store, how = FeatureStore.open(features), options.given(flags)
    of_model = ("model", "weights", "pretrained", "classes", "batch_size", "workers")
    opened, again = how.pop("release"), {name: how.pop(name) for name in of_model}
    if opened is not None:
        store.require_release(opened.digest)
    if again["model"] is not None or again["weights"] is not None or again["pretrained"]:
        if opened is None or again["model"] is None:
            raise EvaluationError(
                "--release, --model and --weights (or --pretrained) belong together, but only some were given. Give "
                "all three or none; a FILE.py:FUNCTION that loads its weights needs no --weights."
            )
        published = store.identity.source.get("accuracy")
        again |= {"prompts": store.identity.prompts, "accuracy": published and float(published)}
        again["classes"] = again["classes"] or store.identity.classes or None
        again |= {"device": how["device"], "accept": how["accept"], "quiet": True}
        # Everything is there already: it compares the model with the features, and keeps it for a second pass.
        store = extract(release=opened, splits=store.splits, cache=features, **again)
    scores = score([store, *members], requested, log=options.notes(as_json, **flags), **how)
    provenance = scores.attrs["provenance"]
    code = MISSING if provenance.get("missing") else 0
    if as_json:
        print_document("score", {"file": str(flags["out"]), "count": len(scores), **provenance})
        return code
    note = options.notes(as_json, **flags)
    command = f"{as_started('python -m unknown_detection evaluate report')} --scores {flags['out']}"
    if opened is None:
        note(f"for the figures give --release, or run {command} --release DIR|ORG/NAME --out DIR")
        return code
    try:
        click.echo("\n".join(short_results(scores, opened)))
    except EvaluationError as error:
        note(f"no figures yet: {error}")
    else:
        note(f"for all figures run {command} --release {opened.source} --out DIR")
    return code


def asked(detectors: str | None, own: tuple[str, ...]) -> list[Any]:
    """Return the detectors of --detectors and --detector; all, if neither is given."""
    from unknown_detection.evaluation.detectors.own import load_own

    return [detectors or ("" if own else "all"), *map(load_own, own)]
