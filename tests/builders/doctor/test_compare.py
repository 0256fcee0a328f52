"""Two releases, folders and indexes, compared row by row."""

import hashlib
import io
import os
import shutil

import msgspec
import pyarrow.parquet as pq
import pytest
from PIL import Image

import unknown_detection as ud
from builders.commands.compare import main
from builders.commands.doctor import main as doctor
from builders.errors import BuildError
from builders.release.layout import Layout
from builders.release.manifest import file_entry, read_manifest, write_manifest
from tests.builders.trees import linked, replaced
from tests.sentences import assert_sentence, stops


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def test_a_release_is_equal_to_itself(imagenet_release, capsys):
    assert main([str(imagenet_release), str(imagenet_release), "--workers", "1"]) == 0
    out = capsys.readouterr().out.splitlines()
    assert "equal  imagenet/test" in out
    assert out[-1].startswith("equal: every one of ") and "no image was read" in out[-1]


def test_what_has_no_image_in_common_is_not_called_a_part(tmp_path, capsys):
    """Three images against thirty of other names; of three of the thirty alone it is said."""
    for place, names in (("few", range(3)), ("many", range(10, 40)), ("some", range(10, 13))):
        for number in names:
            (tmp_path / place / "a").mkdir(parents=True, exist_ok=True)
            Image.new("RGB", (20, 20), (number, 0, 0)).save(tmp_path / place / f"a/{number}.jpg")
    for place, is_part in (("few", False), ("some", True)):
        assert main([str(tmp_path / place), str(tmp_path / "many"), "--workers", "1"]) == 1
        assert ("a part of the other" in capsys.readouterr().out) == is_part


def test_a_parquet_file_that_is_no_index_is_not_called_a_damaged_one(imagenet_release, capsys):
    """Whoever downloads it again has the same file."""
    shard = imagenet_release / read_manifest(imagenet_release).configs["imagenet"].splits["test"].data[0].path
    assert main([str(imagenet_release), str(shard), "--workers", "1"]) == 2
    assert_sentence(capsys.readouterr().err.replace(str(shard), "SHARD"), "SHARD", "--write-index")


def with_split(manifest, **changes):
    """A manifest with another entry of the split imagenet/test."""
    config = manifest.configs["imagenet"]
    splits = config.splits | {"test": msgspec.structs.replace(config.splits["test"], **changes)}
    configs = manifest.configs | {"imagenet": msgspec.structs.replace(config, splits=splits)}
    return msgspec.structs.replace(manifest, configs=configs, audits={})


def other_bytes(release, root, change, move=False):
    """Copy a release with other bytes of an image of a split, and another's class `move`d; gives both ids."""
    shutil.copytree(release, root, copy_function=os.link, ignore=shutil.ignore_patterns(".state"))
    manifest = read_manifest(root)
    split = manifest.configs["imagenet"].splits["test"]
    shard, index = root / split.data[0].path, root / split.index.path
    images, rows = pq.read_table(shard), pq.read_table(index)
    columns = rows.to_pydict()
    image = images["image"].to_pylist()
    image[3]["bytes"] = change(image[3]["bytes"])
    columns["content_sha256"][3] = hashlib.sha256(image[3]["bytes"]).hexdigest()
    if move:
        columns["class_id"][5] = columns["class_id"][200]
    for path, table, changed in (
        (shard, images, {**columns, "image": image}),
        (index, rows, columns),
    ):
        path.unlink()
        pq.write_table(type(table).from_pydict({n: changed[n] for n in table.column_names}, table.schema), path)
    (root / "manifest.json").unlink()
    write_manifest(root, with_split(manifest, digest="0" * 64, index=file_entry(Layout(root), index)))
    return columns["id"][3], columns["id"][5]


@pytest.fixture
def altered(imagenet_release, tmp_path):
    """A release in which one image of a split was saved again, and another's class changed."""

    def saved_again(image):
        data = io.BytesIO()
        Image.open(io.BytesIO(image)).convert("RGB").save(data, "JPEG", quality=60)
        return data.getvalue()

    return tmp_path / "altered", *other_bytes(imagenet_release, tmp_path / "altered", saved_again, move=True)


def test_a_planted_altered_image_is_found_by_row(imagenet_release, altered):
    root, saved_again, moved = altered
    found = ud.compare(root, imagenet_release)
    assert found["kinds"] == {"wrong class": 1, "re-encoded": 1}
    assert {each["id"]: each["kind"] for each in found["differences"]} == {
        saved_again: "re-encoded",
        moved: "wrong class",
    }
    assert all(each["group"] == "imagenet/test" for each in found["differences"])
    assert "imagenet/test" not in found["equal_groups"]
    assert "imagenet/near_ood" in found["equal_groups"]


def changed_index(release, root, change):
    """Copy a release with other columns in the index of a split, which the digests in its manifest know nothing of."""
    shutil.copytree(release, root, copy_function=os.link, ignore=shutil.ignore_patterns(".state"))
    manifest = read_manifest(root)
    path = root / manifest.configs["imagenet"].splits["test"].index.path
    rows = pq.read_table(path)
    columns = rows.to_pydict()
    change(columns)
    path.unlink()
    pq.write_table(rows.from_pydict(columns, rows.schema), path)
    (root / "manifest.json").unlink()
    write_manifest(root, with_split(manifest, index=file_entry(Layout(root), path)))
    return columns["id"][3]


@pytest.mark.parametrize(("column", "kind"), [("content_sha256", "other bytes"), ("class_id", "wrong class")])
def test_rows_are_compared_and_not_what_a_manifest_says_of_them(imagenet_release, tmp_path, column, kind):
    """Both manifests list one digest: of rows that are others now, or one that does not cover classes."""
    other = {"content_sha256": "0" * 64, "class_id": "n00000000"}[column]
    name = changed_index(imagenet_release, tmp_path / "other", lambda rows: rows[column].__setitem__(3, other))
    for pair in ((tmp_path / "other", imagenet_release), (imagenet_release, tmp_path / "other")):
        found = ud.compare(*pair)
        assert not found["equal"] and [(each["id"], each["kind"]) for each in found["differences"]] == [(name, kind)]


def test_labels_that_stand_for_other_classes_are_no_equal_release(imagenet_release, tmp_path, capsys):
    """The lists of classes stood beside each other, and the exit code was 0."""
    root = shutil.copytree(imagenet_release, tmp_path / "other", copy_function=os.link)
    manifest = read_manifest(root)
    config = manifest.configs["imagenet"]
    first, second, *names = config.label_names
    swapped = msgspec.structs.replace(config, label_names=(second, first, *names))
    (root / "manifest.json").unlink()
    write_manifest(root, msgspec.structs.replace(manifest, configs=manifest.configs | {"imagenet": swapped}))
    assert main([str(imagenet_release), str(root), "--workers", "1"]) == 1
    assert "its labels stand for other classes" in capsys.readouterr().out


def test_a_split_that_one_of_them_lacks(imagenet_release, tmp_path):
    root = tmp_path / "smaller"
    shutil.copytree(imagenet_release, root, copy_function=os.link, ignore=shutil.ignore_patterns(".state"))
    manifest = read_manifest(root)
    config = manifest.configs["imagenet"]
    splits = {name: split for name, split in config.splits.items() if name != "near_ood"}
    (root / "manifest.json").unlink()
    configs = manifest.configs | {"imagenet": msgspec.structs.replace(config, splits=splits)}
    write_manifest(root, msgspec.structs.replace(manifest, configs=configs, audits={}, duplicates=None))
    found = ud.compare(root, imagenet_release)
    rows = manifest.configs["imagenet"].splits["near_ood"].rows
    assert found["kinds"] == {"missing": rows}
    assert found["differences"][0]["detail"].endswith("has this split")
    assert found["beside"]["roles of imagenet/near_ood"] == ["", "near_ood"]


def test_a_copy_against_a_release_of_it(demo, imagenet_release, tmp_path):
    """Images of the release are found in a copy by id, and one that was altered there is found by row."""
    found = ud.doctor(demo["imagenet"], against=str(imagenet_release))
    assert found["whole"], found["sentence"]
    rows = pq.read_table(imagenet_release / "index/imagenet/test.parquet").to_pylist()
    name = next(row["source_id"] for row in rows if row["source"] == "imagenet")
    root = linked(demo["imagenet"], tmp_path / "copy")
    (path,) = root.rglob(name.rpartition("/")[2])
    replaced(path, lambda data: data[:2] + b"\xff\xfe\x00\x06abcd" + data[2:])
    found = ud.doctor(root, against=str(imagenet_release))
    assert [(each["kind"], each["id"]) for each in found["differences"]] == [("other bytes", f"imagenet/{name}")]


def test_a_release_is_not_taken_for_a_copy(imagenet_release):
    """It was taken for ImageNet-1k's Parquet; and so was its folder of shards."""
    for place in (imagenet_release, imagenet_release / "data", imagenet_release / "data/imagenet"):
        with stops(BuildError, f"{imagenet_release} is a release", f"verify {imagenet_release}", "compare"):
            ud.doctor(place)


@pytest.mark.parametrize(
    ("damage", "kind"), [(lambda data: data[: len(data) // 2], "truncated"), (lambda _: b"<html>", "unreadable")]
)
def test_damage_has_the_same_kind_on_either_side(demo, tmp_path, damage, kind):
    """Images of the second one that do not decode were `differs`, and summed as of other bytes; with an index, too."""
    roots = [linked(demo["dtd"], tmp_path / name) for name in ("whole", "damaged")]
    image = min(roots[1].rglob("*.jpg"))
    replaced(image, damage)
    index = tmp_path / "whole.parquet"
    doctor([str(roots[0]), "--write-index", str(index), "--workers", "1", "--json"])
    for whole in (roots[0], index):
        for pair in ((whole, roots[1]), (roots[1], whole)):
            found = ud.compare(*pair)
            assert found["kinds"] == {kind: 1} and f"1 {kind}" in found["sentence"]
            (each,) = found["differences"]
            assert each["id"].endswith(image.name)
            assert ("(in " in each["detail"]) == (pair[1] == roots[1])


def test_an_image_of_a_release_that_does_not_decode_has_the_same_kind_on_either_side(imagenet_release, tmp_path):
    root = tmp_path / "damaged"
    damaged, _ = other_bytes(imagenet_release, root, lambda data: data[: len(data) // 2])
    for pair in ((root, imagenet_release), (imagenet_release, root)):
        found = ud.compare(*pair)
        assert found["kinds"] == {"truncated": 1}
        assert [(each["group"], each["id"]) for each in found["differences"]] == [("imagenet/test", damaged)]


def test_images_beside_either_copy_are_named(demo, tmp_path):
    """Those beside the second one were not: it was equal. What both have beside them is no difference."""
    roots = [linked(demo["dtd"], tmp_path / name) for name in ("a", "b")]
    image = min(roots[0].rglob("*.jpg"))
    for root in roots:
        shutil.copy(image, root / "images" / "of both.jpg")
    assert ud.compare(*roots)["equal"] and ud.compare(roots[0], roots[0])["equal"]
    shutil.copy(image, roots[1] / "images" / "of one.jpg")
    for pair in (roots, roots[::-1]):
        (found,) = ud.compare(*pair)["differences"]
        assert (found["kind"], found["id"]) == ("doubled", "images/of one.jpg")
    moved = roots[0] / image.relative_to(roots[0])
    moved.rename(moved.with_name("renamed.jpg"))
    (roots[1] / "images" / "of one.jpg").unlink()
    for pair in (roots, roots[::-1]):
        (found,) = ud.compare(*pair)["differences"]
        assert (found["kind"], found["id"].rpartition("/")[2]) == ("under another name", "renamed.jpg")


def test_a_partition_that_its_reader_refuses_is_not_equal(demo, tmp_path):
    """Batches in another order were left out on both sides, and the rest was called equal."""
    for name in ("a", "b"):
        batches = shutil.copytree(demo["cifar10"], tmp_path / name) / "cifar-10-batches-py"
        first, second = (batches / f"data_batch_{number}" for number in (1, 2))
        first.rename(batches / "kept")
        second.rename(first)
        (batches / "kept").rename(second)
    found = ud.compare(tmp_path / "a", tmp_path / "b")
    assert not found["equal"] and found["equal_groups"] == ["test"]
    assert [each["kind"] for each in found["differences"]] == ["unreadable"] * 2
    assert "are not compared as a whole" in found["sentence"]
    assert all("data_batch_1 is of the class" in each["detail"] for each in found["differences"])


def test_folders_of_no_known_source_are_compared_by_path_and_then_by_name(demo, tmp_path):
    first, second, third = (tmp_path / name for name in ("first", "second", "third"))
    for number, path in enumerate(sorted((demo["dtd"] / "images" / "blotchy").iterdir())):
        for folder in (first / "a", second / "a", third):
            folder.mkdir(parents=True, exist_ok=True)
            os.link(path, folder / f"holiday{number}.jpg")
    assert ud.compare(first, second)["equal"]
    assert ud.compare(first, third)["equal"], "in other folders, under equal names"
    replaced(third / "holiday1.jpg", lambda data: data[: len(data) // 2])
    assert ud.compare(third, first)["kinds"] == {"truncated": 1}


def test_what_is_nowhere_is_one_sentence(tmp_path, capsys):
    assert main([str(tmp_path / "none"), str(tmp_path)]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
