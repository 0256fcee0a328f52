"""Makes the tables of `docs/performance.md` from the recorded figures (`benchmarks.pages` writes them)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from benchmarks.figures import Figures
from benchmarks.tables import compared, seconds, table

SAME_RUN = "the same run"


@dataclass(frozen=True)
class Comparison:
    """A row for each rival in a benchmark.

    Attributes:
        figures: the name under which they are recorded.
        what: the work, with names of what is recorded beside the medians in braces.
        command: that measures it.
        ours: our competitor.
        rivals: words for each of the others.
        clock: the medians that are compared.
    """

    figures: str
    what: str
    command: str
    ours: str
    rivals: Mapping[str, str]
    clock: str = "processor"


def _detectors(of: str, what: str, rival: str, number: int) -> Comparison:
    command = "python -m benchmarks.evaluating.detectors" if number == 0 else SAME_RUN
    return Comparison("evaluating.detectors", what, command, f"{of}, ours", {f"{of}, other": rival})


def _nearest(width: int, bank: int) -> Iterator[Comparison]:
    for name, title in (("knn", "KNN"), ("nnguide", "NNGuide")):
        yield Comparison(
            f"evaluating.nearest, {width}, {bank}",
            f"{title}, fit and score, {{rows:,}} rows against {{bank:,}} of {{width:,}} features, {{threads}} threads",
            "python -m benchmarks.evaluating.nearest" + f" --width {width}" * (width != 2048),
            f"{name}, ours",
            {f"{name}, other": "faiss's flat index, as OpenOOD uses it"},
        )


COMPARISONS = (
    Comparison(
        "building.release",
        "{images:,} JPEGs of 85 KB in 1,000 folders to a Parquet release, digests included (the pipeline, without the "
        "search for near-duplicates)",
        "python -m benchmarks.building.release --scratch DIR",
        "builders",
        {
            "imagefolder + to_parquet": '`load_dataset("imagefolder")`, embed, `to_parquet`',
            "cp -r": "`cp -r` of the tree, which hashes nothing",
        },
    ),
    Comparison(
        "building.cifar",
        "CIFAR-40/60 (30,000 images) from the pickles, without the search for near-duplicates",
        "python -m benchmarks.building.cifar --scratch DIR",
        "builders",
        {"from_generator + to_parquet": "`Dataset.from_generator` of PIL images and `to_parquet`"},
    ),
    Comparison(
        "planning.complete_sources, imagenet",
        "planning all {files:,} files of ILSVRC2012, from start to printed counts",
        "python -m benchmarks.planning.complete_sources imagenet --scratch DIR",
        "plan 1,331,167",
        {"bare os.walk": "a bare `os.walk` of the folders"},
    ),
    Comparison(
        "duplicates.near",
        "near-duplicates of {queries:,} images among {references:,}, shifted, mirrored or recoloured copies included",
        "python -m benchmarks.duplicates.near --queries 2000 --references 8000 --sample 200",
        "find",
        {"raw-pixel neighbours": "scikit-learn's nearest neighbour of raw pixels, from 200 queries"},
    ),
    Comparison(
        "duplicates.exact",
        "exact copies among the {rows:,} rows of all ImageNet-scale splits",
        "python -m benchmarks.duplicates.exact",
        "builders",
        {"pandas": "pandas", "a dictionary": "a dictionary"},
    ),
    Comparison(
        "building.release_page",
        "the page of a release of {rows:,} rows in 40 splits, with 480 pictures",
        "python -m benchmarks.building.release_page --scratch DIR",
        "python -m builders.commands.report",
        {"reading the indexes": "reading the indexes' four columns with pyarrow"},
    ),
    Comparison(
        "evaluating.metrics",
        "all metrics of {rows:,} scores",
        "python -m benchmarks.evaluating.metrics --rows 2000000",
        "ours, all metrics",
        {
            "numpy.argsort": "one `numpy.argsort` of them",
            "torchmetrics": "most of them by torchmetrics",
            "scikit-learn": "by scikit-learn",
            "pytorch-ood": "by pytorch-ood",
        },
    ),
    _detectors(
        "score", "scores of eleven detectors for {rows} images, one shared pass of a ResNet-18", "pytorch-ood", 0
    ),
    _detectors("fit and score", "the same with fitting on {rows} images", "pytorch-ood", 1),
    _detectors(
        "fit of vim",
        "fit of ViM, 4,096 rows of 2,048 features, 1,000 classes, in float64",
        "pytorch-ood in float32",
        1,
    ),
    _detectors("fit of react", "fit of ReAct, the same rows", "NumPy's percentile, as OpenOOD fits it", 1),
    *_nearest(2048, 8192),
    *_nearest(512, 8192),
)

_DOCTOR = {
    "small": "JPEGs of 800 bytes, all of one size",
    "photographs": "photographs of 110 KB",
    "tar": "of these in one tar",
    "gigabytes": "links to 2,000 of these",
}
"""What `benchmarks.planning.doctor` reads, in words."""

NOT_RUN = "No run is recorded."

COMMANDS = {
    "build folder": "imagefolder, embed, `to_parquet`: decodes and hashes nothing",
    "verify": "`datasets` reads the release and decodes each image",
    "materialize": "imagefolder, embed, `to_parquet`: decodes and hashes nothing",
    "report": "",
}

UNMEASURED = (
    ("fixed resize of JPEGs as a whole build, beside a bare Pillow loop", "python -m benchmarks.making.fixed_resize"),
    ("BROAD's four corruptions on one core and on two", "python -m benchmarks.making.corruptions"),
    ("PGD beside torchattacks", "python -m benchmarks.making.pgd"),
    ("planning FACETS and OpenOOD from complete sources", "python -m benchmarks.planning.complete_sources facets"),
    ("similarities of WordNet's classes beside nltk", "python -m benchmarks.planning.class_similarity"),
    ("Mahalanobis and OpenMax beside pytorch-ood", "python -m benchmarks.evaluating.mahalanobis"),
    ("hashing images beside a forward pass", "python -m benchmarks.evaluating.hashing"),
    ("a Ray cluster beside the local executor", "python -m benchmarks.building.ray_cluster"),
    ("a release in object storage", "python -m benchmarks.building.object_storage"),
)
"""Comparisons with commands of which no figures are recorded."""


def note(measured: Mapping[str, Any]) -> str:
    """Return at which commit, when and beside how many waiting processes something was measured."""
    return f"{measured['commit']}, {measured['date']}, {measured['load']:g}"


def comparisons(recorded: Figures) -> str:
    """Return the table of all comparisons that have figures."""
    rows = []
    for each in COMPARISONS:
        if each.figures not in recorded:
            continue
        of = recorded[each.figures]
        medians = of["medians"]
        ours = medians[each.ours]
        memory = f", {ours['peak_mb']:,} MB" if ours.get("peak_mb") else ""
        own = [each.what.format(**of), seconds(ours[each.clock]) + memory]
        last = [note(of["measured"]), f"`{each.command}`" if each.command.startswith("python") else each.command]
        for rival, words in each.rivals.items():
            if rival not in medians:  # not measured in this run
                continue
            other = medians[rival][each.clock]
            rows.append([*own, f"{words}: {seconds(other)}", compared(ours[each.clock], other), *last])
            own, last = ["", ""], ["", SAME_RUN]
    return table(["what", "ours", "the other", "ours is, or", "commit, date, load", "command"], rows, text=6)


def commands(recorded: Figures) -> str:
    """Return the table of what users run."""
    of = recorded.get("building.commands")
    if of is None:
        return NOT_RUN
    medians, rows = of["medians"], []
    for name, other in COMMANDS.items():
        own, least = medians[name], medians[f"{name}, least"]
        rival = medians.get(f"{name}, datasets")
        beside = f"{seconds(rival['processor'])}: {compared(own['processor'], rival['processor'])}" if rival else ""
        rows.append(
            [
                f"`{name}`",
                other,
                seconds(own["processor"]),
                f"{own['peak_mb']:,}",
                f"{seconds(least['processor'])}: {own['processor'] / least['processor']:.1f} times",
                beside,
                f"{of['exponents'][name] or 0:.2f}",
            ]
        )
    head = ["command", "what `datasets` does", "processor time", "MB", "least work", "`datasets`", "exponent"]
    sizes = sorted(map(int, of["processor"]))
    mean = of["bytes"] / of["images"] / 1000
    intro = (
        f"{of['images']:,} images of {mean:.0f} KB, on {of['measured']['machine']} ({note(of['measured'])}); the "
        f"exponent is over {', '.join(f'{size:,}' for size in sizes)} images:"
    )
    return f"{intro}\n\n{table(head, rows, text=2)}"


def growing(recorded: Figures) -> str:
    """Return the table of the commands' processor seconds at each size, and of what an image more takes."""
    if "building.commands" not in recorded:
        return NOT_RUN
    of = recorded["building.commands"]["processor"]
    sizes = sorted(of, key=int)
    less, more = sizes[0], sizes[-1]
    rows = []
    beside = ("", ", least", ", pipeline", ", decoding", ", products", ", datasets")
    for name in (each + part for each in COMMANDS for part in beside):
        if name in of[less]:
            each = (of[more][name] - of[less][name]) / (int(more) - int(less))
            rows.append(
                [name, *(f"{of[size][name]:.2f}" for size in sizes), f"{each * 1000:.2f}" if each > 0 else "noise"]
            )
    return table(["processor seconds", *(f"{int(size):,} images" for size in sizes), "ms an image more"], rows)


def wall(recorded: Figures) -> str:
    """Return the table of wall times, and of both times of `build folder` beside the sum of its parts."""
    of = recorded.get("building.commands", {})
    if "ratios" not in of:
        return NOT_RUN
    sizes = sorted(of["ratios"], key=int)
    rows = [
        [f"`{name.partition(',')[0]}`{', beside the sum of its parts' if ',' in name else ''}"]
        + [f"{of['ratios'][size][name][clock]:.2f}" for clock in ("processor", "wall") for size in sizes]
        for name in of["ratios"][sizes[-1]]
    ]
    head = [f"{clock}, {int(size):,} images" for clock in ("processor", "wall") for size in sizes]
    return table(["times the least work's processor time", *head], rows)


def build_cost(recorded: Figures) -> str:
    """Return the table of what a GB more costs in a build."""
    of = recorded["building.cost"]
    costs = of["costs"]
    base = next(cost["seconds a GB"] for name, cost in costs.items() if name.startswith("SHA-256"))
    rows = [
        [name, f"{cost['seconds a GB']:.2f}", f"{cost['seconds a GB'] / base:.1f}", f"{max(0.0, cost['start']):.1f}"]
        for name, cost in costs.items()
    ]
    return table(
        [f"`python -m benchmarks.building.cost` ({note(of['measured'])})", "s a GB", "ratio", "start, s"], rows
    )


def doctor(recorded: Figures) -> str:
    """Return the table of `doctor` beside `sha256sum`, in processor time and by the clock."""
    rows = []
    for kind, words in _DOCTOR.items():
        if (of := recorded.get(f"planning.doctor, {kind}")) is None:
            continue
        ours, other = (of["medians"][name] for name in ("doctor", "sha256sum"))
        rows.append(
            [
                f"{of['files']:,} {words}",
                f"{of['bytes'] / 1e9:.1f}",
                seconds(ours["processor"]),
                seconds(other["processor"]),
                f"{ours['processor'] / other['processor']:.2f}",
                f"{ours['seconds'] / other['seconds']:.2f}",
                f"{ours['peak_mb']:,}",
                note(of["measured"]),
            ]
        )
    head = ["images", "GB", "`doctor`", "`sha256sum`", "ratio", "ratio by the clock", "MB", "commit, date, load"]
    return table(head, rows) if rows else NOT_RUN


def unmeasured(recorded: Figures) -> str:
    """Return the list of comparisons of which no figures are stated."""
    lacking = [
        (re.sub(r"\{[^}]*\} ?", "", each.what), each.command)
        for each in COMPARISONS
        if each.figures not in recorded and each.command != SAME_RUN
    ]
    return "\n".join(f"- {what}: `{command}`" for what, command in (*lacking, *UNMEASURED))


def blocks(recorded: Figures) -> dict[str, str]:
    """Return the page's blocks by name."""
    return {
        "commands": commands(recorded),
        "sizes": growing(recorded),
        "wall": wall(recorded),
        "comparisons": comparisons(recorded),
        "cost": build_cost(recorded),
        "doctor": doctor(recorded),
        "unmeasured": unmeasured(recorded),
    }
