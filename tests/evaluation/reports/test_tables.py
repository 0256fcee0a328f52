"""Tables of papers, set from their own numbers: the cells come out where the paper prints them."""

from dataclasses import replace
from functools import partial

import pytest

from tests.evaluation import made_rows
from tests.evaluation.display.as_text import text_lines
from tests.evaluation.made_rows import make_rows, of_run
from unknown_detection.evaluation.display.tables import as_csv
from unknown_detection.evaluation.protocols import PROTOCOLS, broad, facets, figures
from unknown_detection.evaluation.protocols.results import means, over_runs, tidy
from unknown_detection.evaluation.reports.tables import paper_tables, summaries

figure = partial(made_rows.figure, protocol="broad", setting="dsd", unknown="u")


def lines_of(*judged):
    return over_runs(tidy(judged))


def tables(*judged):
    return {table.name: table for of in paper_tables(lines_of(*judged), {}).values() for table in of}


def short(*judged):
    return [table for of in summaries(lines_of(*judged)).values() for table in of]


# FACETS, table VI, two of its rows: FPR@95%TPR / detection error / AUROC.
TABLE_VI = {
    "Baseline": {"MSP": (22.36, 13.68, 94.79), "TS": (4.50, 4.75, 99.02), "OODL": (0.37, 1.61, 99.81)},
    "T2": {"MSP": (82.44, 43.72, 69.83), "TS": (74.01, 39.51, 76.38), "OODL": (81.49, 43.25, 68.43)},
}


def facets_figures(method, metrics=facets.IN_TABLES):
    return [
        figure(value / 100, metric, protocol="facets", config=config, setting="ood_detection")
        for config, cells in TABLE_VI.items()
        for metric, value in zip(metrics, cells[method], strict=True)
    ]


def test_facets_has_one_figure_a_cell_and_the_best_method_first():
    judged = [(of_run(method, ""), facets_figures(method)) for method in ("MSP", "TS", "OODL")]
    (placed,) = tables(*judged).values()
    assert placed.name == "facets-ood-detection"
    groups = ("AUROC {} ↑", "Detection error {} ↓", "FPR@95%TPR {} ↓")
    assert text_lines(placed) == [
        f"| Detector | {' | '.join(group.format(config) for group in groups for config in TABLE_VI)} |",
        "| TS | 99.02 | **76.38** | 4.75 | **39.51** | 4.50 | **74.01** |",
        "| OODL | **99.81** | 68.43 | **1.61** | 43.25 | **0.37** | 81.49 |",
        "| MSP | 94.79 | 69.83 | 13.68 | 43.72 | 22.36 | 82.44 |",
    ], "by the mean AUROC over configs: 87.70, 84.12 and 82.31"
    assert text_lines(short(*judged)[0]) == [
        "| Detector | AUROC ↑ | FPR@95%TPR ↓ |",
        "| OODL | **99.81** | **0.37** |",
        "| TS | 99.02 | 4.50 |",
        "| MSP | 94.79 | 22.36 |",
    ]


# BROAD, table 8 (ResNet-50): in-distribution, adversarial attacks, corruptions, average.
TABLE_8 = {"MSP": (86.31, 74.04, 95.93, 85.43), "GradNorm": (58.07, 62.49, 92.73, 71.10)}


@pytest.mark.parametrize("order", [("MSP", "GradNorm"), ("GradNorm", "MSP")])
def test_broad_s_kinds_and_their_average_stand_in_its_columns(order):
    judged = []
    for method in order:
        kinds = dict(zip(("in_distribution", "adversarial", "corruption"), TABLE_8[method], strict=False))
        of_kinds = {kind: [figure(value / 100, setting="ed", unknown=f"{kind} x")] for kind, value in kinds.items()}
        judged.append((of_run(method, ""), broad.averaged(of_kinds)))
    placed = tables(*judged)
    assert {name: table.shown for name, table in placed.items()} == {"broad-ed": True, "broad-ed-splits": False}
    lines = text_lines(placed["broad-ed"])
    assert [line.replace("*", "") for line in lines] == [
        "| Detector | average ↑ | in distribution ↑ | adversarial ↑ | corruption ↑ |",
        "| MSP | 85.43 | 86.31 | 74.04 | 95.93 |",
        "| GradNorm | 71.10 | 58.07 | 62.49 | 92.73 |",
    ]
    assert [line.replace("*", "") for line in text_lines(short(*judged)[0])] == [
        "| Detector | Errors, mean AUROC ↑ |", "| MSP | 85.43 |", "| GradNorm | 71.10 |"
    ]  # fmt: skip


def unified(accuracy, unknown, near):
    """Figures of the unified protocol in the order in which it gives them."""
    named = {"protocol": "unknown-detection", "config": "cifar"}
    every = {**named, "setting": "unknown_detection", "unknown": "test, wrong + near_ood"}
    wrong = {**named, "setting": "misclassification_detection", "unknown": "test, wrong"}
    far = figure(0.5, **named, setting="ood_detection", unknown="far_ood_svhn")
    return [
        figure(unknown / 1000, "aurc", **every, factor=1000.0),
        figure(accuracy / 100, "accuracy", **wrong),
        figure(near / 100, **named, setting="ood_detection", unknown="near_ood"),
        far,
        *means([far]),
    ]


def test_the_unified_benchmark_is_set_by_method_with_mean_and_deviation_over_runs():
    # Kim, Koo and Hwang, table 6, MCP: accuracy 74.43 +- 0.51, AURC 773.15 +- 12.77; two runs that have these.
    runs = [unified(74.43 + sign * 0.51 / 2**0.5, 773.15 + sign * 12.77 / 2**0.5, 70.0) for sign in (-1, 1)]
    placed = tables(*((of_run(variant="", seed=seed), figures) for seed, figures in enumerate(runs)))
    table = placed["unknown-detection-cifar"]
    lines = text_lines(table)
    assert lines == [
        "| Detector | Unknown AURC ↓ | Near-OoD AUROC ↑ | SVHN AUROC ↑ | Far mean AUROC ↑ | Accuracy ↑ |",
        "| msp | 773.15 ± 12.77 | 70.00 ± 0.00 | 50.00 ± 0.00 | 50.00 ± 0.00 | 74.43 ± 0.51 |",
    ]
    assert "over 2 runs" in table.note


def test_openood_has_means_first_and_splits_behind_a_link():
    rows = make_rows(
        ("c", "test", "in_distribution", [0, 1, 2, 3], {"wrong": [False, False, False, True]}),
        ("c", "near_ood", "near_ood", [1.5, 4]),
        ("c", "far_ood_a", "far_ood", [5, 6]),
        ("c", "far_ood_b", "far_ood", [-1, 6]),
        ("s", "snow", "corruption", [7, 8], {"label": [0, 0]}),
    )
    lines = figures("openood", rows)
    placed = tables((of_run(variant=""), lines))
    assert [name for name, table in placed.items() if table.shown] == [
        f"openood-c-s-{setting}" for setting in ("standard", "open-set", "full-spectrum")
    ]
    # AUROC 6 of 8 pairs against the near, 8 and 4 of 8 against the far; OSCR of three right rows of four.
    standard = placed["openood-c-s-standard"]
    assert [heading.group for heading in standard.columns[::4]] == ["Near-OoD mean", "Far-OoD mean", ""]
    titles = [heading.title for heading in standard.columns[4:]]
    assert titles == ["FPR@95%TPR", "AUROC", "AUPR-In", "AUPR-Out", "Accuracy"]
    # Trapezoids by hand against the near: known 0 1 2 3, unknown 1.5 4. In: .5 + (2/3 + 3/4) / 8 + (3/4 + 4/5) / 8;
    # out: .5 + (1/3 + 1/2) / 4.
    (line,) = (line for line in text_lines(standard) if line.startswith("| msp "))
    assert line.startswith("| msp | 50.00 | 75.00 | 87.08 | 70.83 |")
    assert line.endswith("| 75.00 |")  # three of four
    spectrum = placed["openood-c-s-full-spectrum"]
    (line,) = (line for line in text_lines(spectrum) if line.startswith("| msp "))
    assert line.endswith("| 83.33 |")  # five of six
    assert "| msp | 62.50 | 56.25 |" in text_lines(placed["openood-c-s-open-set"])
    assert "Known rows: test + snow." in placed["openood-c-s-full-spectrum"].note
    splits = placed["openood-c-s-standard-splits"]
    assert [heading.group for heading in splits.columns[::4]] == ["Near-OoD", "a", "b"]
    headline = PROTOCOLS["openood"].headline(lines_of((of_run(variant=""), lines)))
    assert [*zip(headline["unknown"], headline["mean"], strict=True)] == [("near_ood", 0.75)]
    assert text_lines(short((of_run(variant=""), lines))[0]) == [
        "| Detector | Near-OoD mean AUROC ↑ | Far-OoD mean AUROC ↑ | Near-OoD mean FPR@95%TPR ↓ | "
        "Far-OoD mean FPR@95%TPR ↓ |",
        "| msp | 75.00 | 75.00 | 50.00 | 50.00 |",
    ]


def test_figures_without_duplicates_stand_beside_those_of_all_rows():
    published = unified(74.0, 773.0, 70.0)
    clean = [replace(entry, rows="without_duplicates", value=entry.value / 2) for entry in published]
    placed = tables((of_run(variant=""), [*published, *clean]))
    assert set(placed) == {
        "unknown-detection-cifar",
        "unknown-detection-cifar-without-duplicates",
        "duplicates-unknown-detection-cifar",
    }
    assert not placed["unknown-detection-cifar-without-duplicates"].shown
    head, line = as_csv(placed["duplicates-unknown-detection-cifar"]).splitlines()
    cells = dict(zip(head.split(","), line.split(","), strict=True))
    assert (cells["AURC all"], cells["AURC without"]) == ("773.0", "386.5")
    assert (cells["Near-OoD AUROC all"], cells["Near-OoD AUROC without"]) == ("70.0", "35.0")


def test_results_are_in_one_table_the_best_first_and_a_single_run_is_never_bold():
    """As a deep ensemble of all seeds beside detectors of each."""
    judged = [
        (of_run(name, variant, seed), unified(74.0 + seed, value + 10 * (variant == "sgd"), 70.0))
        for variant in ("adam", "sgd")
        for name, value in (("msp", 700), ("mahalanobis", 600))
        for seed in (0, 1)
    ]
    judged.append((of_run("ensemble", "sgd", 7), unified(90.0, 500, 60.0)))
    (placed,) = short(*judged)
    assert text_lines(placed) == [
        "| Detector | AURC ↓ | Near-OoD AUROC ↑ | Far mean AUROC ↑ |",
        "| ensemble sgd | 500.00 | 60.00 | 50.00 |",
        "| mahalanobis MDS, adam | **600.00 ± 0.00** | 70.00 ± 0.00 | 50.00 ± 0.00 |",
        "| mahalanobis MDS, sgd | 610.00 ± 0.00 | 70.00 ± 0.00 | 50.00 ± 0.00 |",
        "| msp adam | 700.00 ± 0.00 | 70.00 ± 0.00 | 50.00 ± 0.00 |",
        "| msp sgd | 710.00 ± 0.00 | 70.00 ± 0.00 | 50.00 ± 0.00 |",
    ]
    assert "sample standard deviation (of n - 1) over 1 to 2 runs" in placed.note


def robust(unknown, setting, variant="*"):
    named = {"protocol": "optimizer-robustness", "setting": setting, "unknown": unknown}
    return [figure(0.5, **named, statistic=name) for name in ("mixture_mean", "mixture_variance", "robustness")]


def test_every_robustness_table_has_a_file_of_its_own():
    """BROAD's sets are of one setting: three tables of it had one name, and two were lost."""
    figures = [entry for unknown in ("inaturalist", "pgd_vit", "snow") for entry in robust(unknown, "dsd")]
    figures += robust("near_ood", "ood_detection") + robust("test, wrong", "misclassification_detection")
    assert list(tables((of_run(variant="*"), figures))) == [
        "optimizer-robustness-c-Distribution-shift-detection-iNaturalist",
        "optimizer-robustness-c-Distribution-shift-detection-PGD-ViT",
        "optimizer-robustness-c-Distribution-shift-detection-snow",
        "optimizer-robustness-c-Near-OoD",
        "optimizer-robustness-c-Misclassification-detection",
    ]


def test_ways_of_training_have_tables_of_their_own():
    judged = [(of_run(variant=variant), unified(74.0, 773.0, 70.0)) for variant in ("adam", "sgd")]
    placed = tables(*judged)
    assert list(placed) == ["unknown-detection-cifar-adam", "unknown-detection-cifar-sgd"]
    assert placed["unknown-detection-cifar-sgd"].title == "Unknown detection on cifar, sgd"


def test_what_duplicates_change_on_many_configs_is_linked_and_not_shown():
    def effects(configs):
        all_rows = [figure(0.8, protocol="facets", config=name, setting="ood_detection") for name in configs]
        without = [replace(entry, rows="without_duplicates", value=0.7) for entry in all_rows]
        placed = tables((of_run(variant=""), [*all_rows, *without]))
        return {name: table for name, table in placed.items() if name.startswith("duplicates-")}

    single, many = effects(["t1"]), effects(["t1", "t2", "t3", "t4"])
    assert {name: placed.shown for name, placed in single.items()} == {"duplicates-facets-t1": True}
    assert [placed.shown for placed in many.values()] == [False] * 4
    assert text_lines(single["duplicates-facets-t1"]) == [
        "| Detector | AUROC all ↑ | AUROC without ↑ |",
        "| msp | 80.00 | 70.00 |",
    ]
