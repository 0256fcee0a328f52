"""Print the table of `docs/benchmarks/duplicates.md`: `python -m benchmarks.duplicates.page`.

Every number is of `figures.json`, which `benchmarks.duplicates.cifair` writes. A test compares both with the page.
"""

import json
from collections.abc import Mapping
from typing import Any

from benchmarks.duplicates.cifair import FIGURES
from benchmarks.scale_page import table

HEAD = ("images", "judged 0 or 1 and found", "found in all", "wrong", "precision", "groups", "largest", "by group")

ROWS = {
    "cifar100": {
        "train, half 0": "CIFAR-100, test and training, half 0",
        "train, half 1": "CIFAR-100, test and training, **half 1**",
        "test": "CIFAR-100, inside test, both halves",
    },
    "cifar10": {"train": "**CIFAR-10**, test and training", "test": "**CIFAR-10**, inside test"},
}


def figures() -> dict[str, Any]:
    """Return the figures of `benchmarks.duplicates.cifair`, by images."""
    written: dict[str, Any] = json.loads(FIGURES.read_text(encoding="utf-8"))
    return written


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


def sentences(written: Mapping[str, Any]) -> list[str]:
    """Return the page's sentences that state figures."""
    ten, hundred = (written[name] for name in ("cifar10", "cifar100"))
    across = ten["train"]
    return [
        f"{across['largest']:,} of CIFAR-10's {across['found']:,} pairs of a test and a training image lie in one "
        "connected group, mostly of one car in many copies",
        f"Of the 10,000 test images, {hundred['test images in pairs']:,} of CIFAR-100 and "
        f"{ten['test images in pairs']:,} of CIFAR-10 are in a near pair",
    ]


def main() -> None:
    """Print the table and the sentences."""
    written = figures()
    print(page_table(written), *sentences(written), sep="\n\n")


if __name__ == "__main__":
    main()
