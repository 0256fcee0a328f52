"""A copy of OpenOOD's folders against the release that it was exported from."""

import csv
import re
import shutil
from pathlib import Path

import pytest

from builders.commands.audit import main
from builders.openood_benchmark import BENCHMARK
from builders.release.manifest import read_manifest
from builders.release.openood_tree import IMAGES, LISTS
from hf_scripts.export import main as export
from tests.published_lists import lines, needs_lists
from tests.sentences import assert_sentence

NINCO = "openood-imagenet1k/ninco"
IMGLISTS = Path("benchmark_imglist", "imagenet")


@pytest.fixture
def changed(openood_tree, tmp_path):
    """A copy of the lists, and of NINCO's images alone."""
    for folder in ("benchmark_imglist", "images_largescale/ninco"):
        shutil.copytree(openood_tree / folder, tmp_path / "data" / folder)
    return tmp_path / "data"


def audit(release, copy, *flags):
    return main(["openood", str(release), str(copy), *map(str, flags)])


def test_what_is_exported_is_equal_in_every_split_that_openood_has(openood_release, openood_tree, capsys):
    assert audit(openood_release, openood_tree) == 0
    manifest = read_manifest(openood_release)
    ours = {key: split.rows for key, split in manifest.by_key().items() if key in LISTS}
    table = [line.split() for line in capsys.readouterr().out.splitlines()[1:]]
    assert {key: int(rows.replace(",", "")) for key, rows, *_ in table} == ours
    assert {(rows == equal, missing, other, listed) for _, rows, equal, missing, other, listed in table} == {
        (True, "0", "0", "equal")
    }
    assert "mos/test" in manifest.by_key() and "mos/test" not in LISTS
    assert LISTS.keys() == {key for key in BENCHMARK.parts if key.startswith("openood-")}


def test_each_difference_is_named_with_its_kind(openood_release, changed, tmp_path, capsys):
    first, second, third, *_ = sorted((changed / "images_largescale" / "ninco").rglob("*.jpg"))
    first.write_bytes(first.read_bytes() + b"\0")
    second.unlink()
    listed = changed / IMGLISTS / "test_ninco.txt"
    names = [path.relative_to(changed / "images_largescale").as_posix() for path in (first, second, third)]
    list_lines = [line for line in listed.read_text().splitlines() if not line.startswith(names[0])]
    list_lines = [f"{names[2]} 7" if line.startswith(names[2]) else line for line in list_lines]
    listed.write_text("\n".join([*list_lines, "ninco/another.jpg -1"]) + "\n")

    assert audit(openood_release, changed, "--splits", NINCO, "--out", tmp_path / "differences.csv") == 1
    assert "4 differences" not in capsys.readouterr().out.splitlines()[0]
    with (tmp_path / "differences.csv").open(newline="") as opened:
        differences = {(line["split"], line["path"], line["difference"]) for line in csv.DictReader(opened)}
    assert differences == {
        (NINCO, f"images_largescale/{names[0]}", "other content"),
        (NINCO, f"images_largescale/{names[1]}", "missing"),
        (NINCO, names[0], "not in the list"),
        (NINCO, names[2], "other label in the list"),
        (NINCO, "ninco/another.jpg", "in the list alone"),
    }


def test_a_copy_without_lists_is_compared_by_its_images(openood_release, changed, capsys):
    shutil.rmtree(changed / "benchmark_imglist")
    assert audit(openood_release, changed, "--splits", NINCO) == 0
    assert capsys.readouterr().out.splitlines()[1].split()[-1] == "none"


def test_what_is_no_copy_and_what_has_no_list_is_refused(
    openood_release, cifar_release, openood_tree, tmp_path, capsys
):
    for release, copy, words in (
        (openood_release, tmp_path, "images_largescale"),
        (cifar_release, openood_tree, "no split"),
    ):
        assert audit(release, copy) == 2
        assert words in capsys.readouterr().err
    out = tmp_path / "out"
    assert export([str(openood_release), "--format", "openood-tree", "--splits", "mos", "--out", str(out)]) == 2
    assert not out.exists()
    assert_sentence(capsys.readouterr().err, "mos/")


@needs_lists
def test_lines_are_those_of_the_published_lists(openood_tree):
    """Of the two sources whose demo has published names; the others have names of their own."""
    for name in ("ssb_hard", "inaturalist"):
        ours = (openood_tree / IMGLISTS / f"test_{name}.txt").read_text().splitlines()
        assert ours and ours == sorted(ours) and set(ours) <= set(lines(name))


@needs_lists
@pytest.mark.parametrize(
    ("name", "source", "source_id"),
    [
        ("openood_validation", "imagenet", r"val/ILSVRC2012_val_\d{8}\.JPEG"),
        ("ssb_hard", "imagenet21k", r"(n\d{8})/\1_\d+\.JPEG"),
        ("ninco", "ninco", r"\w[^/]*/[^/]+\.\w+"),
        ("textures", "dtd", r"([a-z-]+)/\1_\d{4}\.jpg"),
        ("inaturalist", "inaturalist", r"[0-9a-f]{32}\.jpg"),
        ("openimage_o", "openimage_o", r"[0-9a-f]{16}\.jpg"),
        ("imagenet_v2", "imagenet_v2", r"\d+/[0-9a-f]{40}\.jpeg"),
        ("imagenet_r", "imagenet_r", r"n\d{8}/\w+_\d+\.jpg"),
        ("openood_imagenet_c", "imagenet_c", r"\w+/[1-5]/ILSVRC2012_val_\d{8}\.JPEG"),
    ],
)
def test_every_published_path_is_the_place_of_an_image_of_our_source(name, source, source_id):
    """The ids are written out here as each source's module gives them."""
    folder = f"{IMAGES[source][1]}/"
    for line in lines(name):
        path = line.rpartition(" ")[0]
        assert path.startswith(folder) and re.fullmatch(source_id, path.removeprefix(folder)), path
