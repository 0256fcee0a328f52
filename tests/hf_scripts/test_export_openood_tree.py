"""An export as OpenOOD's folders is opened by the rules of OpenOOD's own loaders, whichever splits it has.

The rules are those of OpenOOD (github.com/Jingkang50/OpenOOD at 3c35632, of December 2025): in
`openood/evaluation_api/datasets.py` the lists of `DATA_INFO`, all of which `get_id_ood_dataloader` opens, and the
folders that `data_setup` downloads; in `openood/datasets/imglist_dataset.py` how a line is read. Its loaders and its
`Evaluator` were run on an export of the demo; here they are written down as facts.
"""

import ast
import shutil
from collections import Counter
from pathlib import Path

import datasets
import pyarrow.parquet as pq
import pytest
from PIL import ExifTags, Image

from builders.release.manifest import read_manifest
from builders.release.openood_tree import LISTS
from hf_scripts import export
from tests.hf_scripts.exporting import written
from tests.killing import watched_at_renames
from tests.manifests import manifest_of
from tests.sentences import assert_sentence

UNKNOWN = ("val_openimage_o", "test_ssb_hard", "test_ninco", "test_inaturalist", "test_textures", "test_openimage_o")
FAR = ("test_mnist", "test_svhn", "test_texture", "test_places365")
OPENED = {
    "cifar10": (
        *("train_cifar10", "val_cifar10", "test_cifar10", "test_cifar10c"),
        *("val_tin", "test_cifar100", "test_tin", *FAR),
    ),
    "cifar100": (
        *("train_cifar100", "val_cifar100", "test_cifar100"),
        *("val_tin", "test_cifar10", "test_tin", *FAR),
    ),
    "imagenet": (
        *("train_imagenet", "val_imagenet", "test_imagenet"),
        *("test_imagenet_v2", "test_imagenet_c", "test_imagenet_r", "test_imagenet_es"),
        *UNKNOWN,
    ),
    "imagenet200": (
        *("train_imagenet200", "val_imagenet200", "test_imagenet200"),
        *("test_imagenet200_v2", "test_imagenet200_c", "test_imagenet200_r"),
        *UNKNOWN,
    ),
}
"""The lists of each benchmark, in `benchmark_imglist/<benchmark>`."""

KNOWN_CLASSES = {"cifar10": 10, "cifar100": 100, "imagenet": 1000, "imagenet200": 200}

LARGE = ("imagenet_1k", "ssb_hard", "ninco", "inaturalist", "openimage_o")
LARGE += ("imagenet_v2", "imagenet_c", "imagenet_r", "imagenet_es")
CLASSIC = ("cifar10", "cifar100", "tin", "mnist", "svhn", "texture", "places365")
DOWNLOADED = [*(f"images_largescale/{name}" for name in LARGE), *(f"images_classic/{name}" for name in CLASSIC)]
"""Folders that are downloaded unless they have a file (`benchmarks_dict`, `dir_dict`)."""

NO_BENCHMARK = {"cifar10/test_cifar10c", "imagenet/test_imagenet_es"}
"""Lists of images that no benchmark of ours has."""

FIRST = "openood-imagenet1k/openimage_o_validation"
MORE = ("openood-imagenet1k/openimage_o", "openood-imagenet200/openimage_o_validation")


def run(release, out, *splits):
    flags = ["--splits", ",".join(splits)] if splits else []
    return export.main([str(release), "--format", "openood-tree", "--out", str(out), "--quiet", *flags])


def lines_of_loaders(root):
    """The lines of each list that OpenOOD's loaders open, each line read as `ImglistDataset` reads it."""
    lines = {}
    for benchmark, names in OPENED.items():
        for name in names:
            classic = "cifar" in benchmark or name == "test_textures"
            data_dir = root / ("images_classic" if classic else "images_largescale")
            with (root / "benchmark_imglist" / benchmark / f"{name}.txt").open() as opened:
                of_list = lines[f"{benchmark}/{name}"] = opened.readlines()
            for line in of_list:
                image_name, extra = line.strip("\n").split(" ", 1)
                assert not image_name.startswith("/")
                assert -1 <= ast.literal_eval(extra) < KNOWN_CLASSES[benchmark]
                with Image.open(data_dir / image_name) as image:
                    assert image.convert("RGB").size
    return lines


def is_downloaded(folder):
    """By `require_download`, whose path ends with the data set's name: the first file of any name is enough."""
    return not any(folder.iterdir())


@pytest.fixture(scope="module")
def read(openood_tree):
    """The lines that OpenOOD's loaders find in it, by list."""
    return lines_of_loaders(openood_tree)


def test_every_list_that_openood_opens_is_there_and_is_empty_where_no_split_fills_it(openood_release, read):
    rows = {key: split.rows for key, split in read_manifest(openood_release).by_key().items() if key in LISTS}
    filled = {LISTS[key].removeprefix("benchmark_imglist/").removesuffix(".txt"): n for key, n in rows.items()}
    assert Counter({name: len(lines) for name, lines in read.items()}) == Counter(filled)
    empty = {name for name, lines in read.items() if not lines}
    assert empty == {"imagenet/train_imagenet", "imagenet200/train_imagenet200", *NO_BENCHMARK}


def test_openoods_loader_and_datasets_see_the_same_pixels_but_where_exif_turns_a_photograph(
    openood_release, openood_tree
):
    """`ImglistDataset` opens a file and converts it to RGB; `datasets` turns it first, and so do extractions here."""
    other, turned = set(), set()
    shards = manifest_of(openood_release)["configs"]["openood-imagenet1k"]["splits"]["textures"]["data"]
    for row in (row for shard in shards for row in pq.read_table(openood_release / shard["path"]).to_pylist()):
        seen = datasets.Image().decode_example(row["image"]).convert("RGB")
        with Image.open(openood_tree / "images_classic" / "texture" / row["source_id"]) as image:
            if image.getexif().get(ExifTags.Base.Orientation, 1) != 1:
                turned.add(row["source_id"])
            theirs = image.convert("RGB")
        if theirs.size != seen.size or theirs.tobytes() != seen.tobytes():
            other.add(row["source_id"])
    assert other == turned == {"zigzagged/zigzagged_0001.jpg"}


def test_a_loader_of_torch_goes_over_an_empty_list_in_order(read):
    data = pytest.importorskip("torch.utils.data", reason="torch is not installed; the lists above need none")
    for lines in read.values():
        assert sum(map(len, data.DataLoader(lines, batch_size=64))) == len(lines)


def test_openood_downloads_nothing_into_an_export(openood_tree):
    assert [folder for folder in DOWNLOADED if is_downloaded(openood_tree / folder)] == []


def reasons(out):
    text = (out / "README.txt").read_text(encoding="utf-8")
    lines = text.partition("Empty lists:\n")[2].partition("\n\n")[0].splitlines()
    return dict(line.removeprefix("benchmark_imglist/").split(".txt: ") for line in lines)


def test_the_readme_says_which_lists_are_empty_and_why(openood_release, openood_tree, tmp_path):
    assert reasons(openood_tree) == {
        "imagenet/train_imagenet": "openood-imagenet1k-train/train is not in the release",
        "imagenet200/train_imagenet200": "openood-imagenet200-train/train is not in the release",
        **dict.fromkeys(NO_BENCHMARK, "no benchmark of unknown-detection has these images"),
    }
    assert run(openood_release, tmp_path / "out", FIRST) == 0
    few = reasons(tmp_path / "out")
    assert few["imagenet/test_ninco"] == "openood-imagenet1k/ninco is not exported"
    lines = lines_of_loaders(tmp_path / "out")
    assert few.keys() == {name for name, of_list in lines.items() if not of_list}
    assert "imagenet/val_openimage_o" not in few and len(lines["imagenet/val_openimage_o"]) == 6


def test_splits_exported_one_after_another_make_the_export_of_all(openood_release, tmp_path):
    for key in (*MORE, FIRST):
        assert run(openood_release, tmp_path / "one-by-one", key) == 0
    assert run(openood_release, tmp_path / "together", FIRST, *MORE) == 0
    assert written(tmp_path / "one-by-one") == written(tmp_path / "together")


def test_a_killed_export_leaves_every_file_as_before_or_as_in_the_end(openood_release, tmp_path):
    """The README and the empty lists, too, which follow from all of the export's splits."""
    out = tmp_path / "out"
    assert run(openood_release, out, FIRST) == 0
    before = written(out)
    # The record, 54 images, the list, the record; of the second split, whose images are there, no image; the README.
    watched = watched_at_renames([1, 30, 56, 57, 58, 59, 60, 61], out, lambda: run(openood_release, out, *MORE))
    assert watched.renames == 61
    after = written(out)
    assert before["README.txt"] != after["README.txt"]
    for state in sorted(watched.states.iterdir()):
        visible = {name: data for name, data in written(state).items() if not name.endswith(".tmp")}
        assert before.keys() <= visible.keys()
        assert {name for name, data in visible.items() if data not in (before.get(name), after.get(name))} == set()
        assert run(openood_release, watched.as_killed(int(state.name)), *MORE) == 0
        assert written(out) == after


def test_a_list_that_a_killed_export_left_is_empty_until_its_split_is_exported(
    openood_release, openood_tree, tmp_path
):
    out = tmp_path / "out"
    assert run(openood_release, out, FIRST) == 0
    named = Path("benchmark_imglist", "imagenet", "test_ninco.txt")
    shutil.copyfile(openood_tree / named, out / named)
    assert run(openood_release, out, FIRST) == 0
    assert (out / named).read_bytes() == b""


@pytest.mark.parametrize("folder", ["benchmark_imglist", "images_largescale/ninco"])
def test_a_link_in_the_place_of_a_folder_is_refused(folder, openood_release, tmp_path, capsys):
    """Also one that would have only an empty list or a note."""
    out, victim = tmp_path / "out", tmp_path / "victim"
    assert run(openood_release, out, FIRST) == 0
    shutil.rmtree(out / folder)
    victim.mkdir()
    (out / folder).symlink_to(victim)
    assert run(openood_release, out, FIRST) == 2
    assert_sentence(capsys.readouterr().err, out)
    assert list(victim.iterdir()) == []
