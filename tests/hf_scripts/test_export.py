"""What is exported is read back by each harness's own rules, and is the release: the same ids, labels and contents."""

import io
import os
import tarfile

import datasets
import numpy as np
import pyarrow as pa
import pytest
from PIL import Image

from builders import facets_benchmark
from builders.release import images
from builders.release.schema import Column
from tests.hf_scripts.exporting import (
    FORMATS,
    PLACES,
    READERS,
    SMALL_SHARDS,
    TEST,
    assert_is_the_release,
    copy,
    index_of,
    read_imagefolder,
    release,
    replace_rows,
    run,
    splits_of,
    table_of,
    written,
)
from tests.hf_scripts.samples import make_release
from tests.manifests import rows_in

__all__ = ["copy", "release"]

BASELINE = "facets-baseline"


@pytest.fixture(scope="module")
def exports(release, tmp_path_factory):
    """The whole release exported in each format, by its name. Read only."""
    base = tmp_path_factory.mktemp("exports")
    for chosen_format in FORMATS:
        flags = SMALL_SHARDS if chosen_format == "webdataset" else []
        assert run(release, chosen_format, base / chosen_format, *flags) == 0
    return {chosen_format: base / chosen_format for chosen_format in FORMATS}


@pytest.mark.parametrize("chosen_format", FORMATS)
def test_what_is_read_back_is_the_release(chosen_format, release, exports):
    out = exports[chosen_format]
    splits = splits_of(release)
    assert len(splits) == 9
    for key in splits:
        assert_is_the_release(release, chosen_format, out, key)


def test_a_split_of_several_roles_has_an_image_list_for_each(demo, tmp_path):
    sources = ["--places365", str(demo["places365"]), "--svhn_full", str(demo["svhn_full"])]
    flags = ["--limit-per-class", "1", "--allow-partial", "--quiet", "--workers", "1", "--splits", f"{BASELINE}/test"]
    assert facets_benchmark.main([*sources, *flags, "--out", str(tmp_path / "built")]) == 0
    out = tmp_path / "out"
    assert run(tmp_path / "built", "openood", out) == 0
    assert_is_the_release(tmp_path / "built", "openood", out, f"{BASELINE}/test")
    lists = out / "imglists" / BASELINE
    every = (lists / "test.txt").read_text().splitlines()
    known = [line for line in every if not line.endswith(" -1")]
    assert len(known) == 365  # one of each scene, which are this config's labels
    assert (lists / "test-in_distribution.txt").read_text().splitlines() == known
    assert (lists / "test-far_ood.txt").read_text().splitlines() == [line for line in every if line not in known]
    assert sorted(path.name for path in lists.iterdir()) == [
        "test-far_ood.txt",
        "test-in_distribution.txt",
        "test.jsonl",
        "test.txt",
    ]
    text = " ".join((out / "README.txt").read_text().split())
    assert f"imglists/{BASELINE}/test-in_distribution.txt" in text


@pytest.mark.parametrize("chosen_format", FORMATS)
def test_only_what_the_format_is_made_of_is_there(chosen_format, release, exports):
    out = exports[chosen_format]
    expected = {"README.txt"}
    for key in splits_of(release):
        rows = list(READERS[chosen_format](out, key))
        if chosen_format == "openood":
            expected |= {path.relative_to(out).as_posix() for _, _, path, _ in rows}
            expected |= {f"imglists/{key}.txt", f"imglists/{key}.jsonl"}
        elif chosen_format == "imagefolder":
            expected |= {path.relative_to(out).as_posix() for _, _, path, _ in rows} | {f"{key}/metadata.jsonl"}
        else:
            expected |= {path.relative_to(out).as_posix() for path in out.glob(f"{key}-?????.tar")}
    assert written(out).keys() == expected


# Odd names and formats


def encoded(form, number):
    buffer = io.BytesIO()
    Image.new("RGB", (8 + number, 6), (number, 2 * number, 99)).save(buffer, form)
    return buffer.getvalue()


ODD = [
    "/a/airfield",
    "133.lightning",
    "crème 雷",
    "CON",
    "train",
    'b <:*?"\\|>',
    "",
    "..",
    "x" * 300,
    "A",
    "a",
]


@pytest.fixture
def odd(copy):
    """A release whose places have odd classes, odd file names, three formats, made images and one more column."""
    rows = table_of(copy, PLACES).to_pylist()[:44]
    for number, row in enumerate(rows):
        form = ("JPEG", "PNG", "WEBP")[number % 3]
        data = encoded(form, number)
        # Images of one class share their name and differ only in folder or in what was done to them.
        folder, class_id = f"part {number // 22}", ODD[number % 11]
        row["source_id"] = f"{folder}/{class_id}/Ünïted_val_雷 1.jpg"
        row["stored"] = "pixels" if form == "PNG" else "source"
        row["id"] = f"places365/{row['source_id']}#{number // 11}"
        row["class_id"] = row["class_name"] = class_id
        row["image"] = {"bytes": data, "path": "Ünïted_val_雷 1.jpg"}
        row["content_sha256"] = images.content_sha256(row["stored"], data)
        row["prompt"] = ""
    schema = table_of(copy, PLACES).schema.append(pa.field("prompt", pa.string()))
    more = [Column("prompt", "string", "what was asked for")]
    replace_rows(copy, PLACES, pa.Table.from_pylist(rows, schema=schema.remove_metadata()), more)
    return copy


@pytest.mark.parametrize("chosen_format", FORMATS)
def test_odd_classes_and_names_are_told_apart_and_read_back(chosen_format, odd, tmp_path):
    out = tmp_path / "out"
    assert run(odd, chosen_format, out, "--splits", PLACES) == 0
    assert_is_the_release(odd, chosen_format, out, PLACES)
    for name in written(out):
        assert name.isascii() and " " not in name and "\\" not in name
    if chosen_format != "webdataset":
        base = out / "images" / PLACES if chosen_format == "openood" else out / PLACES
        assert len([path for path in base.iterdir() if path.is_dir()]) == len(ODD)


# datasets, torchvision, webdataset


def test_datasets_reads_an_image_folder(release, exports, tmp_path):
    """By its `data_dir` alone: all columns, and images with the release's pixels."""
    folder = str(exports["imagefolder"] / TEST)
    loaded = datasets.load_dataset("imagefolder", data_dir=folder, split="train", cache_dir=str(tmp_path))
    index = index_of(release, TEST)
    assert set(loaded.column_names) == {"image", *index[0]}
    assert loaded.remove_columns("image").to_list() == index
    decode = datasets.Image().decode_example
    for image, stored in zip(loaded["image"], table_of(release, TEST)["image"].to_pylist(), strict=True):
        expected = decode(stored)
        assert image.mode == expected.mode
        assert np.array_equal(np.asarray(image), np.asarray(expected))


def numbered_as_torchvision_does(folder):
    """Paths and class numbers by the rule of torchvision's `DatasetFolder.find_classes`: folders, sorted by name."""
    classes = sorted(entry.name for entry in os.scandir(folder) if entry.is_dir())
    return {path: number for number, name in enumerate(classes) for path in sorted((folder / name).iterdir())}


@pytest.mark.parametrize("key", [TEST, "imagenet/validation", "imagenet-train/train"])
def test_class_folders_of_known_splits_are_numbered_as_labels_are(key, exports):
    out = exports["imagefolder"]
    labels = {path: label for _, label, path, _ in read_imagefolder(out, key)}
    assert sorted(set(labels.values())) == list(range(200))
    assert numbered_as_torchvision_does(out / key) == labels


@pytest.mark.parametrize(
    "classes",
    [("ant", "zebra", "élan"), ("A b", "A[", "AA"), ("a", "b", "x" * 120, "x" * 60 + "y" * 60), ("1", "@", "A")],
)
def test_class_folders_of_any_names_are_numbered_as_labels_are(classes, tmp_path):
    """By the rule of torchvision's `ImageFolder`, which the export's README names."""
    labels = tuple(sorted(classes))
    made = make_release(tmp_path / "rel", {"bench/test": range(2 * len(labels)), "bench/near_ood": [0]}, labels=labels)
    assert run(made, "imagefolder", tmp_path / "out") == 0
    given = {path: label for _, label, path, _ in read_imagefolder(tmp_path / "out", "bench/test")}
    assert numbered_as_torchvision_does(tmp_path / "out" / "bench/test") == given


def load_tars(out, key, cache, **options):
    files = {"rows": str(out / f"{key}-*.tar")}
    return datasets.load_dataset("webdataset", data_files=files, split="rows", cache_dir=str(cache), **options)


def test_datasets_reads_tars(release, exports, tmp_path):
    loaded = load_tars(exports["webdataset"], PLACES, tmp_path)
    index = index_of(release, PLACES)
    assert loaded["json"][:] == index
    assert loaded["cls"][:] == [row["label"] for row in index]
    decode = datasets.Image().decode_example
    for image, stored in zip(loaded["jpg"], table_of(release, PLACES)["image"].to_pylist(), strict=True):
        assert np.array_equal(np.asarray(image), np.asarray(decode(stored)))


def test_datasets_reads_tars_of_several_formats_with_the_features_that_the_readme_asks_for(release, exports, tmp_path):
    text = " ".join((exports["webdataset"] / "README.txt").read_text(encoding="utf-8").split())
    assert "There are images of several formats in imagenet/test (jpg, png)." in text
    word, number = datasets.Value("string"), datasets.Value("int64")
    row = index_of(release, TEST)[0]
    columns = {name: number if isinstance(value, int) else word for name, value in row.items()}
    kinds = {"jpg": datasets.Image(), "png": datasets.Image()}
    features = datasets.Features({"__key__": word, "__url__": word, **kinds, "json": columns, "cls": number})
    loaded = load_tars(exports["webdataset"], TEST, tmp_path, features=features)
    assert loaded["json"][:] == index_of(release, TEST)
    assert [(image["jpg"] is None) + (image["png"] is None) for image in loaded] == [1] * len(loaded)


# The package leaves the tars open that it reads.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_webdataset_reads_tars(release, exports):
    webdataset = pytest.importorskip("webdataset", reason="webdataset is not installed; the readers above need none")
    shards = sorted(map(str, exports["webdataset"].glob(f"{TEST}-*.tar")))
    assert len(shards) > 1
    samples = list(webdataset.WebDataset(shards, shardshuffle=False).decode("pil").to_tuple("jpg;png", "json", "cls"))
    index = index_of(release, TEST)
    assert [(row["id"], label) for _, row, label in samples] == [(row["id"], row["label"]) for row in index]
    for (image, row, _), stored in zip(samples, table_of(release, TEST)["image"].to_pylist(), strict=True):
        with Image.open(io.BytesIO(stored["bytes"])) as expected:
            assert np.array_equal(np.asarray(image), np.asarray(expected.convert("RGB"))), row["id"]


# Tars


def test_a_tar_is_what_tarfile_writes_of_files_without_owner_and_time(exports):
    for path in sorted(exports["webdataset"].glob("imagenet/*.tar")):
        anew = io.BytesIO()
        with tarfile.open(path) as archive, tarfile.open(fileobj=anew, mode="w", format=tarfile.USTAR_FORMAT) as tar:
            for member in archive:
                info = tarfile.TarInfo(member.name)
                info.size = member.size
                assert (info.mode, info.uid, info.gid, info.mtime, info.uname, info.gname) == (0o644, 0, 0, 0, "", "")
                tar.addfile(info, archive.extractfile(member))
        assert path.read_bytes() == anew.getvalue()


def test_a_tar_has_no_more_bytes_than_it_may_and_could_not_have_had_another_sample(exports):
    paths = sorted(exports["webdataset"].glob(f"{TEST}-*.tar"))
    assert len(paths) > 3
    for path, following in zip(paths, [*paths[1:], None], strict=True):
        assert path.stat().st_size <= 200_000
        if following is not None:
            with tarfile.open(path) as one, tarfile.open(following) as other:
                end = one.getmembers()[-1]
                filled = end.offset_data + -(-end.size // 512) * 512
                size = other.getmembers()[3].offset  # the first sample is three members
            assert filled + size + 1024 > 200_000 - 10_240  # a tar ends with 1,024 bytes and fills records of 10,240


def test_a_sample_larger_than_a_tar_gets_its_own(release, tmp_path):
    assert run(release, "webdataset", tmp_path / "out", "--splits", PLACES, "--shard-bytes", "10240") == 0
    rows = rows_in(splits_of(release)[PLACES])
    assert len(list(tmp_path.glob(f"out/{PLACES}-*.tar"))) > rows / 3
    assert_is_the_release(release, "webdataset", tmp_path / "out", PLACES)
    assert run(release, "webdataset", tmp_path / "least", "--splits", PLACES, "--shard-bytes", "10239") == 2
