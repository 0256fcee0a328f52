"""What `verify` says of a shard's structure and of its rows."""

import functools
import io
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from builders.errors import BuildError
from builders.release import images
from builders.release.entries import SIMILARITY
from builders.release.manifest import read_manifest
from hf_scripts import verify
from hf_scripts.checks import rows as check_rows
from hf_scripts.checks import run
from hf_scripts.checks.values import split_facts
from tests.hf_scripts import samples
from tests.hf_scripts.tampering import (
    NEAR_SHARD,
    TEST_SHARD,
    built,
    check,
    copy,
    entry_of,
    image_of,
    manifest_of,
    problems,
    rewrite,
    save_manifest,
    with_cells,
    with_image,
    without_notes,
)
from tests.sentences import assert_sentence

__all__ = ["built", "check", "copy", "problems"]

TEST_INDEX, NEAR_INDEX = "index/imagenet/test.parquet", "index/imagenet/near_ood.parquet"


# Schema and structure


def test_other_label_names_in_one_shard(copy, problems):
    def change(table):
        described = json.loads(table.schema.metadata[b"huggingface"])
        names = described["info"]["features"]["label"]["names"]
        names[4], names[5] = names[5], names[4]
        return table.replace_schema_metadata({**table.schema.metadata, b"huggingface": json.dumps(described)})

    rewrite(copy, "imagenet/near_ood", change)
    assert problems() == [f"{NEAR_SHARD}: {OTHER_METADATA} (in huggingface)"]


OTHER_METADATA = "the schema's metadata is not that of a release"


@pytest.mark.parametrize(
    "features",
    ["[" * 100_000, '{"label": ' + "[" * 500 + "]" * 500 + "}", '{"label": {"names": [[[0]], 1]}}'],
    ids=["100,000 levels", "500 levels", "a name that is a list"],
)
def test_features_of_any_nesting_are_named(features, release, capsys):
    described = f'{{"info": {{"features": {features}}}}}'
    samples.change_files(release, "bench/test", lambda t: t.replace_schema_metadata({"huggingface": described}))
    assert verify.main([str(release), "--workers", "1", "--check", "fast"]) == 1
    out, err = capsys.readouterr()
    assert f"{OTHER_METADATA} (in huggingface)" in out and err == ""
    assert max(map(len, out.splitlines())) < 400


def test_a_column_of_another_type(copy, problems):
    def change(table):
        position = table.schema.get_field_index("label")
        return table.set_column(position, "label", table["label"].cast(pa.int32()))

    rewrite(copy, "imagenet/test", change, index=False)
    sentences = problems()
    assert len(sentences) == 1
    assert sentences[0].startswith(f"{TEST_SHARD}: wrong columns: expected image ")
    assert "label int32" in sentences[0]


def test_no_page_index(copy, problems):
    rewrite(copy, "imagenet/test", lambda t: t, write_page_index=False)
    sentences = problems()
    assert sentences[0] == f"{TEST_SHARD} row group 0: image.bytes has no page index"
    # Twelve columns in each of two row groups, of which five are named.
    assert sentences[5] == "and 19 more (page index)"


def test_a_row_group_that_is_too_large(copy, problems, monkeypatch):
    def size(path):
        images = pq.ParquetFile(path).read_row_group(0)["image"]
        return sum(len(image["bytes"].as_py()) for image in images)

    largest = max(sorted(copy.glob("data/*/*.parquet")), key=size)
    monkeypatch.setattr(check_rows, "ROW_GROUP_BYTES", size(largest) - 1)
    assert problems() == [
        f"{largest.relative_to(copy).as_posix()} row group 0: {size(largest):,} image bytes, more than the limit of "
        f"{size(largest) - 1:,}"
    ]


# Rows


def test_images_that_datasets_cannot_decode(copy, check, problems, demo):
    # A builder would take this file's metadata out, because `datasets` fails on it.
    source = (demo["imagenet"] / "val/n01698640/ILSVRC2012_val_00000005.JPEG").read_bytes()
    assert images.check_image(source) is not None
    half = image_of(copy, TEST_SHARD, 6)[:500]
    rewrite(copy, "imagenet/test", lambda t: with_image(with_image(t, 5, source), 6, half))
    assert check()[0] == 0  # the bytes are what the rows say; only decoding can tell
    for row, sentence in zip((5, 6), problems(decode=True), strict=True):
        assert_sentence(sentence, TEST_SHARD, row)


def test_made_images_are_named_by_their_pixels(copy, check, problems):
    made = Image.new("RGB", (8, 8), "red")
    encoded = io.BytesIO()
    made.save(encoded, format="PNG")
    cells = {"stored": "pixels", "content_sha256": images.pixel_sha256(made)}
    row = pq.read_table(copy / TEST_SHARD, columns=["id"])["id"][2].as_py()
    change = functools.partial(with_image, row=2, data=encoded.getvalue(), id=f"{row}#red", **cells)
    rewrite(copy, "imagenet/test", change)
    assert check(decode=True)[0] == 0
    rewrite(copy, "imagenet/test", lambda t: with_cells(t, 2, content_sha256="0" * 64))
    digest = cells["content_sha256"]
    assert problems(decode=True) == [
        f"{TEST_SHARD} row 2: the image has the digest {digest}, not {'0' * 64} as in content_sha256"
    ]


@pytest.mark.parametrize(
    ("cells", "sentence"),
    [
        ({"label": 200}, "label is 200, outside 0 to 199"),
        ({"label": -1}, "label is -1, outside 0 to 199"),
        ({"role": 2}, "role is 2, not 0 (in_distribution) as manifest.json lists for imagenet/test"),
        ({"class_name": None}, "class_name has no value"),
        ({"image": {"bytes": None, "path": "a.JPEG"}}, "has no image bytes"),
    ],
)
def test_a_wrong_cell(copy, problems, cells, sentence):
    rewrite(copy, "imagenet/test", lambda t: with_cells(t, 3, **cells))
    assert problems() == [f"{TEST_SHARD if 'image' in cells else TEST_INDEX} row 3: {sentence}"]


def test_the_label_of_another_class(copy, problems):
    names = manifest_of(copy)["configs"]["imagenet"]["label_names"]
    class_id = pq.read_table(copy / TEST_SHARD, columns=["class_id"])["class_id"][3].as_py()
    wrong = (names.index(class_id) + 1) % len(names)
    rewrite(copy, "imagenet/test", lambda t: with_cells(t, 3, label=wrong))
    assert problems() == [f"{TEST_INDEX} row 3: label is {wrong}, not that of its class_id"]


def test_labels_of_unknowns_are_counted_when_there_are_many(copy, check):
    rewrite(copy, "imagenet/near_ood", with_values("label", 0))
    code, lines = check()
    assert code == 1
    sentence = f"{NEAR_INDEX} row 0: label is 0, not -1, although imagenet/near_ood has no label of such rows"
    assert without_notes(lines)[0] == sentence
    assert without_notes(lines)[5:] == ["and 195 more (label of an unlabelled row)"]
    assert lines[-1].endswith("is not whole: 200 problems")


def test_an_id_that_comes_twice(copy, problems):
    rows = pq.read_table(copy / TEST_SHARD).to_pylist()
    rewrite(copy, "imagenet/test", lambda t: with_cells(t, 8, source_id=rows[4]["source_id"], id=rows[4]["id"]))
    assert sorted(problems()) == [
        f"1 id is of different images, for instance {rows[4]['id']}",
        f"index/imagenet/test.parquet: the id {rows[4]['id']} is repeated, in rows 4, 8",
    ]


def test_an_id_that_is_not_its_source_id(copy, problems):
    right = pq.read_table(copy / TEST_SHARD, columns=["id"])["id"][8].as_py()
    rewrite(copy, "imagenet/test", lambda t: with_cells(t, 8, id=f"{right}#2"))
    rule = "which does not follow from its source and source_id"
    assert problems() == [f"{TEST_INDEX} row 8: id is {right}#2, {rule}"]


@pytest.mark.parametrize(("key", "other"), [("imagenet/test", "near_ood"), ("imagenet-train/train", "validation")])
def test_an_id_in_two_splits(copy, problems, key, other):
    """Also of another config, which a build may have drawn from a source that had grown meanwhile."""
    row = pq.read_table(copy / f"index/imagenet/{other}.parquet").to_pylist()[0]
    rewrite(copy, key, lambda t: with_cells(t, 8, source_id=row["source_id"], id=row["id"]))
    assert sorted(problems()) == [
        f"1 id is of different images, for instance {row['id']}",
        f"{key}: 1 id is also in imagenet/{other}, for instance {row['id']}",
    ]


def test_a_path_of_the_build_machine(copy, problems):
    image = {"bytes": image_of(copy, TEST_SHARD, 6), "path": "/srv/somebody/a.JPEG"}
    rewrite(copy, "imagenet/test", lambda t: with_cells(t, 6, image=image, class_name="/srv/somebody"))
    assert sorted(problems()) == [
        f"{TEST_SHARD} row 6: image.path is /srv/somebody/a.JPEG, not a file name",
        f"{TEST_INDEX} row 6: class_name is /srv/somebody, an absolute path",
    ]


def test_an_overlap_is_a_known_class_of_an_unknown_row_and_is_counted(copy, problems):
    key = "imagenet/near_ood"
    table = pq.read_table(copy / NEAR_SHARD)
    assert table.schema.field("id_overlap").type == pa.string()
    empty = [row for row in range(table.num_rows) if table["id_overlap"][row].as_py() is None]
    listed = manifest_of(copy)["configs"]["imagenet"]["splits"]["near_ood"]["overlaps"]
    assert listed == table.num_rows - len(empty) > 0
    rewrite(copy, key, lambda t: with_cells(t, empty[0], id_overlap="n02087394"))
    rewrite(copy, "imagenet/test", lambda t: with_cells(t, 3, id_overlap="n01443537"))
    assert sorted(problems()) == sorted(
        [
            f"{NEAR_INDEX} row {empty[0]}: id_overlap is n02087394, no known class of {key}",
            f"{TEST_INDEX} row 3: id_overlap is n01443537, although the row's class is known",
            f"{key}: {listed + 1:,} rows have an id_overlap, and manifest.json lists {listed:,}",
            "imagenet/test: 1 rows have an id_overlap, and manifest.json lists 0",
        ]
    )


def test_the_second_shard_is_compared_with_its_own_part_of_the_index(copy, problems):
    manifest = manifest_of(copy)
    entry = manifest["configs"]["imagenet"]["splits"]["test"]
    table = pq.read_table(copy / TEST_SHARD)
    halves = [table.slice(0, 150), with_cells(table.slice(150), 20, class_name="another")]
    (copy / TEST_SHARD).unlink()
    entry["data"] = []
    for number, half in enumerate(halves):
        path = f"data/imagenet/test-{number:05d}-of-00002.parquet"
        pq.write_table(half, copy / path, write_page_index=True)
        entry["data"].append(entry_of(copy, path))
    save_manifest(copy, manifest)
    where = "data/imagenet/test-00001-of-00002.parquet row 20"
    assert problems() == [
        f"{where}: class_name is another, and {table['class_name'][170]} in index/imagenet/test.parquet"
    ]


# Damage


def rewrite_index(root, change):
    """Another index of a split, listed with its digest; the shards are as they were."""
    manifest = manifest_of(root)
    path = "index/imagenet/test.parquet"
    table = change(pq.read_table(root / path))
    (root / path).unlink()
    pq.write_table(table, root / path, write_page_index=True)
    manifest["configs"]["imagenet"]["splits"]["test"]["index"] = entry_of(root, path)
    save_manifest(root, manifest)


def with_values(name, value):
    return lambda table: samples.with_column(table, name, [value] * table.num_rows)


NOT_COMPARED = "note: splits were not compared with each other, because an index is damaged"


@pytest.mark.parametrize(
    ("change", "sentence", "compared"),
    [
        (with_values("id", None), "index/imagenet/test.parquet row 0: id has no value", False),
        (with_values("role", None), "index/imagenet/test.parquet row 0: role has no value", False),
        (with_values("class_id", None), f"{TEST_SHARD} row 0: class_id is ", False),
        (with_values("source", None), f"{TEST_SHARD} row 0: source is ", False),
        (with_values("content_sha256", None), "test.parquet row 0: content_sha256 has no value", False),
        (with_values("role", 99), f"{TEST_SHARD} row 0: role is 0, and 99 in index", False),
        (with_values("role", -1), f"{TEST_SHARD} row 0: role is 0, and -1 in index", False),
        (with_values("content_sha256", "abc"), "imagenet/test: the rows have the digest ", False),
        (with_values("class_id", "\x1b[2J"), "and \\x1b[2J in index/imagenet/test.parquet", True),
        (lambda t: t.drop_columns(["id"]), "index/imagenet/test.parquet: wrong columns: expected label", False),
        (lambda t: t.rename_columns([n.upper() for n in t.column_names]), "wrong columns: expected label", False),
        (lambda t: t.take(pa.array([0] * 1_000_000)), "test.parquet: claims 1,000,000 rows, too many for its ", False),
        (lambda t: t.slice(0, 0), "imagenet/test: its index has 0 rows, not 200", True),
    ],
)
def test_a_damaged_index(copy, check, change, sentence, compared):
    rewrite_index(copy, change)
    code, lines = check()
    assert code == 1
    assert any(sentence in line for line in without_notes(lines)), lines
    assert all(line.isprintable() for line in lines)
    assert (NOT_COMPARED in lines) != compared


@pytest.mark.parametrize("name", ["label", "role", "class_id", "id", "source", "stored", "content_sha256", "image"])
def test_a_column_of_a_shard_without_values(copy, problems, name):
    rewrite(copy, "imagenet/test", with_values(name, None), index=False)
    wrong = "has no image bytes" if name == "image" else f"{name} is None, and "
    assert any(line.startswith(f"{TEST_SHARD} row 0: {wrong}") for line in problems(decode=True))


# Parts of a shard


def truncated(table):
    return with_image(table, 45, table["image"][45]["bytes"].as_py()[:-30])


def several(table):
    for row in (0, 30, 50):
        table = with_cells(
            truncated(table), row, label=777, image={"bytes": table["image"][row]["bytes"].as_py(), "path": "a/b"}
        )
    return table


def damaged_in_the_middle(root):
    """A shard with other bytes in the data of its third row group, which its digest is of."""
    rewrite(root, "imagenet/test", lambda table: table, row_group_size=20)
    data = bytearray((root / TEST_SHARD).read_bytes())
    start = pq.read_metadata(root / TEST_SHARD).row_group(2).column(0).data_page_offset
    data[start : start + 8] = bytes(8)
    (root / TEST_SHARD).unlink()
    (root / TEST_SHARD).write_bytes(data)
    manifest = manifest_of(root)
    manifest["configs"]["imagenet"]["splits"]["test"]["data"] = [entry_of(root, TEST_SHARD)]
    save_manifest(root, manifest)


DAMAGES = {
    "none": lambda root: rewrite(root, "imagenet/test", lambda table: table, row_group_size=20),
    "images": lambda root: rewrite(root, "imagenet/test", truncated, row_group_size=20),
    "several": lambda root: rewrite(root, "imagenet/test", several, index=False, row_group_size=20),
    "rows": lambda root: rewrite(root, "imagenet/test", lambda table: table.slice(1), index=False, row_group_size=20),
    "columns": lambda root: rewrite(root, "imagenet/test", lambda t: t.drop_columns("role"), index=False),
    "pages": damaged_in_the_middle,
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_shard_is_checked_in_parts_as_in_one(copy, check, monkeypatch, damage):
    """A row group a task, and all rows in one: the same sentences."""
    DAMAGES[damage](copy)
    whole = check("--splits", "imagenet/test", decode=True)
    groups = pq.read_metadata(copy / TEST_SHARD)
    monkeypatch.setattr(run, "PART_BYTES", 1)
    monkeypatch.setattr(run, "_PARTS", 10**9)
    assert len(check_rows.parts_of(groups, (copy / TEST_SHARD).stat().st_size, 1)) > groups.num_row_groups // 2
    assert check("--splits", "imagenet/test", decode=True) == whole
    assert whole[0] == (damage != "none")


def test_a_disk_without_space_for_scaled_images_is_no_fault_of_the_shard(copy):
    """Linux's /dev/full has no space for anything."""
    manifest = read_manifest(copy)
    _, config, entry = next(of for of in manifest.splits() if of[0] == "imagenet/test")
    split = split_facts("imagenet/test", config, entry, demo=True, compared=frozenset({SIMILARITY}))
    of_file = check_rows.DataTask(copy, entry.data[0], split, entry.index.path, 0, decode=True, into=Path("/dev/full"))
    task = check_rows.FilesTask((of_file,))
    with pytest.raises(BuildError, match="Cannot keep scaled images in /dev: No space left"):
        task.run(lambda images, size: None)
