"""Croissant metadata, read by mlcroissant: valid, its records those of the Parquet files, its statements true."""

import itertools
import json
import re

import datasets
import pytest

from builders.card.facts import statements
from builders.card.metadata import croissant_text
from builders.release.manifest import read_manifest
from builders.release.schema import ROLES
from tests import manifests
from tests.manifests import typed

# Terms of the RAI vocabulary 1.0, from the specification's table of properties.
VOCABULARY = {
    "dataCollection",
    "dataCollectionType",
    "dataCollectionMissingData",
    "dataPreprocessingProtocol",
    "dataAnnotationProtocol",
    "dataBiases",
    "dataLimitations",
    "dataUseCases",
    "personalSensitiveInformation",
    "dataReleaseMaintenancePlan",
}


@pytest.fixture(scope="module")
def described(cifar_release):
    return json.loads((cifar_release / "croissant.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def mlcroissant():
    """The package, which takes long to import."""
    return pytest.importorskip("mlcroissant", reason="mlcroissant is not installed")


@pytest.fixture(scope="module")
def dataset(cifar_release, mlcroissant):
    return mlcroissant.Dataset(cifar_release / "croissant.json")


def test_it_is_valid_and_lacks_only_what_nobody_stated(dataset):
    issues = dataset.metadata.ctx.issues
    assert not issues.errors
    assert {re.search(r"schema\.org/(\w+)", warning)[1] for warning in issues.warnings} == {"datePublished", "version"}


@pytest.mark.parametrize("config", ["cifar-train", "cifar-external"])
def test_its_records_are_the_rows(dataset, cifar_release, config, tmp_path):
    rows = datasets.load_dataset(str(cifar_release), config, split="train", cache_dir=str(tmp_path))
    records = list(dataset.records(config))
    assert len(records) == len(rows) > 100
    for record, row in itertools.islice(zip(records, rows, strict=True), 5):
        assert record.pop(f"{config}/split") == b"train"
        assert record.pop(f"{config}/image").tobytes() == row.pop("image").tobytes()
        text = {name.partition("/")[2]: v.decode() if isinstance(v, bytes) else v for name, v in record.items()}
        assert text == row


def test_splits_are_told_by_file_names(described):
    (rows,) = (record_set for record_set in described["recordSet"] if record_set["@id"] == "cifar")
    pattern = re.compile(rows["field"][0]["source"]["transform"]["regex"])
    for path in ("data/cifar/test-00000-of-00001.parquet", "a/data/cifar/far_ood_dtd-00002-of-00170.parquet"):
        assert pattern.match(path)[1] in ("test", "far_ood_dtd")
    assert pattern.match("data/cifar-train/train-00000-of-00001.parquet") is None


def test_files_and_codes_are_the_manifests(described, cifar_release):
    listed = {file.path: (file.sha256, f"{file.size} B") for file in read_manifest(cifar_release).files()}
    objects = [entry for entry in described["distribution"] if entry["@type"] == "cr:FileObject"]
    assert {entry["contentUrl"]: (entry["sha256"], entry["contentSize"]) for entry in objects} == listed
    sets = {entry["@id"]: entry["data"] for entry in described["recordSet"] if "data" in entry}
    assert [(row["roles/code"], row["roles/name"]) for row in sets["roles"]] == list(enumerate(ROLES))
    names = read_manifest(cifar_release).configs["cifar"].label_names
    assert [row["labels/cifar/class_id"] for row in sets["labels/cifar"]] == list(names)


def test_statements_are_of_the_vocabulary_and_the_same_in_the_card(described, cifar_release):
    manifest = read_manifest(cifar_release)
    stated = {key.removeprefix("rai:"): value for key, value in described.items() if key.startswith("rai:")}
    assert set(stated) <= VOCABULARY
    assert set(stated) == {"dataCollectionType", *(statement.name for statement in statements(manifest))}
    text = (cifar_release / "README.md").read_text(encoding="utf-8")
    for statement in statements(manifest):
        assert stated[statement.name] == (statement.texts[0] if len(statement.texts) == 1 else list(statement.texts))
        assert statement.texts[0] in text


def test_statements_count_what_the_manifest_counts(cifar_release):
    manifest = read_manifest(cifar_release)
    texts = {statement.name: " ".join(statement.texts) for statement in statements(manifest)}
    rows = sum(split.rows for split in manifest.by_key().values())
    expected = sum(split.expected for split in manifest.by_key().values())
    assert f"The release has {rows:,} rows, of {expected:,} that" in texts["dataCollectionMissingData"]
    assert f"{manifest.duplicates.rows:,} pairs" in texts["dataBiases"]
    assert "demo sources" in texts["dataLimitations"]
    assert "dataReleaseMaintenancePlan" not in texts  # unpublished


def test_a_published_release_has_version_and_address():
    config = manifests.config({"test": manifests.split(rows=3)})
    manifest = manifests.manifest({"bench": config}) | {"version": "1.2.3", "repository": "org/name"}
    metadata = json.loads(croissant_text(typed(manifest)))
    assert (metadata["version"], metadata["url"]) == ("1.2.3", "https://huggingface.co/datasets/org/name")
    assert "rai:dataReleaseMaintenancePlan" in metadata
