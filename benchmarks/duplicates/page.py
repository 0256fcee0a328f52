"""Makes what `docs/benchmarks/duplicates.md` states of `benchmarks.duplicates.cifair`."""

from collections.abc import Mapping
from typing import Any

from benchmarks.figures import Figures
from benchmarks.tables import table

HEAD = ("images", "judged 0 or 1 and found", "found in all", "wrong", "precision", "groups", "largest", "by group")

ROWS = {
    "cifar100": {
        "train, half 0": "CIFAR-100, test and training, half 0",
        "train, half 1": "CIFAR-100, test and training, **half 1**",
        "test": "CIFAR-100, inside test, both halves",
    },
    "cifar10": {"train": "**CIFAR-10**, test and training", "test": "**CIFAR-10**, inside test"},
}


def counts(recorded: Figures) -> dict[str, Mapping[str, Any]]:
    """Return what `benchmarks.duplicates.cifair` counted, by images."""
    return {name: recorded[f"duplicates.cifair, {name}"] for name in ROWS}


def cells(counted: Mapping[str, Any]) -> list[str]:
    """Return the cells of a row after its title."""
    recalls = [f"{near:,} of {listed:,} ({near / listed:.0%})" for near, listed in counted["near"]]
    found, wrong, groups = counted["found"], counted["wrong"], counted["groups"]
    return [
        " to ".join(recalls),
        f"{found:,}",
        f"{wrong:,}",
        f"{1 - wrong / found:.0%}",
        f"{groups:,}",
        f"{counted['largest']:,}",
        f"{counted['right share of groups']:.0%}",
    ]


def page_table(written: Mapping[str, Any]) -> str:
    """Return the table of recall and precision."""
    rows = [
        [title, *(cell.replace("%", " %") for cell in cells(written[name][key]))]
        for name, titles in ROWS.items()
        for key, title in titles.items()
    ]
    return table(HEAD, rows)


def grouped(written: Mapping[str, Any]) -> str:
    """Return the paragraph on pairs and groups."""
    across = written["cifar10"]["train"]
    return (
        "Precision is given twice. In one column each pair counts once. In the last column each connected group of "
        "images counts once, with its share of right pairs.\n"
        f"This matters, because {across['largest']:,} of CIFAR-10's {across['found']:,} pairs of a test and a "
        "training image lie in one connected group, mostly of one car in many copies."
    )


def in_pairs(written: Mapping[str, Any]) -> str:
    """Return the sentence on test images in near pairs."""
    ten, hundred = (written[name]["test images in pairs"] for name in ("cifar10", "cifar100"))
    return f"Of the 10,000 test images, {hundred:,} of CIFAR-100 and {ten:,} of CIFAR-10 are in a near pair."


def blocks(recorded: Figures) -> dict[str, str]:
    """Return the page's blocks by name."""
    written = counts(recorded)
    return {"judged pairs": page_table(written), "groups": grouped(written), "test images": in_pairs(written)}
