"""The leaderboard's rows, against the published table."""

import csv
import tomllib
from pathlib import Path

import datasets
import pandas as pd
import pytest
from PIL import ExifTags, Image

from unknown_detection.evaluation.detectors import DETECTORS
from unknown_detection.evaluation.protocols.openood import TURNED, beside_published, published

ROOT = Path(__file__).parents[3]
LEADERBOARDS = ROOT.parent / "shared" / "reference" / "published" / "openood_v1_5"
needs_leaderboards = pytest.mark.skipif(not LEADERBOARDS.is_dir(), reason="the published tables are not here")
RESNET50 = "resnet50-0676ba61.pth"
ARCHITECTURES = {"ResNet50": RESNET50, "ViT-B/16": "vit_b_16-c867db91.pth", "Swin-T": "swin_t-704ceda3.pth"}


def test_a_row_is_found_by_the_weights_and_our_name_of_the_detector():
    # Copied by hand from the leaderboard's lines of MSP and of ReAct with torchvision's ResNet-50.
    rows = published("openood-imagenet1k", RESNET50)
    assert rows.loc["msp", ["near_auroc", "far_auroc", "accuracy"]].tolist() == [76.02, 85.23, 76.18]
    assert rows.loc["react", ["near_auroc", "far_auroc"]].tolist() == [77.38, 93.67]
    assert published("openood-imagenet1k", "resnet50.tv_in1k").equals(rows)
    assert published("openood-imagenet1k", "resnet50-11ad3fa6.pth").empty  # torchvision's second weights
    assert {*rows.index} <= DETECTORS.keys()
    assert "CombOOD" not in {*rows["postprocessor"]}, "whose row is of another version"


def of_report(run, detector, near, far, **changes):
    """The means of a report on the complete config: 49,000 + 5,879 near rows, 10,000 + 5,160 + 15,869 far ones."""
    names = {"run": run, "detector": detector, "protocol": "openood", "config": "openood-imagenet1k"}
    names |= {"setting": "standard", "metric": "auroc", "statistic": "mean", "rows": "as_published"}
    means = (("near_ood", near, 54_879), ("far_ood", far, 31_029))
    return [{**names, "unknown": name, "value": value, "n_unknown": rows} | changes for name, value, rows in means]


def test_figures_stand_beside_the_published_ones_where_release_weights_and_detector_are_the_same():
    lines = of_report("a", "msp", 0.76, 0.85) + of_report("a", "knn", 0.80, 0.90) + of_report("b", "msp", 0.5, 0.5)
    lines += of_report("a", "own", 0.9, 0.9)
    lines += of_report("a", "energy", 0.7, 0.8, rows="without_duplicates")
    lines += of_report("a", "gen", 0.7, 0.8, n_unknown=5)
    compared = beside_published(pd.DataFrame(lines), {"a": RESNET50, "b": ""})
    assert compared.values.tolist() == [
        ["a", "msp", "near_ood", 76.0, 76.02],
        ["a", "msp", "far_ood", 85.0, 85.23],
        ["a", "knn", "near_ood", 80.0, 71.1],
        ["a", "knn", "far_ood", 90.0, 90.18],
    ]


# timm leaves the file open that it reads.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_photograph_on_its_side_is_turned_by_datasets_and_not_by_those_who_published_figures(tmp_path):
    """OpenOOD opens and converts a file (`imglist_dataset.py`), as torchvision's and timm's datasets do."""
    path, exif = tmp_path / "a" / "can_opener.jpg", Image.Exif()
    exif[ExifTags.Base.Orientation] = 6
    path.parent.mkdir()
    Image.new("RGB", (8, 4)).save(path, exif=exif)
    assert datasets.Image().decode_example({"path": None, "bytes": path.read_bytes()}).size == (4, 8)
    with Image.open(path) as image:
        assert image.convert("RGB").size == (8, 4)
    for page in ("benchmarks/openood.md", "models.md"):
        text = " ".join((ROOT / "docs" / page).read_text(encoding="utf-8").split())
        assert "EXIF" in text and "as it is stored" in text, page
    assert "are turned here and not by OpenOOD" in TURNED
    torchvision = pytest.importorskip("torchvision.datasets.folder", reason="torchvision and timm are not installed")
    assert torchvision.default_loader(str(path)).size == (8, 4)
    assert pytest.importorskip("timm.data").ImageDataset(str(tmp_path))[0][0].size == (8, 4)


def test_rows_of_trained_networks_have_deviations():
    # Copied by hand from the leaderboards' lines of MSP and KNN on CIFAR-10, and of energy on CIFAR-100.
    rows = published("openood-cifar10")
    figures = ["near_auroc", "near_deviation", "far_auroc", "far_deviation", "accuracy", "accuracy_deviation"]
    assert rows.loc["msp", figures].tolist() == [88.03, 0.25, 90.73, 0.43, 95.06, 0.3]
    assert rows.loc["knn", figures[:4]].tolist() == [90.64, 0.2, 92.96, 0.14]
    assert published("openood-cifar100").loc["energy", "postprocessor"] == "EBO"
    assert {*rows.index} <= DETECTORS.keys()
    assert published("openood-imagenet1k").empty


@needs_leaderboards
@pytest.mark.parametrize("of", ["cifar10", "cifar100"])
def test_rows_of_cifar_are_the_published_ones(of):
    with (LEADERBOARDS / f"leaderboard_{of}.csv").open(newline="") as opened:
        trained = [line for line in csv.DictReader(opened) if line["Training"] == "CrossEntropy"]
    original = {
        line["Postprocessor"]: tuple(line[name] for name in ("Near-OOD_AUROC", "Far-OOD_AUROC", "ID_Accuracy"))
        for line in trained
    }
    with (ROOT / "unknown_detection/evaluation/protocols/openood_published.csv").open(newline="") as opened:
        lines = [line for line in csv.DictReader(opened) if line["config"] == f"openood-{of}"]
    pairs = (("near_auroc", "near_deviation"), ("far_auroc", "far_deviation"), ("accuracy", "accuracy_deviation"))
    stored = {line["postprocessor"]: tuple(f"{line[of]} ± {line[by]}" for of, by in pairs) for line in lines}
    assert stored == original and len(lines) == len(trained) > 30


@needs_leaderboards
def test_the_table_is_the_published_one():
    with (LEADERBOARDS / "leaderboard_imagenet1k_ood.csv").open(newline="") as opened:
        original = {
            (ARCHITECTURES[line["Arch"]], line["Postprocessor"], float(line["Near-OOD_AUROC"]))
            for line in csv.DictReader(opened)
            if line["Training"] == "CrossEntropy"
            and line["Additional_Description"].startswith("torchvision")
            and line["Arch"] in ARCHITECTURES
        }
    with (ROOT / "unknown_detection/evaluation/protocols/openood_published.csv").open(newline="") as opened:
        stored = {
            (line["weights"], line["postprocessor"], float(line["near_auroc"]))
            for line in csv.DictReader(opened)
            if line["config"] == "openood-imagenet1k"
        }
    assert stored == original and len(stored) > 60


def test_the_table_is_installed_with_the_package():
    data = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]
    assert "*.csv" in data["unknown_detection.evaluation.protocols"]
