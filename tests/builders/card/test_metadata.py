"""Croissant metadata, read by mlcroissant: valid, its records those of the Parquet files, its statements true."""

import itertools
import json
import logging
import re

import datasets
import pytest

from builders.card.facts import statements
from builders.release.manifest import read_manifest
from builders.release.schema import ROLES
from builders.storage.files import write_text
from tests.hf_scripts.samples import SPLITS, make_release
from tests.manifests import entry_of, manifest_of, save_manifest

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


def test_it_is_valid_and_lacks_only_what_publishing_adds(dataset):
    issues = dataset.metadata.ctx.issues
    assert not issues.errors
    assert dataset.metadata.ctx.is_v1_1()
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


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """The Croissant metadata of a published release of three splits."""
    root = make_release(tmp_path_factory.mktemp("published") / "release", {**SPLITS, "bench/external": range(2)})
    write_text(root / "CHANGELOG.md", "# Changelog\n")
    version = {"version": "1.2.3", "previous": "", "repository": "org/name", "published": "2026-11-28"}
    save_manifest(root, manifest_of(root) | version | {"changelog": [entry_of(root, "CHANGELOG.md")]})
    return root / "croissant.json"


def test_a_published_release_is_valid_without_warnings(published, mlcroissant, caplog):
    """Neither mlcroissant's own issues nor what it logs of the context and while it reads records."""
    with caplog.at_level(logging.WARNING):
        read = mlcroissant.Dataset(published)
        assert [record["bench/split"] for record in read.records("bench")] == [b"external"] * 2 + [b"near_ood"] * 4 + [
            b"test"
        ] * 4
    assert (read.metadata.ctx.issues.errors, read.metadata.ctx.issues.warnings) == (set(), set())
    assert [record.getMessage() for record in caplog.records] == []
    assert [creator.name for creator in read.metadata.creators] == ["org"]
    assert (read.metadata.version, str(read.metadata.date_published.date())) == ("1.2.3", "2026-11-28")
    assert read.metadata.url == "https://huggingface.co/datasets/org/name"
    assert "rai:dataReleaseMaintenancePlan" in json.loads(published.read_text(encoding="utf-8"))


def test_splits_and_provenance_as_the_specification_has_them(published, mlcroissant):
    """Croissant 1.1, sections "Splits" and "Provenance"; the terms are those that its examples use."""
    read = mlcroissant.Dataset(published)
    purposes = {row["splits/name"]: row["splits/url"] for row in read.records("splits")}
    assert purposes == {
        "external": "cr:ValidationSplit",
        "near_ood": "cr:TestSplit",
        "test": "cr:TestSplit",
        "train": "cr:TrainingSplit",
    }
    described = json.loads(published.read_text(encoding="utf-8"))
    sources = {source["@id"] for source in described["prov:wasDerivedFrom"]}
    assert sources == {"urn:dataset:source"}
    (activity,) = described["prov:wasGeneratedBy"]
    assert activity == {"@type": "prov:Activity", "prov:label": "Selection of A benchmark 1.0.0, seed 0"}
    sets = {entry["@id"]: entry for entry in described["recordSet"]}
    assert sets["bench"]["prov:wasDerivedFrom"] == [{"@id": "urn:dataset:source"}]
    assert sets["bench"]["field"][0]["references"] == {"field": {"@id": "splits/name"}}
    # mlcroissant keeps what it does not know itself, and writes it again.
    assert {entry["@id"] for entry in [read.metadata.to_json()["prov:wasDerivedFrom"]]} == sources
