"""What `build folder` ends with 0, `verify` calls whole and `load_dataset` returns, whatever names and headers are."""

import collections
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.own_folders.law import breach, build, refusal
from tests.own_folders.pictures import FORMS, encoded
from tests.own_folders.trees import known_tree, made, put, rng_of, unknown_tree

TREES = 10
"""Folders of a build: one of known classes, and the others of unknowns."""


def names_of(number):
    return [f"u{place}" for place in range(number)]


def broken(known, unknown, out):
    """How a build of folders that are not refused breaks the law; empty if it does not."""
    built = build(known, unknown, out)
    return breach(known, unknown, out) if built.code == 0 else f"build ended with {built.code}: {built.text}"


# Names, one by one

TAKEN = (
    *("dog/~x.png", "dog/x~.png", "dog/file:x.png", "dog/C:x.png", "dog/ x.png"),
    *("-rf/x.png", "=1+1/x.png", "con/nul.png", "\u05db\u05dc\u05d1/x.png", "\U0001f431/\U0001f431.png"),
    *("\U0001f468\u200d\U0001f469/x.png", "a\u00a0b/x.png", "\u3000/x.png", "\u0378/x.png", "cafe\u0301/x.png"),
    *("[a]/*?.png", "a::b/x.png", "train/x.png", "all/all.png", "a\\b/x.png", f"{'x' * 255}/{'y' * 251}.png"),
)
REFUSED = (
    *("~/x.png", "~tmp/x.png", "C:/x.png", "file:/x.png", "\\x/x.png", "C:\\x/x.png", "dog/back\\slash.png"),
    *("dog/C:\\x.png", "back\\slash.png", "\\x.png"),
)


def test_legal_names_are_built_and_read(plain, tmp_path):
    """Each in a folder of its own. Of one alone, `train` would be a partition, so that there is a class beside it."""
    unknown = {}
    for name, path in zip(names_of(len(TAKEN)), TAKEN, strict=True):
        unknown[name] = tmp_path / name
        put(unknown[name], path, encoded(rng_of(1), "png"))
        put(unknown[name], "zebra/z.png", encoded(rng_of(2), "png"))
    assert [refusal(root) for root in unknown.values()] == [""] * len(unknown)
    assert broken(plain, unknown, tmp_path / "out") == ""


@pytest.mark.parametrize("path", REFUSED)
def test_names_that_verify_would_call_absolute_are_refused_in_one_sentence(plain, tmp_path, path):
    put(tmp_path / "near", path, encoded(rng_of(1), "png"))
    built = build(plain, {"near": tmp_path / "near"}, tmp_path / "out")
    assert built.code == 2
    assert f"{tmp_path / 'near'} has names that some systems read as absolute paths or as folders: {path}. Rename" in (
        built.text
    )
    assert not (tmp_path / "out").exists()


def test_a_partition_does_not_hide_a_class_that_reads_as_a_path(plain, tmp_path):
    for partition in ("train", "test"):
        shutil.copytree(plain, tmp_path / "known" / partition)
        put(tmp_path / "known" / partition, "\\x/x.png", encoded(rng_of(1), "png"))
    assert "train/\\x/x.png" in refusal(tmp_path / "known")


@pytest.mark.parametrize("form", FORMS)
def test_every_form_is_taken(tmp_path, form):
    put(tmp_path, "dog/x.png", encoded(rng_of(1), form))
    assert refusal(tmp_path) == ""


# Names by hypothesis

ANY = st.text(st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1, max_size=8)
ODD = st.text(st.sampled_from("~\\:.C x\u00e9e\u0301\uff45"), min_size=1, max_size=3)
NAMES = st.one_of(ANY, ODD, st.sampled_from(["file:", "C:", "~"])).filter(lambda name: name not in (".", ".."))
FOLDERS = st.lists(st.tuples(NAMES, NAMES), min_size=1, max_size=4, unique=True)


@pytest.mark.parametrize(
    "examples", [6, pytest.param(300, marks=[pytest.mark.fuzz, pytest.mark.timeout(7200)])], ids=str
)
def test_folders_of_any_names(plain, examples):
    """Each has two classes at least, and of all that are not refused one release is built."""

    # An example takes a second, so that no failing one is made smaller.
    @settings(max_examples=examples, phases=[Phase.generate], derandomize=True, suppress_health_check=[*HealthCheck])
    @given(st.lists(FOLDERS, min_size=3, max_size=8))
    def law(folders):
        with tempfile.TemporaryDirectory() as place:
            unknown = {}
            for name, files in zip(names_of(len(folders)), folders, strict=True):
                root = Path(place, name)
                put(root, "zebra/z.png", encoded(rng_of(2), "png"))
                for number, (folder, file) in enumerate(files):
                    put(root, f"{folder}/{file}.png", encoded(rng_of(number), "png"))
                if not refusal(root):
                    unknown[name] = root
            if unknown:
                assert broken(plain, unknown, Path(place, "out")) == ""

    law()


# Thousands


def judged(plain, tmp_path, builds):
    """Build releases of folders by seeds; returns how many were built, and refused for which kind of reason."""
    counts, wrong = collections.Counter(), []
    for number in builds:
        work = tmp_path / str(number)
        known, unknown = made(known_tree, work / "known", TREES * number), {}
        reasons = [refusal(known)]
        for place, name in enumerate(names_of(TREES - 1), start=1):
            root = made(unknown_tree, work / name, TREES * number + place)
            reasons.append(refusal(root, flat=f"far_ood_{name}"))
            if not reasons[-1]:
                unknown[name] = root
        counts.update("built" if not reason else kind_of(reason) for reason in reasons)
        known = plain if reasons[0] else known
        breached = broken(known, unknown, work / "out")
        if breached:
            wrong.append(f"build {number}: {breached}")
        shutil.rmtree(work)
    assert wrong == []
    return counts


KINDS = {
    "has names that some systems read as": "path",
    "has a name that does not print": "not printed",
    "has no image": "no image",
    "beside its class folders": "loose images",
    "no class folders": "loose images",
    "has a class under two names": "two names",
    "images twice, in": "partitions",
    "and beside them": "partitions",
}


def kind_of(reason):
    """The kind of a refusal, all of which are of names and none of an image."""
    return next(kind for sentence, kind in KINDS.items() if sentence in reason)


SOME, MORE, THOUSANDS = range(4), range(4, 40), range(1_000, 1_300)


@pytest.mark.parametrize(
    "builds",
    [
        SOME,
        pytest.param(MORE, marks=pytest.mark.slow),
        pytest.param(THOUSANDS, marks=[pytest.mark.fuzz, pytest.mark.timeout(7200)]),
    ],
    ids=lambda builds: f"{TREES * len(builds)} folders",
)
def test_folders_of_odd_names_endings_and_headers(plain, tmp_path, builds):
    counts = judged(plain, tmp_path, builds)
    assert counts["built"] > counts.total() / 2, counts
    assert {"path", "not printed"} <= counts.keys()
