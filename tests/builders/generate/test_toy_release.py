"""Generated images from their declaration to a release that is verified, loaded and materialized, by a toy."""

import dataclasses
import io
import os
import shutil
import subprocess
import sys
from pathlib import Path

import datasets
import numpy as np
import pytest
from PIL import Image

from builders.cli.build_options import BuildRequest
from builders.demo.images import encode_image
from builders.errors import BuildError
from builders.executors.local import LocalExecutor
from builders.pipeline.from_index import plan_published
from builders.pipeline.published import Published
from builders.pipeline.run import write_release
from builders.release import images
from hf_scripts import export, materialize, verify
from tests.builders.conftest import files_of
from tests.builders.generate import toy
from tests.builders.planning import QUIET
from tests.killing import watched_at_renames
from tests.manifests import as_json, manifest_of, save_manifest
from tests.sentences import assert_sentence, stops

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def photographs(tmp_path_factory):
    return toy.write_photographs(tmp_path_factory.mktemp("photographs"))


@pytest.fixture
def device(tmp_path):
    """The folder that the toy's device writes to."""
    with toy.with_device(tmp_path / "device"):
        yield tmp_path / "device"


@pytest.fixture(scope="module")
def release(photographs, tmp_path_factory):
    """An undisturbed release; read only."""
    root = tmp_path_factory.mktemp("toy")
    with toy.with_device(root / "device"):
        toy.build_toy(photographs, root / "release")
    return root / "release"


def test_it_is_set_up_once_and_makes_each_image_once(release):
    log = release.parent / "device"
    # One process, in which each of the three generators was set up once.
    assert len(toy.logged(log, "setup")) == 3
    assert len(toy.logged(log, "image")) == 10 + 10 + 7 + 3
    records = sorted((release / ".state" / "staging").glob("*toy-attacked*.made.parquet"))
    # 10 images of 224 x 224 x 3 bytes, 32 kB and their JPEGs' bytes in batches of 1 MB.
    assert len(records) == 2


def test_the_manifest_and_the_card_say_how(release):
    configs = manifest_of(release)["configs"]
    assert configs["toy"]["columns"] == [
        {"name": "clipped", "type": "int64", "description": "how many samples were above 255"},
        {"name": "strength", "type": "float64", "description": "what was added, of 1"},
    ]
    assert configs["toy"]["splits"]["attacked"]["generator"] == {
        "name": "bright-224",
        "version": 1,
        "parameters": {"by": 20},
        "weights": {"gain": toy.BRIGHT.weights[0].sha256},
        "reproducible": "exact",
        "prepared": 224,
    }
    assert "prepared" not in configs["toy-synthetic"]["splits"]["drawn"]["generator"]
    card = (release / "README.md").read_text(encoding="utf-8")
    assert "- `attacked`, `corrupted`: enlarged to 224 x 224 and brightened.\n" in card
    assert "| `clipped` | int64 | how many samples were above 255 |\n" in card
    assert "so they cannot be made again:" in card
    assert f"- `drawn`, `redrawn`: version 1; steps 50; SHA-256 of gain {toy.BRIGHT.weights[0].sha256}\n" in card
    prepared = "prepared for models with an input of 224 x 224 pixels. Evaluate the images as they are stored"
    assert f"`attacked`, `corrupted`: {prepared}" in card
    # `expected` is of a whole Caltech-256, and the toy has no paper.
    rows = [line for line in card.splitlines() if line.startswith(("| adversarial", "| synthetic", "| corruption"))]
    splits = configs["toy"]["splits"]
    assert rows == [
        f"| adversarial | `toy/attacked` | 10 | {splits['attacked']['parts'][0]['expected']:,} | 0 |",
        "| synthetic | `toy-synthetic/drawn`, `toy-synthetic/redrawn` | 10 | 10 | 0 |",
        f"| corruption | `toy/corrupted` | 10 | {splits['corrupted']['parts'][0]['expected']:,} | 0 |",
    ]


def test_an_export_says_what_images_are_prepared_for(release, tmp_path):
    assert export.main([str(release), "--format", "openood", "--out", str(tmp_path / "out"), "--quiet"]) == 0
    text = " ".join((tmp_path / "out" / "README.txt").read_text(encoding="utf-8").split())
    assert "with an input of 224 x 224 pixels: toy/attacked, toy/corrupted. Evaluate these images as they are" in text


def test_it_verifies_and_images_of_another_size_than_they_are_prepared_for_are_found(release, tmp_path, capsys):
    assert verify.main([str(release), "--workers", "1"]) == 0, capsys.readouterr()
    assert "5 splits" in capsys.readouterr().out
    shutil.copytree(release, tmp_path / "wrong", ignore=shutil.ignore_patterns(".state"))
    manifest = manifest_of(release)
    manifest["configs"]["toy"]["splits"]["attacked"]["generator"]["prepared"] = 384
    save_manifest(tmp_path / "wrong", manifest)
    assert verify.main([str(tmp_path / "wrong"), "--workers", "1"]) == 1
    assert "the image has 224 x 224 pixels in a split prepared for 384 x 384" in "".join(capsys.readouterr())


def test_it_loads_with_its_columns(release, photographs):
    dataset = datasets.load_dataset(str(release), "toy", split="attacked", streaming=True)
    assert dataset.features["clipped"] == datasets.Value("int64")
    assert dataset.features["strength"] == datasets.Value("float64")
    rows = list(dataset)
    assert len(rows) == 10
    for row in rows:
        assert row["id"] == f"caltech256/{row['source_id']}#bright-224"
        source = Image.open(photographs / "256_ObjectCategories" / row["source_id"]).resize((224, 224), Image.NEAREST)
        bright = np.asarray(source).astype(int) + 60
        assert np.array_equal(np.asarray(row["image"]), np.minimum(bright, 255))
        assert images.pixel_sha256(row["image"]) == row["content_sha256"]
        assert (row["clipped"], row["strength"]) == (int((bright > 255).sum()), 60 / 255)
    assert any(row["clipped"] for row in rows)


def test_images_from_nothing_and_a_column_that_one_split_lacks(release, tmp_path):
    rows = {
        split: datasets.load_dataset(str(release), "toy-synthetic", split=split, cache_dir=str(tmp_path)).to_list()
        for split in ("drawn", "redrawn")
    }
    assert len(rows["drawn"]) == 7
    assert {row["prompt"] for row in rows["drawn"]} == {"A picture of Gaussian noise."}
    assert {row["prompt"] for row in rows["redrawn"]} == {""}
    for row in rows["drawn"]:
        pixels = np.asarray(Image.open(io.BytesIO(row["image"]["bytes"])))
        assert np.array_equal(pixels, np.full((224, 224, 3), row["seed"] % 256))


def test_without_its_device_it_is_refused_in_a_sentence(photographs, device, tmp_path):
    with stops(BuildError), pytest.MonkeyPatch.context() as patch:
        patch.delenv(toy.DEVICE)
        toy.build_toy(photographs, tmp_path / "out", splits=["toy"])
    (device / "weights.bin").write_bytes(b"\x04")
    with stops(BuildError, "weights.bin", "SHA-256"):
        toy.build_toy(photographs, tmp_path / "out", splits=["toy"])
    assert files_of(tmp_path / "out") == {}


BUILD = """
from tests.builders.generate import toy
toy.build_toy(Path(sys.argv[2]), Path(sys.argv[3]), splits=sys.argv[4:])
"""

WITH_WORKERS = """
import sys
from pathlib import Path
from tests.builders.generate import toy
toy.build_toy(Path(sys.argv[1]), Path(sys.argv[2]), workers=2)
"""


def test_two_workers_set_up_once_each_and_change_no_byte(release, photographs, device, tmp_path):
    # In a process of its own, whose workers have this environment.
    command = [sys.executable, "-c", WITH_WORKERS, str(photographs), str(tmp_path / "out")]
    subprocess.run(command, cwd=ROOT, env={**os.environ, toy.GPUS: "0.5"}, check=True)
    assert files_of(tmp_path / "out") == files_of(release)
    setups = [name.split("-")[1] for name in toy.logged(device, "setup")]
    for worker in set(setups):
        # At most once for each of the three generators, though there are seven batches.
        assert setups.count(worker) <= 3
    assert str(os.getpid()) not in setups
    assert len(toy.logged(device, "image")) == 30


@pytest.mark.parametrize("step", [9, pytest.param(1, marks=pytest.mark.slow)])
def test_a_killed_build_resumes(release, photographs, device, tmp_path, step):
    splits = ("toy/attacked", "toy/corrupted")
    expected = {name: data for name, data in files_of(release).items() if name.startswith(("data/toy/", "index/toy/"))}
    points = range(1, 27, step)
    watched = watched_at_renames(points, tmp_path / "out", BUILD, photographs, tmp_path / "out", *splits)
    assert watched.renames - points[-1] < points.step, "kills reach the end of the build"
    for point in points:
        out = watched.as_killed(point)
        toy.build_toy(photographs, out, splits=splits)
        assert {name: data for name, data in files_of(out).items() if name in expected} == expected, point


def test_a_build_killed_in_a_batch_makes_only_that_one_again(release, photographs, device, tmp_path, monkeypatch):
    monkeypatch.setenv(toy.KILL, "13")
    # It dies in the third batch of two splits with two batches each, of 5 images.
    script = "import sys\nfrom pathlib import Path" + BUILD
    command = [sys.executable, "-c", script, "", photographs, tmp_path / "out", "toy"]
    killed = subprocess.run(command, cwd=ROOT, check=False)
    assert killed.returncode == -9
    finished = sorted((tmp_path / "out" / ".state" / "staging").glob("*.made.parquet"))
    assert len(finished) == 2
    monkeypatch.delenv(toy.KILL)
    toy.build_toy(photographs, tmp_path / "out", splits=["toy"])
    assert len(toy.logged(device, "image")) == 13 + 10
    expected, resumed = files_of(release), files_of(tmp_path / "out")
    assert all(resumed[name] == expected[name] for name in expected if "/toy/" in name)


def changed_copy(photographs, place, *, same_size):
    """A copy of the photographs in which one of those of the class that is kept shows something else."""
    root = shutil.copytree(photographs, place)
    path = root / "256_ObjectCategories" / "133.lightning" / "133_0004.jpg"
    data = encode_image(Image.new("RGB", (48, 48), (9, 9, 9)), "JPEG")
    assert len(data) < path.stat().st_size
    path.write_bytes(data.ljust(path.stat().st_size if same_size else 0, b"\0"))
    return root, path


@pytest.mark.parametrize("split", ["toy/attacked", "toy-plain/small"])
def test_a_source_image_that_changed_is_never_published_under_its_old_digest(photographs, device, tmp_path, split):
    root, path = changed_copy(photographs, tmp_path / "copy", same_size=True)
    config, name = split.split("/")
    shard = f"data/{config}/{name}-00000-of-00001.parquet"
    for lost in (True, False):
        out = tmp_path / f"out-{lost}"
        toy.build_toy(photographs, out, splits=[split], index_only=not lost)
        if lost:
            (out / shard).unlink()
        before = files_of(out)
        with pytest.raises(BuildError) as caught:
            toy.build_toy(root, out, splits=[split])
        assert_sentence(str(caught.value), "133.lightning/133_0004.jpg", path)
        assert files_of(out) == before
        toy.build_toy(photographs, out, splits=[split])
        assert shard in files_of(out)
        assert verify.main([str(out), "--workers", "1"]) == 0


def test_other_parameters_versions_and_weights_are_another_folder(release, photographs, device, tmp_path):
    out = shutil.copytree(release, tmp_path / "out")
    stronger = dataclasses.replace(toy.BRIGHT, parameters={"by": 21}, version=2)
    for place in ("state and manifest", "manifest", "state"):
        if place == "manifest":
            shutil.rmtree(out / ".state")
        if place == "state":
            out = tmp_path / "interrupted"
            with stops(BuildError), pytest.MonkeyPatch.context() as patch:
                patch.delenv(toy.DEVICE)
                toy.build_toy(photographs, out, splits=["toy"])
        with pytest.raises(BuildError) as caught:
            toy.build_toy(photographs, out, splits=["toy"], benchmark=toy.toy_benchmark(stronger))
        assert_sentence(str(caught.value), "toy/attacked", out)


@pytest.fixture
def published(release, tmp_path, monkeypatch):
    """The release as a reader of its index has it, and its benchmark among those that the tools build."""
    monkeypatch.setattr("builders.registry.BENCHMARKS", {"toy": toy.toy_benchmark()})
    place = tmp_path / "published"
    for name in ("index", "excluded", "duplicates"):
        shutil.copytree(release / name, place / name)
    shutil.copy(release / "manifest.json", place)
    return place


def materialized(published, config, photographs, out):
    with LocalExecutor(1) as executor:
        roots = {"caltech256": photographs}
        return write_release(plan_published(Published(published, config), BuildRequest(out), roots), executor, QUIET)


def test_exact_images_are_made_again_and_compared(release, published, photographs, device, tmp_path):
    manifest = materialized(published, "toy", photographs, tmp_path / "out")
    assert as_json(manifest.configs["toy"]) == manifest_of(release)["configs"]["toy"]
    assert_published_bytes(release, tmp_path / "out", "toy", "attacked", "corrupted")


def assert_published_bytes(release, out, config, *splits):
    expected, files = files_of(release), files_of(out)
    shards = {f"data/{config}/{split}-00000-of-00001.parquet" for split in splits}
    assert {name for name in files if name.startswith("data/")} == shards
    assert all(files[name] == expected[name] for name in files if "/toy" in name)


def test_a_value_that_comes_out_otherwise_is_refused(published, photographs, device, tmp_path, monkeypatch):
    make = toy.brightened

    def other(*arguments):
        generated = make(*arguments)
        return dataclasses.replace(generated, values=generated.values | {"strength": 0.5})

    monkeypatch.setattr(toy, "brightened", other)
    with pytest.raises(BuildError, match=r"has strength 0\.5 when it is generated here, and 0\.235294\d* as"):
        materialized(published, "toy", photographs, tmp_path / "out")


def test_recorded_images_are_copied_where_they_are_and_refused_elsewhere(release, published, tmp_path, capsys):
    arguments = ["--splits=toy-synthetic", "--out", str(tmp_path / "out"), "--workers", "1", "--quiet"]
    # The command, which needs no device for it.
    assert materialize.main([str(published), *arguments]) == 2
    assert_sentence(capsys.readouterr().err, "toy-synthetic/drawn")
    assert files_of(tmp_path / "out") == {}
    assert materialize.main([str(release), *arguments]) == 0
    assert_published_bytes(release, tmp_path / "out", "toy-synthetic", "drawn", "redrawn")
    assert verify.main([str(tmp_path / "out"), "--workers", "1"]) == 0


COPY = """
from builders import registry
from hf_scripts import materialize
from tests.builders.generate import toy
registry.BENCHMARKS = {"toy": toy.toy_benchmark()}
arguments = ["--splits=toy-synthetic", "--out", sys.argv[3], "--workers=1", "--quiet"]
assert materialize.main([sys.argv[2], *arguments]) == 0
"""


def test_a_killed_copy_of_recorded_images_is_unfinished(release, published, tmp_path, capsys):
    # Before the state, the images, the index and the manifest.
    points = range(1, 15, 4)
    watched = watched_at_renames(points, tmp_path / "out", COPY, release, tmp_path / "out")
    assert watched.renames - points[-1] < points.step, "kills reach the end"
    redrawn = ["--splits=toy-synthetic/redrawn", "--workers", "1", "--quiet"]
    for point in points:
        out = watched.as_killed(point)
        assert materialize.main([str(release), "--out", str(out), *redrawn]) == 0
        capsys.readouterr()
        assert verify.main([str(out), "--workers", "1"]) == 0, (point, capsys.readouterr().out)
        left = {name for name in files_of(out) if "/drawn" in name and not name.startswith(".state")}
        noted = "whose build did not end" in capsys.readouterr().out
        assert noted == (bool(left) and "toy-synthetic/drawn" not in manifest_of(out)), point


def test_recorded_images_that_are_not_the_published_ones_are_refused(release, published, tmp_path, capsys):
    shard = Path("data/toy-synthetic/redrawn-00000-of-00001.parquet")
    shutil.copytree(release / "data", published / "data")
    (published / shard).write_bytes(b"no Parquet")
    arguments = ["--splits=toy-synthetic", "--out", str(tmp_path / "out"), "--workers", "1", "--quiet"]
    assert materialize.main([str(published), *arguments]) == 2
    message = f"{shard} in the published release is not of shard 0 of toy-synthetic/redrawn, or not as its"
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out" / shard).exists()
