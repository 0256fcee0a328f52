"""Images of own folders that are odd: their endings, what decoders say of them, and those that are left out."""

import re
import shutil

import numpy as np
import pytest
from PIL import Image

from builders import folder_benchmark
from builders.release import images
from hf_scripts import verify
from tests.builders.release.test_jpeg_frame import ABOVE_MOST_PIXELS, BROKEN
from tests.builders.release.test_remarks import PRINTED, WARNED
from tests.manifests import manifest_of, rows_in
from tests.sentences import assert_sentence

pytestmark = pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")


def draw(path, seed, form=None):
    path.parent.mkdir(parents=True, exist_ok=True)
    coarse = np.random.default_rng(seed).integers(0, 256, (6, 6, 3), dtype=np.uint8)
    Image.fromarray(coarse).resize((48, 40), Image.Resampling.BICUBIC).save(path, form)


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    root = tmp_path_factory.mktemp("drawn")
    for seed in range(10):
        draw(root / "known" / ("ant", "bee")[seed % 2] / f"{seed}.jpg", seed)
    for seed in range(3):
        draw(root / f"far/{seed}.png", 100 + seed)
    return root


@pytest.fixture
def folders(drawn, tmp_path):
    return shutil.copytree(drawn, tmp_path / "mine")


def arguments(folders, out, *flags):
    given = [f"--in-distribution={folders / 'known'}", f"--unknown=far={folders / 'far'}", f"--out={out}"]
    return [*given, "--splits=folder/test,folder/far_ood", "--workers=1", *flags]


def far_rows(out):
    return rows_in(manifest_of(out)["configs"]["folder"]["splits"]["far_ood"])


def test_endings_of_jpegs_are_taken_and_others_counted_in_one_line(folders, tmp_path, capsys):
    for name in ("a.jfif", "b.JPE"):
        draw(folders / "far" / name, 7 + ord(name[0]), "JPEG")
    for name in ("c.heic", "d.avif", "e.HEIC", "README", "f\x1b.png", ".DS_Store"):
        (folders / "far" / name).write_bytes(b"x")
    assert folder_benchmark.main(arguments(folders, tmp_path / "out")) == 0
    listed = "2 .heic, 1 without an ending, 1 .avif, 1 with a name that does not print, such as README"
    lines = [line for line in capsys.readouterr().err.splitlines() if "not taken" in line]
    assert lines == [f"{folders / 'far'}: 5 files are not taken for images: {listed}"]
    assert far_rows(tmp_path / "out") == 5
    assert verify.main([str(tmp_path / "out"), "--workers=1"]) == 0


@pytest.mark.parametrize("place", ["known", "known/ant", "far"])
def test_what_systems_add_to_folders_is_no_class_and_no_image(folders, drawn, tmp_path, capsys, place):
    """Synology's drives keep smaller copies of pictures beside them, and others what was deleted."""
    for name in ("__MACOSX/ant/._1.jpg", "__MACOSX/._ant", "__MACOSX/left.jpg"):
        path = folders / place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"\0\5\x16\7")
    for name in ("@eaDir/1.jpg/SYNOPHOTO_THUMB_M.jpg", "#recycle/2.jpg", "$RECYCLE.BIN/S-1/3.jpg", "@Recycle/4.jpg"):
        (folders / place / name).parent.mkdir(parents=True, exist_ok=True)
        draw(folders / place / name, 99)
    assert folder_benchmark.main(arguments(folders, tmp_path / "out")) == 0
    assert "not taken" not in capsys.readouterr().err
    assert folder_benchmark.main(arguments(drawn, tmp_path / "plain", "--quiet")) == 0
    splits, plain = (manifest_of(tmp_path / out)["configs"]["folder"]["splits"] for out in ("out", "plain"))
    assert {key: split["digest"] for key, split in splits.items()} == {key: plain[key]["digest"] for key in plain}
    listed = (tmp_path / "out/excluded/folder.csv").read_text()
    assert all(name in listed for name in ("__MACOSX", "@eaDir", "#recycle", "$RECYCLE.BIN", "@Recycle"))


def test_folders_of_partitions_by_longer_names(drawn, tmp_path, capsys):
    """They were two classes, `testing` and `training`."""
    for partition in ("Training", "Testing"):
        shutil.copytree(drawn / "known", tmp_path / "known" / partition)
    shutil.copytree(drawn / "far", tmp_path / "far")
    assert folder_benchmark.main(arguments(tmp_path, tmp_path / "out", "--dry-run")) == 0
    assert f"{tmp_path / 'known'}: 2 classes: ant, bee" in capsys.readouterr().err


def test_a_class_of_folders_of_images_is_said_to_be_one(drawn, tmp_path, capsys):
    """An unpacked archive often has its folder twice; a class may also have folders, beside images or one alone."""
    shutil.copytree(drawn / "known", tmp_path / "known/insects")
    shutil.copytree(drawn / "far", tmp_path / "far")
    flags = arguments(tmp_path, tmp_path / "out", "--dry-run")
    assert folder_benchmark.main(flags) == 0
    assert_sentence(capsys.readouterr().err.splitlines()[1].replace(str(tmp_path), "FOLDERS"), "insects", "ant, bee")
    shutil.move(tmp_path / "known/insects/ant/0.jpg", tmp_path / "known/insects")
    shutil.copytree(drawn / "known/bee", tmp_path / "known/wasp/images")
    assert folder_benchmark.main(flags) == 0
    assert "no classes" not in capsys.readouterr().err


def test_partitions_beside_what_macos_adds(drawn, tmp_path):
    for partition in ("train", "test"):
        shutil.copytree(drawn / "known", tmp_path / "known" / partition)
    (tmp_path / "known/__MACOSX/train").mkdir(parents=True)
    shutil.copytree(drawn / "far", tmp_path / "far")
    assert folder_benchmark.main(arguments(tmp_path, tmp_path / "out", "--dry-run", "--quiet")) == 0


@pytest.mark.parametrize("workers", [1, 2])
def test_what_decoders_say_is_one_line_with_a_count_and_a_file(folders, tmp_path, capfd, workers):
    """Pillow warns of two of these, and libtiff prints of the others; no line of theirs names a file."""
    for name, data in {"v.tif": WARNED, "w.tif": WARNED, "x.tif": PRINTED, "y.tif": PRINTED}.items():
        (folders / "far" / name).write_bytes(data)
    flags = [
        f"--workers={workers}" if flag == "--workers=1" else flag for flag in arguments(folders, tmp_path / "out")
    ]
    assert folder_benchmark.main(flags) == 0
    error = capfd.readouterr().err
    lines = [line for line in error.splitlines() if re.search("(?i)pillow|tag|warn|tiff", line)]
    assert len(lines) == 1, error
    assert re.fullmatch(
        rf"Pillow warns of 4 images, such as {re.escape(str(folders))}/far/[v-y]\.tif \(.*[Tt]ag.*\)", lines[0]
    )
    assert folder_benchmark.main([*flags, "--quiet", f"--out={tmp_path / 'quiet'}"]) == 0
    assert capfd.readouterr().err == ""
    assert verify.main([str(tmp_path / "out"), f"--workers={workers}"]) == 0
    assert "tag" not in capfd.readouterr().err.lower()


ODD = {
    "precision.jpg": (BROKEN["precision-12"], "cannot identify image file"),
    "lossless.jpg": (BROKEN["type-c3"], ""),
    "height.jfif": (BROKEN["no-height"], "cannot identify image file"),
    "tables.jpg": (BROKEN["quantization-absent"], "broken data stream"),
    "large.jpg": (ABOVE_MOST_PIXELS, "10,001 x 10,000 pixels, more than any image of a source"),
    "drawing.png": (None, "its format is EPS, which only Ghostscript draws; save it as PNG"),
}


@pytest.fixture
def with_odd(folders):
    for name, (data, _) in ODD.items():
        (folders / "far" / name).write_bytes(data or b"")
    Image.new("RGB", (30, 20)).save(folders / "far/drawing.png", "EPS")
    return folders


@pytest.mark.parametrize("check", ["fast", "decode"])
def test_images_that_nothing_opens_are_named_or_left_out(with_odd, tmp_path, capsys, check):
    flags = arguments(with_odd, tmp_path / "out", f"--check={check}", "--quiet")
    assert folder_benchmark.main(flags) == 2
    head, *listed, _ = capsys.readouterr().err.splitlines()
    assert head == "error: 6 images cannot be used:"
    for name, (_, reason) in ODD.items():
        (line,) = [line for line in listed if line.startswith(f"  {with_odd}/far/{name} (")]
        assert reason in line
    assert not (tmp_path / "out").exists()
    assert folder_benchmark.main([*flags, "--allow-partial"]) == 0
    assert far_rows(tmp_path / "out") == 3
    assert verify.main([str(tmp_path / "out"), "--workers=1", "--check=decode"]) == 0, capsys.readouterr()


def test_a_file_whose_stored_image_does_not_decode_is_named(folders, drawn, tmp_path, capsys, monkeypatch):
    """As of a build by tools that took it: near-duplicates are searched for among the shards, whose images decode."""
    (folders / "far/1.jpg").write_bytes(BROKEN["quantization-absent"])
    flags = arguments(folders, tmp_path / "out", "--quiet")
    with monkeypatch.context() as patched:
        patched.setattr(images, "_is_sound", lambda _: True)
        assert folder_benchmark.main(flags) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"error: {folders}/far/1.jpg cannot be used (broken data stream")
    assert "give the same command with --check decode" in error and "--allow-partial" in error
    assert not (tmp_path / "out/manifest.json").exists()
    # Its advice leads on, although the shards of that build are there.
    assert folder_benchmark.main([*flags, "--check=decode"]) == 2
    assert f"error: 1 image cannot be used:\n  {folders}/far/1.jpg (broken" in capsys.readouterr().err
    shutil.copy(drawn / "known/ant/0.jpg", folders / "far/1.jpg")
    assert folder_benchmark.main([*flags, "--check=decode"]) == 0
    assert far_rows(tmp_path / "out") == 4
    assert verify.main([str(tmp_path / "out"), "--workers=1"]) == 0, capsys.readouterr()
