"""MOS's archives: Places, whose names are Places365's ids, and SUN, whose names do not say their categories."""

import os
from collections import Counter

import pyarrow.parquet as pq
import pytest

from builders.openood_benchmark import BENCHMARK, main
from builders.sources.base import Stray
from builders.sources.opening import open_source
from builders.sources.registry import SOURCES
from taxonomy import lists, tables
from tests.builders.conftest import build_demo
from tests.builders.trees import opened, refusal, tree, write_tar
from tests.manifests import manifest_of, rows_in

PLACES = sorted(lists.load_list("mos_places"))


def flat(source_id):
    """The name that MOS gives an image of Places365."""
    return source_id.removeprefix("train/").removeprefix("val/").replace("/", "_")


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    """An archive of all 10,000 names, and the owners' list with made-up categories of the validation images."""
    root = tmp_path_factory.mktemp("places")
    write_tar(root / "Places.tar.gz", {f"Places/images/{flat(source_id)}": b"" for source_id in PLACES})
    val = "".join(f"Places365_val_{number:08}.jpg {number % 365}\n" for number in range(1, 36_501))
    return tree(root, {"places365_val.txt": val})


def test_all_of_places_has_the_ids_of_places365_and_the_published_counts_by_category(places):
    train, val = open_source(SOURCES["places365"], places, ("train", "val")).partitions
    ids = [*train.table["source_id"].to_pylist(), *val.table["source_id"].to_pylist()]
    assert sorted(ids) == PLACES
    published = {row["class"]: len(row["images"].split()) for row in tables.read_csv_rows("listed_mos_places.csv")}
    assert published.pop(lists.UNKNOWN) == val.table.num_rows == 178
    assert train.images_by_class == published and len(published) == 50
    # The rule by which the list above was written.
    numbers = Counter(int(source_id[-12:-4]) % 365 for source_id in PLACES if source_id.startswith("val/"))
    categories = [row.category for row in tables.places365()]
    assert val.images_by_class == {categories[label]: images for label, images in numbers.items()}
    assert not train.strays and not val.strays


def test_mos_places_is_planned_from_the_archive_alone_and_the_list(places, tmp_path, capsys):
    flags = ["--splits=mos/places", "--dry-run", "--quiet", f"--out={tmp_path / 'out'}"]
    assert main([f"--places365={places}", *flags]) == 0
    assert "10,000" in capsys.readouterr().out
    os.link(places / "Places.tar.gz", tmp_path / "Places.tar.gz")
    assert main([f"--places365={tmp_path}", *flags]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert (
        "the categories of the flat validation images in" in line
        and "Put filelist_places365-standard.tar there" in line
    )


def test_mos_places_of_the_archive_has_the_rows_that_it_has_of_places365(openood_release, demo, tmp_path):
    (tmp_path / "images").mkdir()
    for path in demo["places365"].rglob("*.jpg"):
        source_id = path.relative_to(demo["places365"]).as_posix().replace("_256", "", 1).replace("data", "train", 1)
        os.link(path, tmp_path / "images" / flat(source_id))
    os.link(demo["places365"] / "places365_val.txt", tmp_path / "places365_val.txt")
    built = build_demo({"places365": tmp_path}, tmp_path / "out", benchmark=BENCHMARK, splits=("mos/places",))
    before = manifest_of(openood_release)["configs"]["mos"]["splits"]["places"]
    assert built["configs"]["mos"]["splits"]["places"]["digest"] == before["digest"] and rows_in(before) == 13


def test_names_of_no_category_are_strays_of_mos_places(tmp_path):
    names = ("b_badlands_00001234.jpg", "b_badland_00001234.jpg", "b_badlands_1234.jpg", "._b_badlands_00001234.jpg")
    tree(tmp_path, {f"Places/images/{name}": "" for name in names})
    (partition,) = open_source(SOURCES["places365"], tmp_path, ("train",)).partitions
    assert partition.table["source_id"].to_pylist() == ["train/b/badlands/00001234.jpg"]
    assert {stray.path for stray in partition.strays} == {f"Places/images/{name}" for name in names[1:]}
    assert "the partition val (36,500 images) is not in" in refusal("places365", tmp_path, "val")


def test_all_of_sun_has_the_published_names_and_no_others(tmp_path, capsys):
    listed = sorted(lists.load_list("mos_sun"))
    other = f"sun_{'z' * 16}.jpg"
    write_tar(tmp_path / "SUN.tar", {f"SUN/images/{name}": b"" for name in (*listed, other)})
    (partition,) = opened("mos_sun", tmp_path).partitions
    assert sorted(partition.table["source_id"].to_pylist()) == listed
    assert partition.images_by_class == {"unlabelled": 10_000} == SOURCES["mos_sun"].expected()["images"].per_class
    assert partition.strays == (Stray(f"SUN.tar:SUN/images/{other}", "not one of the 10,000 images of the subset"),)
    assert main([f"--published-sun={tmp_path}", "--splits=mos/sun", "--dry-run", "--quiet", "--out=out"]) == 0
    assert "10,000" in capsys.readouterr().out


def test_mos_sun_is_built_of_the_published_archive_if_asked(demo, tmp_path, capsys):
    """Its rows are those of the archive, without categories, and the version says so."""
    out, flags = tmp_path / "out", ["--splits=mos/sun", "--quiet", "--workers=1"]
    assert main([f"--published-sun={demo['mos_sun']}", *flags, f"--out={out}"]) == 0
    rows = pq.read_table(out / "index" / "mos" / "sun.parquet")
    assert sorted(rows["source_id"].to_pylist()) == sorted(lists.load_list("mos_sun"))[:40]
    assert set(rows["class_id"].to_pylist()) == {"unlabelled"} and rows["id_overlap"].null_count == 40
    assert manifest_of(out)["benchmarks"]["openood"]["version"] == "1.1.0+published-sun"
    assert main([f"--mos_sun={demo['mos_sun']}", *flags, f"--out={tmp_path / 'other'}"]) == 2
    assert "--mos_sun is only used with --published-sun" in capsys.readouterr().err


def test_a_demo_has_mos_sun_of_the_published_archive(tmp_path, capsys):
    assert main(["--demo", "--published-sun", "--splits=mos/sun", "--dry-run", "--quiet", f"--out={tmp_path}"]) == 0
    printed = capsys.readouterr()
    assert "mos/sun" in printed.out and "left out" not in printed.err
