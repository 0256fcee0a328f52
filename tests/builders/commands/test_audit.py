"""`python -m builders.commands.audit` on releases of photographs, whose unknown split is shrunk well or badly."""

import re
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image

from builders.audit.measures import NUMBERS
from builders.card.grid import CELL, UNKNOWN_COLOUR
from builders.commands.audit import command, main
from builders.declare.benchmark import Benchmark
from builders.declare.quotas import AllImages
from builders.declare.splits import Classes, Config, PaperCount, Split
from builders.generate.contract import Generated, Generator
from builders.generate.exact.resize import FIXED_RESIZE
from builders.release.manifest import read_manifest
from builders.release.reader import rgb_images
from builders.sources.datasets.caltech256 import CALTECH256
from hf_scripts import card, verify
from tests.builders.conftest import build_demo
from tests.builders.photographs import pieces
from tests.hf_scripts.samples import make_release
from tests.sentences import assert_sentence


def start_aliased(_):
    size, nearest = (32, 32), Image.Resampling.NEAREST
    return lambda batch: [Generated(np.asarray(image.rgb.resize(size, nearest))) for image in batch]


ALIASED = Generator("aliased-32", 1, "every twelfth pixel", (32, 32), start_aliased)


def split(name, role, decision, transform):
    classes = Classes("caltech256", decision)
    return Split(
        name,
        role,
        source=CALTECH256,
        partitions=("images",),
        classes=classes,
        quota=AllImages(),
        paper=PaperCount(0),
        generator=transform,
    )


def benchmark(transform):
    splits = (split("test", "in_distribution", "keep", FIXED_RESIZE), split("far_ood", "far_ood", "remove", transform))
    config = Config("pictures", Classes("caltech256", "keep"), "Photographs.", splits)
    return Benchmark("pictures", "Photographs", "1.0.0", 0, "", "", (config,))


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    """Pieces of photographs in the layout of Caltech-256: 60 in a class that is kept, 60 in one that is not."""
    root = tmp_path_factory.mktemp("photographs")
    for folder, seed in (("133.lightning", 1), ("003.backpack", 2)):
        place = root / "256_ObjectCategories" / folder
        place.mkdir(parents=True)
        for number, piece in enumerate(pieces(60, 256, seed), start=1):
            piece.save(place / f"{folder[:3]}_{number:04d}.jpg", quality=95)
    return {"caltech256": root}


@pytest.fixture(scope="module")
def releases(sources, tmp_path_factory):
    """A release with the fixed resize, and one whose unknown images are aliased."""
    roots = {name: tmp_path_factory.mktemp(name) for name in ("fixed", "aliased")}
    for root, transform in zip(roots.values(), (FIXED_RESIZE, ALIASED), strict=True):
        build_demo(sources, root, benchmark=benchmark(transform))
    return roots


def smoothness(release, *flags):
    result = CliRunner().invoke(
        command, ["smoothness", str(release), "--splits", "pictures", *flags], catch_exceptions=False
    )
    assert result.exit_code == 0
    return {line.split()[0].removeprefix("pictures/"): line for line in result.stdout.splitlines()}


def test_an_aliased_split_is_flagged_and_the_fixed_one_is_not(releases):
    assert "SEPARABLE" in smoothness(releases["aliased"])["far_ood"]
    fixed = smoothness(releases["fixed"])
    assert "not separable" in fixed["far_ood"]
    assert fixed["test"].split()[1:3] == ["in_distribution", "60"]


def enlarged(release, split, count):
    """The first images of a split in the order of a sheet's row (one class, so by row), as they should be drawn."""
    entry = read_manifest(release).configs["pictures"].splits[split]
    first = rgb_images(release, f"pictures/{split}", entry, np.arange(count))
    return [np.kron(np.asarray(image), np.ones((4, 4, 1), np.uint8)) for image in first]


def test_a_sheet_shows_known_images_first_and_frames_unknown_ones(releases, tmp_path):
    out = tmp_path / "new" / "sheet.png"
    assert main(["sheet", str(releases["fixed"]), "--splits", "pictures", "--out", str(out), "--images", "4"]) == 0
    with Image.open(out) as opened:
        sheet = np.asarray(opened.convert("RGB")).astype(np.int16)
    tops = {}
    for split in ("test", "far_ood"):
        for place, image in enumerate(enlarged(releases["fixed"], split, 4)):
            left = 12 + place * (CELL + 12)
            strip = sheet[:, left : left + CELL]
            (tops[split, place],) = (
                top for top in range(len(sheet) - CELL + 1) if np.array_equal(strip[top : top + CELL], image)
            )
            frame = sheet[tops[split, place] : tops[split, place] + CELL, left - 2]
            assert (frame == (UNKNOWN_COLOUR if split == "far_ood" else (255, 255, 255))).all()
    assert len({top for (split, _), top in tops.items() if split == "test"}) == 1
    assert tops["test", 0] < tops["far_ood", 0]


def test_a_later_run_keeps_the_audits_of_the_splits_that_it_leaves(sources, tmp_path, capsys):
    declared, out = benchmark(FIXED_RESIZE), tmp_path / "release"
    build_demo(sources, out, benchmark=declared, splits=("pictures/test",))
    assert main(["sheet", str(out), "--splits", "pictures"]) == 0
    audits = build_demo(sources, out, benchmark=declared)["audits"]
    assert list(audits) == ["pictures/sheet"] and list(audits["pictures/sheet"]["splits"]) == ["pictures/test"]
    assert card.main([str(out), "--check"]) == 0
    assert verify.main([str(out), "--workers", "1"]) == 0
    assert (out / "audit/pictures/sheet.png").is_file()


def test_the_page_on_audits_names_every_audit_and_every_number():
    page = (Path(__file__).parents[3] / "docs" / "audits.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| `(\w+) RELEASE", page, re.M)) == set(command.commands)
    described = {name for line in page.splitlines() if line.startswith("| `") for name in re.findall(r"`(\w+)`", line)}
    assert set(NUMBERS) <= described


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["smoothness", "{}", "--splits", "absent"], "has no config or split absent. Give configs (pictures)"),
        (["smoothness", "{}/none", "--splits", "pictures"], "none does not exist. Give the folder of a release"),
        (["pairs", "{}", "--splits", "pictures/test"], "pictures/test has no duplicates in the table of"),
        (["sheet", "{}", "--splits", ""], "has an empty name. Give CONFIG or CONFIG/SPLIT"),
        (["sheet", "{}", "--out", "{}"], "is a folder. Give the name of a file in it"),
        (["sheet", "{}", "--out", "{}/README.md/x.png"], "whose files its manifest lists. Give another place"),
        (["duplicates", "{}", "--exact", "--out", "{}"], "is a folder. Give the name of a file in it"),
        (["duplicates", "{}", "--exact", "--out", "{}/manifest.json"], "manifest.json lies inside the release"),
        (["sheet", "{}", "--out", "/dev/null/x.png"], "null is a file. Give a file in a folder"),
    ],
)
def test_what_cannot_be_audited_gets_one_sentence(releases, capsys, arguments, sentence):
    assert main([part.format(releases["fixed"]) for part in arguments]) == 2
    assert sentence in capsys.readouterr().err


def test_a_release_without_pixels_cannot_be_looked_at(sources, tmp_path, capsys):
    release = tmp_path / "release"
    build_demo(sources, release, benchmark=benchmark(FIXED_RESIZE), index_only=True)
    assert main(["sheet", str(release), "--splits", "pictures", "--out", str(tmp_path / "x.png")]) == 2
    assert_sentence(capsys.readouterr().err, "pictures/far_ood")


def test_a_config_without_known_test_images_cannot_be_measured(tmp_path, capsys):
    root = make_release(tmp_path / "release", {"bench/far_ood": range(2)})
    assert main(["smoothness", str(root), "--splits", "bench"]) == 2
    assert_sentence(capsys.readouterr().err, "far_ood")
