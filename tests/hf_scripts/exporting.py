"""Run exports of a release, and read them back by each harness's own rules."""

import ast
import io
import json
import tarfile
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from PIL import Image

from builders.release import images
from builders.release.digests import rows_digest
from builders.release.schema import KNOWN_COLUMNS
from builders.release.tables import write_index
from hf_scripts import export
from tests.hf_scripts.samples import linked_copy
from tests.manifests import as_json, entry_of, manifest_of, save_manifest

FORMATS = ("openood", "imagefolder", "webdataset")
TEST = "imagenet/test"
PLACES = "imagenet/far_ood_places82"
SMALL_SHARDS = ["--shard-bytes", "200000"]


@pytest.fixture(scope="session")
def release(imagenet_release):
    """The undisturbed ImageNet-scale release of the demo sources."""
    return imagenet_release


@pytest.fixture
def copy(release, tmp_path):
    """A linked copy to damage."""
    return linked_copy(release, tmp_path / "copy")


def run(release, chosen_format, out, *flags):
    return export.main([str(release), "--format", chosen_format, "--out", str(out), "--quiet", *flags])


def splits_of(release):
    """Every split's entry in the manifest, by `config/split`."""
    configs = manifest_of(release)["configs"]
    return {f"{config}/{name}": entry for config, c in configs.items() for name, entry in c["splits"].items()}


def index_of(release, key):
    return pq.read_table(release / splits_of(release)[key]["index"]["path"]).to_pylist()


def written(out):
    """Every file of an export with its bytes, but for its own record."""
    files = {path.relative_to(out).as_posix(): path.read_bytes() for path in sorted(out.rglob("*")) if path.is_file()}
    return {name: data for name, data in files.items() if not name.startswith(".export/")}


def stamps(out):
    return {path: (path.stat().st_ino, path.stat().st_mtime_ns) for path in sorted(out.rglob("*")) if path.is_file()}


def replace_rows(root, key, table, more=()):
    """Give a split other rows, perhaps with more columns, with all that follows from them put right."""
    manifest = manifest_of(root)
    config, split = key.split("/")
    entry = manifest["configs"][config]["splits"][split]
    extra = [*(column for column in KNOWN_COLUMNS.values() if column.name in table.column_names), *more]
    manifest["configs"][config]["columns"] += [as_json(column) for column in more]
    (root / entry["data"][0]["path"]).unlink()
    pq.write_table(table, root / entry["data"][0]["path"], row_group_size=50)
    write_index(root / entry["index"]["path"], table, manifest["configs"][config]["label_names"], extra)
    entry["data"] = [entry_of(root, entry["data"][0]["path"])]
    entry["index"] = entry_of(root, entry["index"]["path"])
    entry["digest"], entry["parts"][0]["rows"] = rows_digest(table), table.num_rows
    save_manifest(root, manifest)


def table_of(root, key):
    return pq.read_table(root / splits_of(root)[key]["data"][0]["path"])


# The readers, by each harness's rules


def read_openood(out, key):
    """As `openood/datasets/imglist_dataset.py` of OpenOOD 1.5 reads a list; what it lacks is in the lines beside."""
    columns = [json.loads(line) for line in (out / "imglists" / f"{key}.jsonl").read_text("utf-8").splitlines()]
    with (out / "imglists" / f"{key}.txt").open(encoding="ascii") as opened:
        lines = opened.readlines()
    assert len(lines) == len(columns)
    for line, row in zip(lines, columns, strict=True):
        path, extra = line.strip("\n").split(" ", 1)
        assert not path.startswith("/") and not hasattr(ast.literal_eval(extra), "items")
        assert row.pop("file_name") == path
        yield row, int(extra), out / "images" / path, (out / "images" / path).read_bytes()


def read_imagefolder(out, key):
    for line in (out / key / "metadata.jsonl").read_text("utf-8").splitlines():
        row = json.loads(line)
        path = out / key / row.pop("file_name")
        yield row, row["label"], path, path.read_bytes()


def read_webdataset(out, key):
    """As the WebDataset format has it: neighbours with the same name up to the first point are one sample."""
    numbers = []
    for path in sorted(out.glob(f"{key}-[0-9][0-9][0-9][0-9][0-9].tar")):
        samples = {}
        with tarfile.open(path) as archive:
            for member in archive:
                name, _, kind = member.name.partition(".")
                samples.setdefault(name, {})[kind] = archive.extractfile(member).read()
        for name, sample in samples.items():
            (kind,) = sample.keys() - {"json", "cls"}
            numbers.append(int(name))
            yield json.loads(sample["json"]), int(sample["cls"]), Path(f"{name}.{kind}"), sample[kind]
    assert numbers == list(range(len(numbers)))


_SUFFIXES = {"JPEG": ".jpg", "PNG": ".png", "WEBP": ".webp"}

READERS = {"openood": read_openood, "imagefolder": read_imagefolder, "webdataset": read_webdataset}


def assert_is_the_release(release, chosen_format, out, key):
    """Ids, labels, contents and all other columns of a split are those of the release's index, in order."""
    rows = list(READERS[chosen_format](out, key))
    index = index_of(release, key)
    assert [(row["id"], label) for row, label, _, _ in rows] == [(row["id"], row["label"]) for row in index]
    assert [row for row, _, _, _ in rows] == index
    for row, _, path, data in rows:
        assert images.content_sha256(row["stored"], data) == row["content_sha256"]
        with Image.open(io.BytesIO(data)) as image:
            assert path.suffix == _SUFFIXES[image.format]
