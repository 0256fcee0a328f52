"""The one pivot: cells of papers' tables from their own numbers, and its renderings written out."""

import csv
import io
from functools import partial

import pandas as pd
import pytest

from tests.evaluation import made_rows
from tests.evaluation.made_rows import make_rows, of_run
from tests.evaluation.report.as_text import text_lines
from unknown_detection.evaluation.frame import REDUCED
from unknown_detection.evaluation.protocols import PROTOCOLS, broad, facets, figures, means
from unknown_detection.evaluation.report.figures import over_runs, tidy
from unknown_detection.evaluation.report.names import detector_name, metric_name, set_name, shown_name
from unknown_detection.evaluation.report.pivot import Pivot, best_first, full_tables, shown_tables

figure = partial(made_rows.figure, protocol="broad", setting="dsd", unknown="u", n_known=400, n_unknown=600)
NAN = float("nan")


def tables(*judged, name):
    """The table of results of each config, and all others by name."""
    lines = over_runs(tidy(judged))
    protocol = PROTOCOLS[name]
    order = best_first(protocol, lines)
    short = [*shown_tables(protocol, lines, order)]
    full = [*full_tables(protocol, lines, order)]
    full += [table for kind in REDUCED for table in shown_tables(protocol, lines, order, kind)]
    return short, {table.name: table for table in full}


# FACETS, table VI, two of its rows: FPR@95%TPR / detection error / AUROC.
TABLE_VI = {
    "Baseline": {"MSP": (22.36, 13.68, 94.79), "TS": (4.50, 4.75, 99.02), "OODL": (0.37, 1.61, 99.81)},
    "T2": {"MSP": (82.44, 43.72, 69.83), "TS": (74.01, 39.51, 76.38), "OODL": (81.49, 43.25, 68.43)},
}


def test_facets_has_one_figure_a_cell_and_every_table_has_one_order():
    judged = [
        (of_run(method, ""), [
            figure(value / 100, metric, protocol="facets", config=config, setting="ood_detection")
            for config, cells in TABLE_VI.items()
            for metric, value in zip(facets.IN_TABLES, cells[method], strict=True)
        ])
        for method in ("MSP", "TS", "OODL")
    ]  # fmt: skip
    short, full = tables(*judged, name="facets")
    assert list(full) == ["facets-OOD-detection"]
    assert text_lines(full["facets-OOD-detection"]) == [
        "| Detector | Baseline FPR@95%TPR ↓ | Baseline Detection error ↓ | Baseline AUROC ↑ | T2 FPR@95%TPR ↓ | "
        "T2 Detection error ↓ | T2 AUROC ↑ |",
        "| TS | 4.50 | 4.75 | 99.02 | **74.01** | **39.51** | **76.38** |",
        "| OODL | **0.37** | **1.61** | **99.81** | 81.49 | 43.25 | 68.43 |",
        "| MSP | 22.36 | 13.68 | 94.79 | 82.44 | 43.72 | 69.83 |",
    ], "by the mean AUROC over configs: 87.70, 84.12 and 82.31"
    assert text_lines(short[0]) == [
        "| Detector | AUROC ↑ | FPR@95%TPR ↓ |", "| TS | 99.02 | 4.50 |", "| OODL | **99.81** | **0.37** |",
        "| MSP | 94.79 | 22.36 |",
    ]  # fmt: skip


# BROAD, table 8 (ResNet-50): in-distribution, adversarial attacks, corruptions, average.
TABLE_8 = {"MSP": (86.31, 74.04, 95.93, 85.43), "GradNorm": (58.07, 62.49, 92.73, 71.10)}


def test_broad_s_average_over_kinds_is_the_headline():
    judged = []
    for method, cells in TABLE_8.items():
        kinds = dict(zip(("in_distribution", "adversarial", "corruption"), cells, strict=False))
        of_kinds = {kind: [figure(value / 100, setting="ed", unknown=f"{kind} x")] for kind, value in kinds.items()}
        judged.append((of_run(method, ""), broad.averaged(of_kinds)))
    short, full = tables(*judged, name="broad")
    assert text_lines(short[0])[1:] == ["| MSP | **85.43** |", "| GradNorm | 71.10 |"]
    (table,) = full.values()
    assert table.name == "broad-Error-detection"
    row = dict(zip([group for group, _ in table.mean], table.mean.loc["MSP", ""], strict=True))
    assert row["all mean"] == pytest.approx(85.43, abs=0.005)
    assert row["adversarial x"] == pytest.approx(74.04)


def unified(accuracy, unknown, near, config="cifar", **fields):
    """Figures of the unified protocol in the order in which it gives them."""
    of = partial(figure, protocol="unknown-detection", config=config, **fields)
    wrong = {"setting": "misclassification_detection", "unknown": "test, wrong"}
    far = of(0.5, setting="ood_detection", unknown="far_ood_svhn")
    return [
        of(unknown / 1000, "aurc", setting="unknown_detection", unknown="test, wrong + near_ood", factor=1000.0),
        of(accuracy / 100, "accuracy", **wrong),
        of(near / 100, setting="ood_detection", unknown="near_ood"),
        far,
        *means([far]),
    ]


def test_the_unified_benchmark_has_mean_and_deviation_over_runs():
    # Kim, Koo and Hwang, table 6, MCP: accuracy 74.43 +- 0.51, AURC 773.15 +- 12.77; two runs that have these.
    runs = [unified(74.43 + sign * 0.51 / 2**0.5, 773.15 + sign * 12.77 / 2**0.5, 70.0) for sign in (-1, 1)]
    judged = [(of_run(variant="", seed=seed), figures) for seed, figures in enumerate(runs)]
    short, full = tables(*judged, name="unknown-detection")
    assert text_lines(short[0]) == [
        "| Detector | All unknowns AURC × 1,000 ↓ | Near-OoD AUROC ↑ | Far mean AUROC ↑ |",
        "| msp | 773.15 ± 12.77 | 70.00 ± 0.00 | 50.00 ± 0.00 |",
    ]
    assert "over 2 runs" in short[0].note
    assert "74.43 ± 0.51" in text_lines(full["unknown-detection-cifar"])[1]


def test_of_one_s_own_images_auroc_is_first_and_few_rows_are_counted():
    figures = unified(74.0, 773.0, 70.0, config="birds", n_unknown=120)
    (short,), _ = tables((of_run(variant=""), figures), name="unknown-detection")
    assert text_lines(short)[0].startswith("| Detector | Near-OoD AUROC, n = 120 ↑ | Far mean AUROC, n = 120 ↑ | All")


def test_openood_has_means_in_its_results_and_a_table_of_each_setting():
    rows = make_rows(
        ("c", "test", "in_distribution", [0, 1, 2, 3], {"wrong": [False, False, False, True]}),
        ("c", "near_ood", "near_ood", [1.5, 4]),
        ("c", "far_ood_a", "far_ood", [5, 6]),
        ("c", "far_ood_b", "far_ood", [-1, 6]),
        ("s", "snow", "corruption", [7, 8], {"label": [0, 0]}),
    )
    short, full = tables((of_run(variant=""), figures("openood", rows)), name="openood")
    # AUROC 6 of 8 pairs against the near, 8 and 4 of 8 against the far; OSCR of three right rows of four.
    assert text_lines(short[0])[1] == "| msp | 75.00 | 75.00 | 50.00 | 50.00 |"
    assert list(full) == [
        "openood-c-s-Standard-test", "openood-c-s-Open-set-recognition-test",
        "openood-c-s-Classification-test-right", "openood-c-s-Full-spectrum-test-snow",
        "openood-c-s-Classification-test-snow-right",
    ]  # fmt: skip
    # Trapezoids by hand against the near: known 0 1 2 3, unknown 1.5 4. In: .5 + (2/3 + 3/4) / 8 + (3/4 + 4/5) / 8;
    # out: .5 + (1/3 + 1/2) / 4.
    assert text_lines(full["openood-c-s-Standard-test"])[1].startswith("| msp | 50.00 | 75.00 | 87.08 | 70.83 |")
    assert text_lines(full["openood-c-s-Full-spectrum-test-snow"])
    assert "| 62.50 |" in text_lines(full["openood-c-s-Open-set-recognition-test"])[1]


def test_the_best_is_first_and_a_single_run_is_never_bold():
    """As a deep ensemble of all seeds beside detectors of each; training methods stand in one table."""
    judged = [
        (of_run(name, variant, seed), unified(74.0 + seed, value + 10 * (variant == "sgd"), 70.0))
        for variant in ("adam", "sgd")
        for name, value in (("msp", 700), ("mahalanobis", 600))
        for seed in (0, 1)
    ]
    judged.append((of_run("ensemble", "sgd", 7), unified(90.0, 500, 60.0)))
    (short,), _ = tables(*judged, name="unknown-detection")
    assert [line.rpartition(" | 50")[0] for line in text_lines(short)[1:]] == [
        "| ensemble (sgd) | 500.00 | 60.00",
        "| mahalanobis (MDS, adam) | **600.00 ± 0.00** | 70.00 ± 0.00",
        "| mahalanobis (MDS, sgd) | 610.00 ± 0.00 | 70.00 ± 0.00",
        "| msp (adam) | 700.00 ± 0.00 | 70.00 ± 0.00",
        "| msp (sgd) | 710.00 ± 0.00 | 70.00 ± 0.00",
    ]
    assert "sample standard deviation (of n - 1) over 1 to 2 runs" in short.note


def made(*lines, deviations=None, names=("mahalanobis", "A_b & |c|", "energy"), **changed):
    index = pd.MultiIndex.from_tuples([(name, "") for name in names[: len(lines)]], names=["detector", "variant"])
    columns = pd.MultiIndex.from_tuples([("Near", "AUROC"), ("Near", "FPR"), ("", "Rows")])
    mean = pd.DataFrame(lines, index=index, columns=columns, dtype=float)
    std = pd.DataFrame(NAN if deviations is None else deviations, index=index, columns=columns, dtype=float)
    named = {"name": "near", "title": "Near", "note": "Mean.", "better": ["higher", "lower", ""], "lines": mean}
    return Pivot(mean=mean, std=std, **named | changed)


TABLE = made([90.0, 20.0, 7], [90.004, NAN, NAN], [80.0, 15.5, 9],
             deviations=[[1.25, 1.0, NAN], [0.5, NAN, NAN], [NAN, 0.5, NAN]])  # fmt: skip


def test_page_terminal_csv_and_latex_have_the_same_cells():
    assert text_lines(TABLE) == [
        "| Detector | Near AUROC ↑ | Near FPR ↓ | Rows |",
        "| mahalanobis (MDS) | **90.00 ± 1.25** | 20.00 ± 1.00 | 7.00 |",
        "| A_b & |c| | **90.00 ± 0.50** | - | - |",
        "| energy (EBO) | 80.00 | **15.50 ± 0.50** | 9.00 |",
    ]
    page = TABLE.page()
    assert (page.caption, page.note, page.groups()) == ("Near", "Mean.", [("", 1), ("Near", 2), ("", 1)])
    assert [row[1].order for row in page.rows] == [90.0, 90.004, 80.0], "sorted in full precision"
    assert TABLE.text(2) == [
        "Near, best first",
        "detector           Near AUROC ↑    Near FPR ↓  Rows",
        "mahalanobis (MDS)  90.00 ± 1.25  20.00 ± 1.00  7.00",
        "A_b & |c|          90.00 ± 0.50             -     -",
        "and 1 more",
        "Mean.",
    ]
    assert list(csv.reader(io.StringIO(TABLE.csv())))[:2] == [
        ["detector", "training", "Near AUROC", "Near AUROC std", "Near FPR", "Near FPR std", "Rows", "Rows std"],
        ["mahalanobis", "", "90.0", "1.25", "20.0", "1.0", "7.0", ""],
    ]
    lines = (
        made([90.0, 20.0, 7], [80, NAN, NAN], title="50 % of a_b", names=("energy", "A_b & |c|")).latex().splitlines()
    )
    assert r" & \multicolumn{2}{c}{Near} &  \\" in lines
    assert r"EBO & \textbf{90.00} & 20.00 & 7.00 \\" in lines, "papers have their own names"
    assert r"A\_b \& |c| & 80.00 & - & - \\" in lines
    assert r"\caption{50 \% of a\_b. Mean.}" in lines
    hostile = made([1, 2, 3], names=("<script> (<b>",)).page().rows[0][0]
    assert hostile == "&lt;script&gt; <small>(&lt;b&gt;</small>"


@pytest.mark.parametrize(
    ("example", "best"),
    [
        pytest.param(made([90.0, 20.0, 7]), [], id="one row"),
        pytest.param(made([98.7, 20, 1], [98.7, 21, 2], [98.7, 22, 3]), [(0, 1)], id="most are equal"),
        pytest.param(made([NAN, 1, 1], [NAN, NAN, 1]), [], id="nothing to compare"),
    ],
)
def test_what_is_bold(example, best):
    assert [*zip(*example.best().nonzero(), strict=True)] == best


def test_a_name_is_the_command_line_s_with_the_papers_beside_it_where_it_differs():
    shown = {"mahalanobis": "mahalanobis (MDS)", "knn": "knn", "dice": "dice", "mine": "mine"}
    assert {name: shown_name(name) for name in shown} == shown
    assert [detector_name(name) for name in ("mahalanobis", "knn", "mine")] == ["MDS", "KNN", "mine"]
    sets = {"near_ood": "Near-OoD", "far_ood_svhn": "SVHN", "imagenet_o": "ImageNet-O", "far_ood_my_set": "my set"}
    assert {name: set_name(name) for name in sets} == sets
    assert set_name("test, wrong + far_ood_dtd") == "test, wrong + DTD"
    assert metric_name("fpr_at_95_tpr_known_positive") == "FPR@95%TPR"
