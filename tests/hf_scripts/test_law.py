"""Of a release that `verify` calls whole, `load_dataset` returns its manifest's rows: six ways around, thousands."""

import base64
import collections
import io
import json
import shutil

import datasets
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from PIL import Image

from benchmarks.duplicates.near import coloured_noise
from builders.duplicates.distance import distance
from builders.duplicates.search import THRESHOLD
from builders.release.duplicates import compared_entries, comparison, read_pairs
from builders.release.entries import SIMILARITY
from tests.hf_scripts.folder_mutations import CONFIGS, mutate, oriented, xmp
from tests.hf_scripts.folder_mutations import chunk as png_chunk
from tests.hf_scripts.law import NEAR, SHARD, TEST, breach, code_of, encoded, verdict
from tests.hf_scripts.law_fixtures import folder, known, quiet, says, tiny
from tests.hf_scripts.pair_tables import add_table, replace_pairs
from tests.hf_scripts.samples import linked_copy, make_release
from tests.hf_scripts.tampering import replace, rewrite, with_cells, write_shard
from tests.manifests import manifest_of, write_json

__all__ = ["folder", "known", "quiet", "says", "tiny"]


def test_the_release_as_it_is_made(tiny, known, tmp_path):
    assert code_of(tiny) == 0
    assert breach(tiny, known, tmp_path / "cache") == ""


# Files that the manifest does not list


def test_a_file_that_is_not_listed_at_any_depth(folder, says):
    names = [
        *(".huggingface.yaml", "release.py", "dataset_infos.json", "more/test.parquet", "deep/er/x.txt", ".hidden/x"),
        *("data/bench/test-9-of-00002.parquet", "index/.x.parquet", "samples/x/y/z.png", "data/.cache/x", "x"),
    ]
    for name in names:
        folder.put(folder.root / name, CONFIGS.encode())
        assert says(folder, "--check", "fast") == [f"{name}: manifest.json does not list this file"]
        (folder.root / name).unlink()


def test_a_file_that_lets_test_return_the_rows_of_another_split(folder, known, tmp_path):
    """By `.huggingface.yaml`, which `datasets` lets override the card's YAML (5.2, `LocalDatasetModuleFactory`)."""
    folder.put(folder.root / ".huggingface.yaml", CONFIGS.encode())
    loaded = datasets.load_dataset(str(folder.root), "bench", split="test", streaming=True)
    assert {row["role"] for row in loaded} == {1}  # near_ood
    assert code_of(folder.root) == 1


def test_links_to_folders_are_files_that_are_not_listed(folder, says, tmp_path):
    shutil.move(folder.root / "data", tmp_path / "elsewhere")
    (folder.root / "data").symlink_to(tmp_path / "elsewhere")
    (folder.root / "index/round").symlink_to("..")
    assert [line for line in says(folder) if "does not list" in line] == [
        "data: manifest.json does not list this file",
        "index/round: manifest.json does not list this file",
    ]


def test_what_git_a_build_and_the_hubs_client_keep_is_no_part_of_a_release(folder, known, tmp_path):
    for name in (".git/config", ".cache/huggingface/x", ".state/lock", ".gitattributes"):
        folder.put(folder.root / name, b"x")
    assert code_of(folder.root) == 0
    assert breach(folder.root, known, tmp_path / "cache") == ""


# Orientation


def with_image(folder, path, row, change):
    table = pq.read_table(folder.root / path)
    rows = table.to_pylist()
    rows[row]["image"]["bytes"] = change(rows[row]["image"]["bytes"])
    write_shard(folder.root / path, pa.Table.from_pylist(rows, schema=table.schema))
    folder.render()


def as_webp(data):
    out = io.BytesIO()
    Image.open(io.BytesIO(data)).save(out, format="WebP", lossless=True, exif=b"Exif\0\0" + oriented(6))
    return out.getvalue()


TURNED = {
    "EXIF in PNG": lambda data: data[:33] + png_chunk(b"eXIf", oriented(3)) + data[33:],
    "EXIF behind the pixels": lambda data: data[:-12] + png_chunk(b"eXIf", oriented(2)) + data[-12:],
    "XMP in PNG": lambda data: data[:33] + png_chunk(b"iTXt", b"XML:com.adobe.xmp\0\0\0\0\0" + xmp(3)) + data[33:],
    "EXIF in WebP": as_webp,
}


@pytest.mark.parametrize("kind", TURNED)
def test_an_image_whose_digest_is_of_pixels_and_that_is_turned(folder, says, kind):
    path = "data/bench/near_ood-00000-of-00002.parquet"
    with_image(folder, path, 0, TURNED[kind])
    (line,) = says(folder)
    assert line.startswith(f"{path} row 0: the image has the digest ")


def test_a_block_that_turns_nothing_changes_no_digest_of_pixels(folder, known, tmp_path):
    path = "data/bench/near_ood-00000-of-00002.parquet"
    with_image(folder, path, 0, lambda data: data[:33] + png_chunk(b"eXIf", oriented(1)) + data[33:])
    assert code_of(folder.root) == 0
    assert breach(folder.root, known, tmp_path / "cache") == ""


# The card


def test_the_yaml_of_a_card_is_written_as_it_is_read(tiny):
    """So the keys of the tests below are what `datasets` reads."""
    front = (tiny / "README.md").read_text(encoding="utf-8").split("---\n")[1]
    assert yaml.safe_dump(yaml.safe_load(front), sort_keys=False, allow_unicode=True) == front


def reversed_labels(front):
    feature = {"name": "label", "dtype": {"class_label": {"names": {"0": "n02", "1": "n01"}}}}
    front["dataset_info"][0]["features"] = [feature]


CARDS = {
    "filters": lambda front: front["configs"][0].update(filters=[["label", "==", 0]]),
    "columns": lambda front: front["configs"][0].update(columns=["id", "label"]),
    "data_dir": lambda front: front["configs"][0].update(data_dir="index"),
    "features": reversed_labels,
    "default": lambda front: front["configs"][0].update(default=True),
    "unknown key": lambda front: front.update(x=1),
    "order of shards": lambda front: front["configs"][0]["data_files"][1].update(
        path=[SHARD.format(1), SHARD.format(0)]
    ),
    "folder nobody scans": lambda front: front["configs"][0]["data_files"][1].update(
        path=["data/bench/test-*-of-00002.parquet", ".state/*"]
    ),
    "row counts": lambda front: front["dataset_info"][0].pop("splits"),
    "other names": lambda front: front.update(pretty_name="Another"),
}


@pytest.mark.parametrize("change", CARDS)
def test_a_card_whose_yaml_is_not_the_manifests(folder, says, change):
    path = folder.root / "README.md"
    _, text, body = path.read_text(encoding="utf-8").split("---\n", 2)
    front = yaml.safe_load(text)
    CARDS[change](front)
    changed = yaml.safe_dump(front, sort_keys=False, allow_unicode=True)
    replace(path, f"---\n{changed}---\n{body}".encode())
    folder.seal()
    (line,) = says(folder, "--check", "fast")
    assert line.startswith("README.md line ") and line.endswith(" as manifest.json gives")


def test_another_body_of_a_card_is_free_where_the_manifest_lists_it(folder, known, tmp_path):
    replace(folder.root / "README.md", (folder.root / "README.md").read_bytes() + b"---\nconfigs: []\n---\n")
    assert code_of(folder.root) == 1
    folder.seal()
    assert code_of(folder.root) == 0
    assert breach(folder.root, known, tmp_path / "cache") == ""


# The names of shards, and their order


def test_shards_that_sort_otherwise_than_the_manifest_lists_them(folder, says):
    manifest = manifest_of(folder.root)
    manifest["configs"]["bench"]["splits"]["test"]["data"].reverse()
    write_json(folder.root, manifest)
    assert f"manifest.json: file 0 of {TEST} is {SHARD.format(1)}, not {SHARD.format(0)}" in says(
        folder, "--check", "fast"
    )


def test_a_shard_with_the_name_of_another_format(folder, says):
    for number in range(2):
        shard = folder.root / SHARD.format(number)
        shard.rename(shard.with_suffix(".csv"))
    text = (folder.root / "manifest.json").read_text(encoding="utf-8")
    for number in range(2):
        text = text.replace(SHARD.format(number), SHARD.format(number).replace(".parquet", ".csv"))
    replace(folder.root / "manifest.json", text.encode())
    renamed = SHARD.format(0).replace(".parquet", ".csv")
    assert says(folder, "--check", "fast")[0] == (
        f"manifest.json: file 0 of {TEST} is {renamed}, not {SHARD.format(0)}"
    )


# Pairs of duplicates


@pytest.mark.parametrize(("number", "which"), [(0, "at distance 0.0753"), (1, "equal")])
def test_a_pair_of_other_bytes_that_is_not_listed(folder, says, number, which):
    """One of similar images, and one of equal pixels; the manifest's counts are put right."""
    pairs = read_pairs(folder.root / "duplicates/pairs.parquet")
    assert [pair.distance > 0 for pair in pairs] == [True, False]
    dropped = pairs.pop(number)
    replace_pairs(folder.root, pairs)
    folder.render()
    (line,) = says(folder)
    expected = f"lacks the pair {dropped.id} of {dropped.split} and {dropped.other_id} of {dropped.other_split}"
    assert line.startswith(f"duplicates/pairs.parquet: {expected}, which are {which}")


@pytest.mark.parametrize(("known", "unknown", "wrong"), [("part", "whole", 1), ("whole", "part", 0)])
def test_a_pair_that_is_near_in_one_direction_only(tmp_path, known, unknown, wrong):
    """Only the query is moved and scaled. A build asks with unknown images, so that verify does, too."""
    whole = coloured_noise(1, 1, np.random.default_rng(11))[0]
    part = np.asarray(Image.fromarray(whole).crop((4, 2, 31, 29)).resize((32, 32), Image.Resampling.BICUBIC))
    assert distance(whole, part) < THRESHOLD < distance(part, whole)
    images = {"whole": encoded(whole), "part": encoded(part)}
    shown = {"test/0.png": images[known], "near_ood/0.png": images[unknown]}
    root = tmp_path / "release"
    make_release(root, {TEST: range(1), NEAR: range(1)}, picture=shown.__getitem__)
    add_table(root, compared=compared_entries({comparison(SIMILARITY, TEST, NEAR)}))
    assert code_of(root) == wrong


# Metadata of Parquet


@pytest.mark.parametrize(
    ("path", "feature"),
    [("duplicates/pairs.parquet", "id"), (SHARD.format(0), "label"), ("index/bench/test.parquet", "id")],
)
@pytest.mark.parametrize("change", ["feature", "key", "inside"])
def test_other_metadata_of_a_schema(folder, says, path, feature, change):
    table = pq.read_table(folder.root / path)
    metadata = dict(table.schema.metadata)
    described = json.loads(metadata[b"huggingface"])
    if change == "feature":
        described["info"]["features"][feature] = {"dtype": "large_string", "_type": "Value"}
    elif change == "inside":
        described["info"]["task_templates"] = []
    else:
        metadata[b"pandas"] = b"{}"
    metadata[b"huggingface"] = json.dumps(described).encode()
    write_shard(folder.root / path, table.replace_schema_metadata(metadata))
    folder.render()
    (line,) = says(folder, "--check", "fast")
    assert line.startswith(f"{path}: ") and ("metadata" in line or "is not a table of duplicates" in line)


@pytest.mark.parametrize("path", ["duplicates/pairs.parquet", SHARD.format(0), "index/bench/test.parquet"])
def test_other_metadata_in_the_copy_that_features_are_read_from(folder, says, path):
    """A file has its metadata as keys, and in base64 once more in Arrow's schema, which `datasets` reads."""
    file = folder.root / path
    data = file.read_bytes()
    keys = pq.read_metadata(file).metadata[b"ARROW:schema"]
    place = next(place for place in range(0, len(keys), 4) if b"Value" in base64.b64decode(keys[place : place + 12]))
    start = data.index(keys) + place
    value = base64.b64decode(data[start : start + 12])
    changed = base64.b64encode(value.replace(b"Value", b"Vahue"))
    replace(file, data[:start] + changed + data[start + 12 :])
    assert b"Vahue" in pq.read_schema(file).metadata[b"huggingface"]
    folder.render()
    (line,) = says(folder, "--check", "fast")
    assert line.startswith(f"{path}: ") and ("metadata" in line or "is not a table of duplicates" in line)


@pytest.mark.parametrize("path", [SHARD.format(0), "index/bench/test.parquet"])
def test_a_column_that_claims_another_number_of_values(folder, says, path):
    """Of a column that claims none, pyarrow's `iter_batches` yields no row, and says nothing."""
    file = folder.root / path
    data = bytearray(file.read_bytes())
    # In a footer, the name of a column is followed by its codec and its number of values, of one byte each here.
    named = b"\x19\x18\x08class_id\x15"
    data[data.rindex(named) + len(named) + 2] = 0
    group = pq.read_metadata(pa.BufferReader(bytes(data))).row_group(0)
    columns = [group.column(number) for number in range(group.num_columns)]
    assert [column.path_in_schema for column in columns if column.num_values != group.num_rows] == ["class_id"]
    replace(file, bytes(data))
    folder.render()
    assert any(line.startswith(f"{path}: ") for line in says(folder, "--check", "fast"))


# What digests do not cover


def test_what_the_digest_of_a_split_does_not_cover(folder):
    """Other names of classes, in all places at once, leave the digests of rows as papers print them."""
    digests = [split["digest"] for split in manifest_of(folder.root)["configs"]["bench"]["splits"].values()]
    rewrite(folder.root, TEST, lambda table: with_cells(table, 0, class_name="another class"))
    assert code_of(folder.root) == 0
    assert [split["digest"] for split in manifest_of(folder.root)["configs"]["bench"]["splits"].values()] == digests
    rewrite(folder.root, TEST, lambda table: with_cells(table, 0, id="source/test/9.png", source_id="test/9.png"))
    assert [split["digest"] for split in manifest_of(folder.root)["configs"]["bench"]["splits"].values()] != digests


# Thousands


def judged(tiny, known, tmp_path, monkeypatch, seeds):
    """Try mutations of these seeds; returns how many of each kind were refused, or whole and as the law says."""
    counts, broken, cache = collections.Counter(), [], tmp_path / "cache"
    monkeypatch.setenv("HF_DATASETS_CACHE", str(cache))
    for seed in seeds:
        root, kind, after = mutate(linked_copy(tiny, tmp_path / "work/release"), seed, cache)
        code, last = verdict(root)
        how = {"download_mode": "force_redownload"} if str(cache) in last else {}  # as it says there
        wrong = breach(root, known, cache, **how) if code == 0 else ""
        shutil.rmtree(cache, ignore_errors=True)
        counts[kind, "whole" if code == 0 else "refused"] += 1
        if wrong:
            broken.append(f"seed {seed}, {kind}, {after}: {wrong}")
        shutil.rmtree(tmp_path / "work")
    assert broken == []
    return counts


def outcomes(counts):
    return {outcome for _, outcome in counts}


SOME, MORE, THOUSANDS = range(34), range(34, 100), range(1_000, 3_000)
FUZZ = [pytest.mark.fuzz, pytest.mark.timeout(7200)]


@pytest.mark.parametrize(
    "seeds", [SOME, pytest.param(MORE, marks=pytest.mark.slow), pytest.param(THOUSANDS, marks=FUZZ)], ids=len
)
def test_mutations_of_a_release(tiny, known, tmp_path, monkeypatch, seeds):
    """The first seeds try each kind twice."""
    assert outcomes(judged(tiny, known, tmp_path, monkeypatch, seeds)) == {"whole", "refused"}
