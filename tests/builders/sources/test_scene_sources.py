"""Builds of all images of SUN397 and of SVHN's full numbers, through a benchmark of two splits."""

import datasets
import pytest

from builders.commands.benchmark import run_command
from builders.declare.benchmark import Benchmark
from builders.declare.quotas import AllImages
from builders.declare.splits import AllClasses, Classes, Config, PaperCount, Split
from builders.release import images
from builders.sources.datasets.sun397 import SUN397
from builders.sources.datasets.svhn_full import SVHN_FULL
from tests.builders import facets_layouts
from tests.builders.conftest import build_demo, digests
from tests.builders.demo_sources import TROUBLES
from tests.manifests import manifest_of

BENCHMARK = Benchmark(
    name="scenes",
    title="benchmark of two sources",
    version="1.0.0",
    seed=0,
    paper="A test",
    citation="@misc{test}",
    configs=(
        Config(
            name="scenes",
            labels=Classes("places365", "keep"),
            description="All images of two sources.",
            splits=(
                Split(
                    name="sun397",
                    role="near_ood",
                    source=SUN397,
                    partitions=("images",),
                    classes=AllClasses("a test"),
                    quota=AllImages(),
                    paper=PaperCount(108_754),
                ),
                Split(
                    name="numbers",
                    role="far_ood",
                    source=SVHN_FULL,
                    partitions=("train", "test"),
                    classes=AllClasses("a test"),
                    quota=AllImages(),
                    paper=PaperCount(46_470),
                ),
            ),
        ),
    ),
)


@pytest.fixture(scope="module")
def built(demo, tmp_path_factory):
    """A release from the folders of the two sources."""
    out = tmp_path_factory.mktemp("scenes") / "out"
    build_demo({key: demo[key] for key in ("sun397", "svhn_full")}, out, benchmark=BENCHMARK)
    return out


def test_every_image_is_a_row_with_the_bytes_of_its_file(built, demo):
    rows = datasets.load_dataset(str(built), "scenes", split="sun397").cast_column(
        "image", datasets.Image(decode=False)
    )
    stored_bytes = {row["source_id"]: row["image"]["bytes"] for row in rows}
    assert len(stored_bytes) == 397 * 4
    for trouble in TROUBLES:  # among them the images that are no JPEG
        if trouble.source == "sun397":
            data = (demo["sun397"] / trouble.path).read_bytes()
            expected = images.check_image(data) if trouble.kind.startswith("exif-") else data
            assert stored_bytes[trouble.path.removeprefix("SUN397/")] == expected
    mended = {row["source_id"] for row in rows if row["stored"] == "metadata_removed"}
    assert mended == {
        trouble.path.removeprefix("SUN397/")
        for trouble in TROUBLES
        if trouble.source == "sun397" and trouble.kind.startswith("exif-")
    }
    assert set(rows["stored"]) == {"source", "metadata_removed"}


@pytest.mark.parametrize("split", ["sun397", "numbers"])
def test_datasets_decodes_every_row(built, split, tmp_path):
    rows = datasets.load_dataset(str(built), "scenes", split=split, cache_dir=str(tmp_path))
    assert all(min(row["image"].size) > 0 for row in rows)


# One for each way to the bytes; test_layouts.py compares the ids and bytes of all layouts.
@pytest.mark.parametrize(
    "convert",
    [facets_layouts.sun397_archive, facets_layouts.sun397_parquet_two_splits],
)
def test_layouts_of_sun397_give_equal_digests_and_leave_no_pack(built, demo, tmp_path, convert):
    roots = {"sun397": convert(demo["sun397"], tmp_path / "copy")}
    manifest = build_demo(roots, tmp_path / "out", benchmark=BENCHMARK, splits=("scenes/sun397",))
    assert digests(manifest) == {"scenes/sun397": digests(manifest_of(built))["scenes/sun397"]}
    assert not list(tmp_path.rglob("*.pack"))


def test_a_truncated_archive_ends_in_one_sentence_and_exit_code_2(demo, tmp_path, capsys):
    root = facets_layouts.svhn_full_archives(demo["svhn_full"], tmp_path / "copy")
    path = root / "test.tar.gz"
    path.write_bytes(path.read_bytes()[:-50])
    arguments = ["--splits", "scenes/numbers", "--svhn_full", str(root), "--out", str(tmp_path / "out"), "--quiet"]
    assert run_command(BENCHMARK, arguments) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "test.tar.gz cannot be read as a tar.gz (" in line


def test_a_short_copy_ends_in_one_sentence_and_exit_code_2(demo, tmp_path, capsys):
    root = facets_layouts.sun397_without_the_list(demo["sun397"], tmp_path / "copy")  # nor the mark of a demo
    arguments = ["--splits", "scenes/sun397", "--sun397", str(root), "--out", str(tmp_path / "out"), "--quiet"]
    assert run_command(BENCHMARK, arguments) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "SUN397, images (category folders in SUN397): expected 2,361 images of /l/living_room" in line
