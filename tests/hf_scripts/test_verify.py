"""Each test damages one thing in a copy of a whole release and expects the one sentence that says so."""

import functools
import hashlib
import io
import json
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from builders import card, imagenet_benchmark, images
from builders.release import (
    Layout,
    file_sha256,
    read_excluded,
    rows_digest,
    write_excluded,
    write_index,
    write_manifest,
)
from hf_scripts import check_rows, verify

TEST_SHARD = "data/imagenet/test-00000-of-00001.parquet"
NEAR_SHARD = "data/imagenet/near_ood-00000-of-00001.parquet"


@pytest.fixture(scope="module")
def built(demo, tmp_path_factory):
    """A release of all splits, small. Read only: tests work on copies whose files are links to these."""
    out = tmp_path_factory.mktemp("built") / "release"
    keys = [source.key for source in imagenet_benchmark.BENCHMARK.sources()]
    sources = [text for key in keys for text in (f"--{key}", str(demo[key]))]
    flags = ["--allow-partial", "--limit-per-class", "1", "--quiet", "--workers", "1", "--out", str(out)]
    assert imagenet_benchmark.main([*sources, *flags]) == 0
    return out


@pytest.fixture
def release(built, tmp_path):
    """A copy to damage: a file in it may be replaced, never written into, since it is a link."""
    root = tmp_path / "release"
    for path in sorted(built.rglob("*")):
        relative = path.relative_to(built)
        if path.is_file() and relative.parts[0] != ".state":
            (root / relative).parent.mkdir(parents=True, exist_ok=True)
            os.link(path, root / relative)
    return root


@pytest.fixture
def check(release, capsys):
    """Verify the copy; returns exit code and lines. Without decoding, unless asked for."""

    def run(*flags, decode=False):
        code = verify.main([str(release), "--workers", "1", *([] if decode else ["--quick"]), *flags])
        out, err = capsys.readouterr()
        assert err == ""
        return code, out.splitlines()

    return run


def problems(lines):
    """What was found wrong, without the notes and the last line."""
    assert "is not whole" in lines[-1]
    return [line for line in lines[:-1] if not line.startswith("note: ")]


def replace(path, data):
    path.unlink()
    path.write_bytes(data)


def manifest_of(root):
    return json.loads((root / "manifest.json").read_text(encoding="utf-8"))


def save_manifest(root, manifest):
    card.seal(Layout(root), manifest)  # writes beside and renames, so a linked file stays as it is


def entry_of(root, path):
    return {"path": path, "bytes": (root / path).stat().st_size, "sha256": file_sha256(root / path)}


def write_shard(path, table, **how):
    path.unlink()
    pq.write_table(table, path, **{"write_page_index": True, "row_group_size": 100, **how})


def rewrite(root, key, change, *, index=True, **how):
    """Change a split's rows, then put right all that follows from them, so that only the rows can tell."""
    config, split = key.split("/")
    manifest = manifest_of(root)
    entry = manifest["configs"][config]["splits"][split]
    shard = entry["data"][0]["path"]
    table = change(pq.read_table(root / shard))
    write_shard(root / shard, table, **how)
    entry["data"] = [entry_of(root, shard)]
    if index:
        write_index(root / entry["index"]["path"], table, manifest["configs"][config]["label_names"])
        entry["index"] = entry_of(root, entry["index"]["path"])
        entry["digest"] = rows_digest(table)
    save_manifest(root, manifest)


def with_cells(table, row, **cells):
    rows = table.to_pylist()
    rows[row].update(cells)
    return pa.Table.from_pylist(rows, schema=table.schema)


def with_image(table, row, data, **cells):
    """Another image in a row, with its right digest."""
    image = {"bytes": data, "path": table["image"][row]["path"].as_py()}
    digest = hashlib.sha256(data).hexdigest()
    return with_cells(table, row, image=image, **{"content_sha256": digest, **cells})


def image_of(root, path, row):
    return pq.read_table(root / path)["image"][row]["bytes"].as_py()


# A whole release


def test_a_whole_release_passes(release, check):
    code, lines = check(decode=True)
    assert code == 0
    manifest = manifest_of(release)
    rows = 0
    for name, config in manifest["configs"].items():
        for split, entry in config["splits"].items():
            line = next(line for line in lines if line.split()[:1] == [f"{name}/{split}"])
            assert line.split()[1:3] == [f"{entry['rows']:,}", entry["digest"][:12]]
            rows += entry["rows"]
    assert lines[-1].startswith(f"{release} is whole: 9 splits, {rows:,} rows, 21 files, ")
    assert "decoded" not in lines[-1]
    assert any(line.startswith("note: imagenet/far_ood_caltech45 not complete: Caltech-256, images") for line in lines)
    assert "note: imagenet is cut to the first 1 of each class" in lines
    assert any(line.startswith("note: imagenet/test has 200 of the 10,000 rows") for line in lines)


def test_quick_says_what_it_leaves_out(check):
    code, lines = check()
    assert code == 0
    assert lines[-1].endswith("no image was decoded, nor the digests of images over pixels computed (--quick)")


def test_an_index_without_pixels_passes(demo, tmp_path, capsys):
    out = tmp_path / "index-only"
    flags = ["--splits", "imagenet/far_ood_food32", "--index-only", "--allow-partial", "--quiet", "--out", str(out)]
    assert imagenet_benchmark.main(["--food101", str(demo["food101"]), *flags]) == 0
    capsys.readouterr()
    assert verify.main([str(out), "--workers", "1"]) == 0
    assert "note: imagenet/far_ood_food32 has no pixels here, only its index" in capsys.readouterr().out


def test_workers_find_what_one_process_finds(release, check):
    rewrite(release, "imagenet/test", lambda t: with_cells(t, 3, label=777))
    (release / NEAR_SHARD).unlink()
    alone = check()
    assert alone[0] == 1
    assert check("--workers", "2") == alone


def test_help_ends_with_a_command_that_runs(capsys):
    assert verify.main(["--help"]) == 0
    assert capsys.readouterr().out.strip().endswith("Example: python -m hf_scripts.verify build/unknown-detection")


# No release to check


def test_a_folder_that_is_not_there_is_a_user_error(tmp_path, capsys):
    assert verify.main([str(tmp_path / "nowhere")]) == 2
    assert "expected a release folder with a manifest.json, found none" in capsys.readouterr().err


def test_a_manifest_of_an_unknown_format_is_a_user_error(release, capsys):
    write_manifest(release, manifest_of(release) | {"format": 99})
    assert verify.main([str(release)]) == 2
    assert "expected manifest format 1, found 99" in capsys.readouterr().err


def test_workers_below_one_are_a_user_error(release, capsys):
    assert verify.main([str(release), "--workers", "0"]) == 2
    assert "--workers" in capsys.readouterr().err


# Manifest


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{", "manifest.json: expected JSON, found other text"),
        ("[]", "manifest.json: expected an object, found a list"),
        (
            '{"format": 1, "benchmarks": {}, "sources": {}}',
            "manifest.json: expected configs in the manifest, found none",
        ),
    ],
)
def test_a_manifest_that_cannot_be_read(release, check, text, sentence):
    replace(release / "manifest.json", text.encode())
    code, lines = check()
    assert code == 1
    assert problems(lines)[0].startswith(sentence)


def test_a_manifest_that_leads_out_of_the_release(release, check):
    manifest = manifest_of(release)
    manifest["configs"]["imagenet"]["splits"]["test"]["index"]["path"] = "index/../../elsewhere.parquet"
    write_manifest(release, manifest)
    code, lines = check()
    assert code == 1
    assert "expected the path of a file of imagenet/test to lie in data, index, excluded" in problems(lines)[0]


def test_a_key_of_another_type(release, check):
    manifest = manifest_of(release)
    manifest["configs"]["imagenet"]["splits"]["test"]["rows"] = "400"
    write_manifest(release, manifest)
    code, lines = check()
    assert code == 1
    assert problems(lines) == ["manifest.json: expected a whole number for rows in imagenet/test, found text"]


def test_another_digest_of_a_split(release, check):
    manifest = manifest_of(release)
    right = manifest["configs"]["imagenet"]["splits"]["test"]["digest"]
    manifest["configs"]["imagenet"]["splits"]["test"]["digest"] = "0" * 64
    save_manifest(release, manifest)
    code, lines = check()
    assert code == 1
    assert problems(lines) == [f"imagenet/test: expected rows digest {'0' * 64}, found {right}"]


def test_another_number_of_rows(release, check):
    manifest = manifest_of(release)
    manifest["configs"]["imagenet"]["splits"]["test"]["rows"] += 1
    manifest["configs"]["imagenet"]["splits"]["test"]["available"] += 1
    save_manifest(release, manifest)
    code, lines = check()
    assert code == 1
    assert problems(lines) == [
        "imagenet/test: expected 201 rows, found 200 in its shards",
        "imagenet/test: expected 201 rows, found 200 in its index",
    ]


# Files


def test_a_flipped_byte_in_an_image(release, check):
    path = release / TEST_SHARD
    data = bytearray(path.read_bytes())
    at = data.find(image_of(release, TEST_SHARD, 7)) + 400
    data[at] ^= 1
    replace(path, bytes(data))
    code, lines = check()
    assert code == 1
    assert problems(lines)[0].startswith(f"{TEST_SHARD}: expected SHA-256 ")
    assert problems(lines)[1].startswith(f"{TEST_SHARD} row 7: expected an image with content_sha256 ")
    assert len(problems(lines)) == 2


def test_a_shard_cut_short(release, check):
    data = (release / TEST_SHARD).read_bytes()
    replace(release / TEST_SHARD, data[:-1000])
    code, lines = check()
    assert code == 1
    size = len(data)
    assert problems(lines)[0] == f"{TEST_SHARD}: expected {size:,} bytes, found {size - 1000:,}"
    assert problems(lines)[1].startswith(f"{TEST_SHARD}: expected a readable Parquet file, found ")


def test_a_shard_that_is_gone(release, check):
    (release / TEST_SHARD).unlink()
    code, lines = check()
    assert code == 1
    assert f"{TEST_SHARD}: expected a file, found none" in problems(lines)
    assert f"README.md: expected {TEST_SHARD} of config imagenet to match files, found none" in problems(lines)


def test_an_index_that_is_gone(release, check):
    (release / "index/imagenet/test.parquet").unlink()
    code, lines = check()
    assert code == 1
    assert "index/imagenet/test.parquet: expected a file, found none" in problems(lines)
    assert "note: splits were not compared with each other, since an index cannot be read" in lines


@pytest.mark.parametrize("name", ["data/imagenet/test-00000-of-00002.parquet", "index/notes.txt", "excluded/old.csv"])
def test_a_file_that_the_manifest_does_not_list(release, check, name):
    (release / name).write_bytes(b"")
    code, lines = check()
    assert code == 1
    assert problems(lines) == [f"{name}: expected only files that manifest.json lists, found this one"]


@pytest.mark.parametrize("name", ["data/imagenet/.test.parquet.12.tmp", ".README.md.12.tmp"])
def test_what_a_killed_run_left(release, check, name):
    (release / name).write_bytes(b"")
    code, lines = check()
    assert code == 1
    assert problems(lines) == [f"{name}: expected no temporary file, found what a killed run left"]


# Schema and structure


def test_other_label_names_in_one_shard(release, check):
    def change(table):
        described = json.loads(table.schema.metadata[b"huggingface"])
        names = described["info"]["features"]["label"]["names"]
        names[4], names[5] = names[5], names[4]
        return table.replace_schema_metadata({"huggingface": json.dumps(described)})

    names = manifest_of(release)["configs"]["imagenet"]["label_names"]
    rewrite(release, "imagenet/near_ood", change)
    code, lines = check()
    assert code == 1
    where = f"{NEAR_SHARD}: feature label in the schema's metadata"
    assert problems(lines) == [f"{where}: expected name 4 to be {names[4]}, found {names[5]}"]


def test_no_features_in_a_shard(release, check):
    rewrite(release, "imagenet/test", lambda t: t.replace_schema_metadata(None))
    code, lines = check()
    assert code == 1
    assert problems(lines) == [f"{TEST_SHARD}: expected features in the schema's metadata, found none that parse"]


def test_a_column_of_another_type(release, check):
    def change(table):
        position = table.schema.get_field_index("label")
        return table.set_column(position, "label", table["label"].cast(pa.int32()))

    rewrite(release, "imagenet/test", change, index=False)
    code, lines = check()
    assert code == 1
    assert len(problems(lines)) == 1
    assert problems(lines)[0].startswith(f"{TEST_SHARD}: expected the columns image ")
    assert "label int32" in problems(lines)[0]


def test_no_page_index(release, check):
    rewrite(release, "imagenet/test", lambda t: t, write_page_index=False)
    code, lines = check()
    assert code == 1
    assert problems(lines)[0] == f"{TEST_SHARD} row group 0: expected a page index of image.bytes, found none"
    # Eleven columns in each of two row groups, of which five are named.
    assert problems(lines)[5] == "and 17 more like it (page index)"


def test_a_row_group_that_is_too_large(release, check, monkeypatch):
    def size(path):
        return pq.read_metadata(path).row_group(0).column(0).total_uncompressed_size

    largest = max(sorted(release.glob("data/*/*.parquet")), key=size)
    monkeypatch.setattr(check_rows, "ROW_GROUP_BYTES", size(largest) - 1)
    code, lines = check()
    assert code == 1
    assert problems(lines) == [
        f"{largest.relative_to(release).as_posix()} row group 0: expected at most {size(largest) - 1:,} image bytes, "
        f"found {size(largest):,}"
    ]


# Rows


def test_a_digest_of_another_image(release, check):
    other = hashlib.sha256(b"another").hexdigest()
    right = hashlib.sha256(image_of(release, TEST_SHARD, 12)).hexdigest()
    rewrite(release, "imagenet/test", lambda t: with_cells(t, 12, content_sha256=other))
    code, lines = check()
    assert code == 1
    where = f"{TEST_SHARD} row 12"
    assert problems(lines) == [f"{where}: expected an image with content_sha256 {other}, found {right}"]


def test_a_truncated_image(release, check):
    half = image_of(release, TEST_SHARD, 5)[:500]
    rewrite(release, "imagenet/test", lambda t: with_image(t, 5, half))
    assert check()[0] == 0  # the bytes are what the row says; only decoding can tell
    code, lines = check(decode=True)
    assert code == 1
    where = f"{TEST_SHARD} row 5"
    assert len(problems(lines)) == 1
    assert problems(lines)[0].startswith(f"{where}: expected an image that datasets decodes, found one it cannot: ")


def test_metadata_that_datasets_cannot_decode(release, check, demo):
    # A builder would take this file's metadata out, because `datasets` fails on it.
    source = (demo["imagenet"] / "val/n01698640/ILSVRC2012_val_00000005.JPEG").read_bytes()
    assert images.check(source) is not None
    rewrite(release, "imagenet/test", lambda t: with_image(t, 5, source))
    code, lines = check(decode=True)
    assert code == 1
    where = f"{TEST_SHARD} row 5"
    assert len(problems(lines)) == 1
    assert problems(lines)[0].startswith(f"{where}: expected an image that datasets decodes, found one it cannot: ")


def test_made_images_are_named_by_their_pixels(release, check):
    made = Image.new("RGB", (8, 8), "red")
    encoded = io.BytesIO()
    made.save(encoded, format="PNG")
    cells = {"stored": "pixels", "content_sha256": images.pixel_sha256(made)}
    row = pq.read_table(release / TEST_SHARD, columns=["id"])["id"][2].as_py()
    change = functools.partial(with_image, row=2, data=encoded.getvalue(), id=f"{row}#red", **cells)
    rewrite(release, "imagenet/test", change)
    assert check(decode=True)[0] == 0
    rewrite(release, "imagenet/test", lambda t: with_cells(t, 2, content_sha256="0" * 64))
    code, lines = check(decode=True)
    assert code == 1
    found = cells["content_sha256"]
    assert problems(lines) == [f"{TEST_SHARD} row 2: expected an image with content_sha256 {'0' * 64}, found {found}"]


@pytest.mark.parametrize("label", [200, -1])
def test_a_label_out_of_range(release, check, label):
    rewrite(release, "imagenet/test", lambda t: with_cells(t, 3, label=label))
    code, lines = check()
    assert code == 1
    assert problems(lines) == [f"{TEST_SHARD} row 3: expected a label from 0 to 199, found {label}"]


def test_the_label_of_another_class(release, check):
    names = manifest_of(release)["configs"]["imagenet"]["label_names"]
    class_id = pq.read_table(release / TEST_SHARD, columns=["class_id"])["class_id"][3].as_py()
    wrong = (names.index(class_id) + 1) % len(names)
    rewrite(release, "imagenet/test", lambda t: with_cells(t, 3, label=wrong))
    code, lines = check()
    assert code == 1
    assert problems(lines) == [f"{TEST_SHARD} row 3: expected the label of {class_id}, found that of {names[wrong]}"]


def test_labels_of_unknowns_are_counted_when_there_are_many(release, check):
    def change(table):
        position = table.schema.get_field_index("label")
        return table.set_column(position, table.schema.field("label"), pa.array([0] * table.num_rows))

    rewrite(release, "imagenet/near_ood", change)
    code, lines = check()
    assert code == 1
    sentence = f"{NEAR_SHARD} row 0: expected label -1 since imagenet/near_ood is near_ood, found 0"
    assert problems(lines)[0] == sentence
    assert problems(lines)[5:] == ["and 195 more like it (label of an unknown)"]
    assert lines[-1].endswith("is not whole: 200 problems")


def test_another_role(release, check):
    rewrite(release, "imagenet/near_ood", lambda t: with_cells(t, 1, role=2))
    code, lines = check()
    assert code == 1
    assert problems(lines) == [
        f"{NEAR_SHARD} row 1: expected role 1 (near_ood) as imagenet/near_ood is declared, found 2"
    ]


def test_an_id_that_comes_twice(release, check):
    rows = pq.read_table(release / TEST_SHARD).to_pylist()
    rewrite(release, "imagenet/test", lambda t: with_cells(t, 8, source_id=rows[4]["source_id"], id=rows[4]["id"]))
    code, lines = check()
    assert code == 1
    assert problems(lines) == [
        f"index/imagenet/test.parquet: expected every id once, found {rows[4]['id']} in rows 4, 8"
    ]


def test_an_id_that_is_not_its_source_id(release, check):
    right = pq.read_table(release / TEST_SHARD, columns=["id"])["id"][8].as_py()
    rewrite(release, "imagenet/test", lambda t: with_cells(t, 8, id=f"{right}#2"))
    code, lines = check()
    assert code == 1
    assert problems(lines) == [f"{TEST_SHARD} row 8: expected id {right}, found {right}#2"]


def test_an_id_in_two_splits(release, check):
    row = pq.read_table(release / NEAR_SHARD).to_pylist()[0]
    rewrite(release, "imagenet/test", lambda t: with_cells(t, 8, source_id=row["source_id"], id=row["id"]))
    code, lines = check()
    assert code == 1
    found = f"found 1, for instance {row['id']}"
    assert problems(lines) == [f"imagenet/test: expected no id that is also in imagenet/near_ood, {found}"]


def test_a_path_of_the_build_machine(release, check):
    image = {"bytes": image_of(release, TEST_SHARD, 6), "path": "/srv/somebody/a.JPEG"}
    rewrite(release, "imagenet/test", lambda t: with_cells(t, 6, image=image, class_name="/srv/somebody"))
    code, lines = check()
    assert code == 1
    assert problems(lines) == [
        f"{TEST_SHARD} row 6: expected no absolute path in class_name, found /srv/somebody",
        f"{TEST_SHARD} row 6: expected a file name in image.path, found /srv/somebody/a.JPEG",
    ]


@pytest.mark.parametrize("cells", [{"class_name": None}, {"image": {"bytes": None, "path": "a.JPEG"}}])
def test_a_cell_without_a_value(release, check, cells):
    rewrite(release, "imagenet/test", lambda t: with_cells(t, 6, **cells))
    code, lines = check()
    assert code == 1
    name = "a value for class_name" if "class_name" in cells else "image bytes"
    assert problems(lines) == [
        f"{TEST_SHARD} row 6: expected {name}, found {'None' if 'class_name' in cells else 'none'}"
    ]


def test_an_index_that_differs_from_its_shard(release, check):
    rewrite(release, "imagenet/test", lambda t: with_cells(t, 6, class_name="another"), index=False)
    name = pq.read_table(release / "index/imagenet/test.parquet")["class_name"][6]
    code, lines = check()
    assert code == 1
    assert problems(lines) == [
        f"{TEST_SHARD} row 6: expected class_name {name} as in index/imagenet/test.parquet, found another"
    ]


def test_the_second_shard_is_compared_with_its_own_part_of_the_index(release, check):
    manifest = manifest_of(release)
    entry = manifest["configs"]["imagenet"]["splits"]["test"]
    table = pq.read_table(release / TEST_SHARD)
    halves = [table.slice(0, 150), with_cells(table.slice(150), 20, class_name="another")]
    (release / TEST_SHARD).unlink()
    entry["data"] = []
    for number, half in enumerate(halves):
        path = f"data/imagenet/test-{number:05d}-of-00002.parquet"
        pq.write_table(half, release / path, write_page_index=True)
        entry["data"].append(entry_of(release, path))
    save_manifest(release, manifest)
    code, lines = check()
    assert code == 1
    where = "data/imagenet/test-00001-of-00002.parquet row 20"
    assert problems(lines) == [
        f"{where}: expected class_name {table['class_name'][170]} as in index/imagenet/test.parquet, found another"
    ]


# Splits against each other


def test_a_training_image_among_the_unknowns(release, check):
    smuggled = image_of(release, "data/imagenet-train/train-00000-of-00001.parquet", 0)
    rewrite(release, "imagenet/near_ood", lambda t: with_image(t, 9, smuggled))
    row = pq.read_table(release / NEAR_SHARD, columns=["id"])["id"][9]
    code, lines = check()
    assert code == 1
    found = f"found 1, for instance {row}; --withdraw leaves them out of a build"
    assert problems(lines) == [f"imagenet/near_ood: expected no image of an in-distribution training split, {found}"]


def test_a_known_test_image_among_the_unknowns(release, check):
    smuggled = image_of(release, TEST_SHARD, 0)
    rewrite(release, "imagenet/near_ood", lambda t: with_image(t, 9, smuggled))
    code, lines = check()
    assert code == 1
    found = "found 1 in both imagenet/near_ood and imagenet/test"
    assert len(problems(lines)) == 1
    assert problems(lines)[0].startswith(f"imagenet: expected every image in one role, {found}, for instance ")


def test_an_image_in_two_unknown_roles_is_a_note(release, check):
    # Sources hold copies of their own, and both rows say the truth: the image is unknown.
    copied = image_of(release, "data/imagenet/far_ood_places82-00000-of-00001.parquet", 0)
    rewrite(release, "imagenet/near_ood", lambda t: with_image(t, 9, copied))
    code, lines = check()
    assert code == 0
    assert any("found 1 in both imagenet/far_ood_places82 and imagenet/near_ood" in line for line in lines)


# Exclusions and card


def test_an_exclusion_that_is_gone(release, check):
    path = Path("excluded/imagenet.csv")
    manifest = manifest_of(release)
    lines = read_excluded(release / path)
    dropped = next(line for line in lines if line.split == "imagenet/test" and line.images)
    entry = manifest["configs"]["imagenet"]["splits"]["test"]
    (release / path).unlink()
    write_excluded(release / path, [line for line in lines if line is not dropped], [])
    manifest["configs"]["imagenet"]["excluded"] = entry_of(release, path.as_posix())
    save_manifest(release, manifest)
    code, found = check()
    assert code == 1
    left = entry["excluded"] - dropped.images
    assert problems(found) == [
        f"imagenet/test: expected rows and excluded images to add up to the source's {entry['available']:,}, "
        f"found {entry['rows']:,} + {left:,} in {path}"
    ]


def test_a_table_of_exclusions_that_cannot_be_read(release, check):
    manifest = manifest_of(release)
    replace(release / "excluded/imagenet.csv", b"one,two\n1,2\n")
    manifest["configs"]["imagenet"]["excluded"] = entry_of(release, "excluded/imagenet.csv")
    save_manifest(release, manifest)
    code, lines = check()
    assert code == 1
    assert problems(lines)[0].startswith("excluded/imagenet.csv: expected a table of exclusions, found other text")


def test_an_edited_card(release, check):
    text = (release / "README.md").read_text(encoding="utf-8")
    replace(release / "README.md", text.replace("# Unknown detection\n", "# Known detection\n").encode())
    code, lines = check()
    assert code == 1
    assert len(problems(lines)) == 1
    assert problems(lines)[0].endswith(
        "expected '# Unknown detection' as manifest.json has it, found '# Known detection'"
    )


def test_a_card_that_names_no_file(release, check):
    text = (release / "README.md").read_text(encoding="utf-8")
    replace(release / "README.md", text.replace("index/imagenet/test.parquet", "index/imagenet/tset.parquet").encode())
    code, lines = check()
    assert code == 1
    assert problems(lines)[0] == (
        "README.md: expected index/imagenet/tset.parquet of config imagenet-index to match files, found none"
    )


def test_a_card_without_a_config(release, check):
    text = (release / "README.md").read_text(encoding="utf-8")
    replace(release / "README.md", text.replace("config_name: imagenet-train\n", "config_name: other\n").encode())
    code, lines = check()
    assert code == 1
    assert problems(lines)[0].startswith("README.md: expected the configs imagenet, ")


@pytest.mark.parametrize("text", ["no front matter\n", "---\nconfigs: [\n---\n", "---\nconfigs: 3\n---\n"])
def test_a_card_whose_front_matter_cannot_be_read(release, check, text):
    replace(release / "README.md", text.encode())
    code, lines = check()
    assert code == 1
    assert problems(lines)[0].startswith("README.md: expected YAML ")


def test_a_card_that_is_gone(release, check):
    (release / "README.md").unlink()
    code, lines = check()
    assert code == 1
    assert problems(lines) == ["README.md: expected the dataset card, found No such file or directory"]
