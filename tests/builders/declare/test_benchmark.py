"""Declarations: what a build refuses of them, the counts that follow from them, and splits that are joined."""

import dataclasses

import pytest

from builders.commands.benchmark import run_command
from builders.declare.benchmark import Benchmark
from builders.declare.quotas import AllImages, DeclarationError, Half, Listed, PerClass, Rest, Total
from builders.declare.splits import (
    AllClasses,
    Classes,
    ClassesOf,
    Config,
    Draw,
    JoinedSplit,
    PaperCount,
    Part,
    Split,
    class_sizes,
)
from builders.generate.exact.resize import FIXED_RESIZE
from builders.registry import BENCHMARKS
from builders.sources.base import Expected
from builders.sources.datasets.caltech256 import CALTECH256
from builders.sources.datasets.cifar100 import CIFAR100
from builders.sources.datasets.dtd import DTD
from builders.sources.datasets.imagenet import IMAGENET
from builders.sources.datasets.svhn_full import SVHN_FULL
from tests.sentences import assert_sentence, stops

EVERYTHING = AllClasses("a test")


def split(name="test", *, kind=Split, **changes):
    values = {
        "role": "far_ood",
        "source": DTD,
        "partitions": ("images",),
        "classes": EVERYTHING,
        "quota": AllImages(),
        "paper": PaperCount(5_640),
    }
    return kind(name, **(values | changes))


def part(name, **changes):
    return split(name, kind=Part, **changes)


def svhn(name, **changes):
    return split(name, **({"source": SVHN_FULL, "partitions": ("test",)} | changes))


def config(*splits, name="one", **changes):
    return Config(name, **({"labels": ClassesOf(DTD), "description": "A test."} | changes), splits=splits)


def benchmark(*configs):
    return Benchmark("toy", "A toy", "1.0.0", 0, "", "", configs)


FIRST = split("first", quota=PerClass(10))
DRAWN = Classes("cifar100", "candidate", Draw(2, key="cifar/test"))

WRONG = {
    "rest of no split": ([config(split("second", quota=Rest("one/frist")))], "second: its quota names one/frist,"),
    "apart from no split": ([config(split(quota=Total(5, parent="two/first")))], "its quota names two/first, which"),
    "rest of a joined split, not of a part": (
        [config(JoinedSplit("first", (part("a", quota=Half()),)), split("second", quota=Rest("one/first")))],
        "one/second: its quota names one/first, which is no split or part",
    ),
    "rest of itself": ([config(split(quota=Rest("one/test")))], "one/test: it is drawn after one/test, which is"),
    "two rests of each other": (
        [config(split("a", quota=Rest("one/b")), split("b", quota=Rest("one/a")))],
        "one/a: it is drawn after one/a, which is drawn after it",
    ),
    "rest of other classes": ([config(svhn("a"), split("b", quota=Rest("one/a")))], "one/b: it is drawn after one/a"),
    "rest of other partitions": (
        [config(svhn("a"), svhn("b", partitions=("train",), quota=Rest("one/a")))],
        "one/b: it is drawn after one/a, which draws from other images",
    ),
    "apart from another source": (
        [config(FIRST, svhn("b", quota=PerClass(1, parent="one/first")))],
        "one/b: it is drawn after one/first, which draws from other images",
    ),
    "two configs of a name": ([config(FIRST), config(split())], "one: this name is given twice"),
    "two splits of a name": ([config(FIRST, FIRST)], "one/first: this name is given twice"),
    "two parts of a name": (
        [config(JoinedSplit("test", (part("a"), part("a", role="near_ood"))))],
        "one/test.a: this name is given twice",
    ),
    "an underscore in a config's name": ([config(FIRST, name="one_two")], "one_two: a config's name has lower-case"),
    "a hyphen in a split's name": ([config(split("far-ood"))], "one: the name 'far-ood' of a split or part"),
    "a point in a part's name": ([config(JoinedSplit("test", (part("a.b"),)))], "one: the name 'a.b' of a"),
    "ranked as no split": ([config(split(ranked_as="one/validation"))], "one/test: ranked_as names one/validation,"),
    "images of a list that is not there": ([config(split(quota=Listed(5, "mos_sunn")))], "no published list mos_sunn"),
    "ranked as a part": (
        [config(JoinedSplit("test", (part("a", ranked_as="one/test.a"),)))],
        "one/test.a: ranked_as names one/test.a, which is no split",
    ),
    "a draw keyed by no split": (
        [config(split(source=CIFAR100, partitions=("test",), classes=DRAWN))],
        "one/test: the draw of its classes is keyed by cifar/test, which is no split",
    ),
    "labels drawn by no split": ([config(FIRST, labels=DRAWN)], "one: the draw of its classes is keyed by cifar/test"),
    "duplicates of no split": ([config(FIRST, duplicates_of="one/train")], "one: duplicates_of names one/train,"),
    "a partition that the source lacks": (
        [config(split(partitions=("images", "val")))],
        "one/test: Describable Textures (DTD) has no partition val (it has images)",
    ),
    "no such table": ([config(split(classes=Classes("dtd", "keep")))], "no table of decisions dtd"),
    "no such decision": (
        [config(split(source=CALTECH256, classes=Classes("caltech256", "kept")))],
        "one/test: the table caltech256 decides no class to be kept",
    ),
    "parts that are alike": (
        [config(JoinedSplit("test", (part("a"), part("b", quota=Half()))))],
        "one/test: two of its parts have one role, source and partitions",
    ),
    "a part with generated images": (
        [config(JoinedSplit("test", (part("a", generator=FIXED_RESIZE),)))],
        f"one/test.a: a part cannot have generated images ({FIXED_RESIZE.description})",
    ),
    "a part of arrays": (
        [config(JoinedSplit("test", (part("a", source=CIFAR100, partitions=("test",)),)))],
        "one/test.a: a part cannot have generated images (the source's own pixels as PNG)",
    ),
    "an overlap that nobody looked for": ([config(split(role="near_ood"), overlaps="toy")], "compared for toy (there"),
}


@pytest.mark.parametrize(("configs", "sentence"), WRONG.values(), ids=WRONG.keys())
def test_a_wrong_declaration_is_refused(configs, sentence):
    with pytest.raises(DeclarationError) as caught:
        benchmark(*configs).check()
    assert_sentence(str(caught.value))
    assert sentence in str(caught.value)


def test_a_declaration_is_checked_when_it_is_built():
    assert split(source="dtd").source is DTD
    named = benchmark(config(split(source="dtd", partitions=("imags",))))
    with stops(DeclarationError, "one/test"):
        named.check()
    with stops(DeclarationError):
        run_command(named, ["--dry-run", "--quiet"])


def test_a_build_looks_at_the_sources_of_its_own_splits_alone(tmp_path, capsys):
    named = benchmark(config(split("first", source="dtd"), split("second", source="dtd", partitions=("imags",))))
    named.check(["one/first"])
    with stops(DeclarationError, "one/second"):
        named.check(["one/second"])
    assert run_command(named, ["--dry-run", "--quiet", "--splits", "one/first", "--dtd", str(tmp_path)]) == 2
    assert_sentence(capsys.readouterr().err, "--dtd")


def test_the_same_declarations_without_the_fault_are_taken():
    declared = benchmark(
        config(FIRST, split("second", quota=Rest("one/first")), name="one", duplicates_of="one/first"),
        config(JoinedSplit("test", (part("a"), part("b", role="near_ood"))), name="one-more"),
    )
    assert declared.splits == {
        "one/first": ("one/first",),
        "one/second": ("one/second",),
        "one-more/test": ("one-more/test.a", "one-more/test.b"),
    }
    declared.check()


@pytest.mark.parametrize("name", BENCHMARKS)
def test_a_registered_benchmark_has_no_mistake(name):
    BENCHMARKS[name].check()


# By hand: three classes of 7, 8 and 1 images. Python rounds 3.5 to 4 and 0.5 to 0.
@pytest.mark.parametrize(
    ("quota", "rows"),
    [
        (AllImages(), 16),
        (Half(), 4 + 4 + 0),
        (PerClass(5), 5 + 5 + 1),
        (PerClass(4, half=True), 3 + 4 + 0),
        (Total(10), 10),
        (Total(10, half=True), 8),
    ],
    ids=str,
)
def test_rows_of_a_quota(quota, rows):
    assert quota.expected(lambda: [7, 8, 1]) == rows


def test_a_rest_has_what_the_other_split_leaves():
    declared = benchmark(config(FIRST, split("second", quota=Rest("one/first"))))
    assert (declared.count("one/first").rows, declared.count("one/second").rows) == (470, 5_640 - 470)


def test_a_joined_split_counts_its_parts():
    parts = (
        part("a", quota=PerClass(2), paper=PaperCount(90, "theirs is 90", classes=45)),
        part("b", role="near_ood", quota=Total(30), paper=PaperCount(30, classes=2)),
    )
    declared = benchmark(config(JoinedSplit("test", parts)))
    count = declared.count("one/test")
    assert (count.rows, count.paper, count.why, count.classes) == (94 + 30, 120, "theirs is 90", 47)
    assert [declared.count(key).rows for key in declared.splits["one/test"]] == [94, 30]


def test_drawn_classes_have_the_size_of_any_or_no_count():
    # Two of each superclass's five classes, 100 test images each: CIFAR-40, and CIFAR-60 of the others.
    known = Classes("cifar100", "candidate", Draw(2, key="cifar/test", of_each_group=True))
    near = dataclasses.replace(known, draw=dataclasses.replace(known.draw, rest=True))
    assert (len(known), len(near)) == (40, 60)
    assert class_sizes(CIFAR100, ("test",), known) == [100] * 40
    drawn = Classes("imagenet", "near_candidate", Draw(200, key="imagenet/near_ood"))
    assert class_sizes(IMAGENET, ("val",), drawn) == [50] * 200
    with stops(DeclarationError):
        class_sizes(IMAGENET, ("train",), drawn)


def test_without_counts_by_class_a_total_serves_all_classes_only():
    uncounted = dataclasses.replace(CALTECH256, expected=lambda: {"images": Expected(30_607)})
    assert class_sizes(uncounted, ("images",), EVERYTHING) == [30_607]
    with stops(DeclarationError):
        class_sizes(uncounted, ("images",), Classes("caltech256", "keep"))


def test_labels_are_of_known_images_of_the_source_that_label_counts():
    places = config(FIRST)
    assert places.has_labels(split(role="in_distribution"))
    assert not places.has_labels(split())
    assert not places.has_labels(split(role="in_distribution", source=SVHN_FULL))
    # What an attack, a corruption or a generator makes of a class keeps it; novel and several classes have no label.
    for role in ("adversarial", "corruption", "synthetic"):
        assert places.has_labels(split(role=role))
        assert places.has_labels(split(role=role, source=dataclasses.replace(DTD, key="drawn")))
        assert not places.has_labels(split(role=role, source=SVHN_FULL))
    assert not places.has_labels(split(role="novel_class"))
    assert not places.has_labels(split(role="multi_label"))
    of_table = config(FIRST, labels=Classes("imagenet", "in_distribution"))
    assert of_table.has_labels(split(role="in_distribution", source=IMAGENET))
    assert not of_table.has_labels(split(role="corruption", source=IMAGENET))
    chosen = {"classes": of_table.labels, "source": IMAGENET}
    assert of_table.has_labels(split(role="corruption", **chosen))
    assert not of_table.has_labels(split(role="near_ood", **chosen))
    assert not of_table.has_labels(split(role="corruption", source=IMAGENET, classes=Classes("imagenet", "external")))
