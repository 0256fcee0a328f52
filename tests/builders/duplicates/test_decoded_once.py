"""How often a build of own folders decodes its images."""

import hashlib
import io
import shutil

import numpy as np
import pyarrow.parquet as pq
import pytest
from PIL import Image

from builders import folder_benchmark
from builders.duplicates.checked import ImageCheck
from builders.duplicates.kept import kept_pixels
from builders.release import images
from builders.release.duplicates import read_pairs
from builders.release.layout import Layout
from builders.release.manifest import read_manifest
from tests.builders.conftest import files_of
from tests.killing import watched_at_renames
from tests.sentences import assert_sentence

ROWS = 3 * 12 + 8


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """JPEGs of three classes, a folder of unknowns, and a copy of one of these that is mirrored and darker."""
    root, random = tmp_path_factory.mktemp("photographs"), np.random.default_rng(0)
    for number in range(ROWS):
        path = root / (f"known/{'abc'[number // 12]}/{number}.jpg" if number < 36 else f"near/{number}.jpg")
        path.parent.mkdir(parents=True, exist_ok=True)
        coarse = Image.fromarray(random.integers(0, 256, (9, 9, 3), dtype=np.uint8))
        image = coarse.resize((120, 90), Image.Resampling.BICUBIC)
        image.save(path, quality=92)
    mirrored = Image.open(root / "known/a/3.jpg").transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    mirrored.point(lambda level: level * 0.8).save(root / "near/40.jpg", quality=92)
    return root


def arguments(folders, out, *flags):
    names = [f"--in-distribution={folders / 'known'}", f"--unknown=near={folders / 'near'}", f"--out={out}"]
    return [*names, "--workers=1", "--quiet", *flags]


@pytest.fixture
def decoded(monkeypatch):
    """The images that were decoded, as bytes, each time."""
    seen, decode = [], images.decode

    def counting(data):
        seen.append(data)
        return decode(data)

    monkeypatch.setattr(images, "decode", counting)
    return seen


def build(folders, out, *flags):
    assert folder_benchmark.main(arguments(folders, out, *flags)) == 0


def test_a_build_decodes_each_image_once_to_compare_it(folders, decoded, tmp_path):
    build(folders, tmp_path / "without", "--no-near-duplicates")
    pictures = len(decoded)  # for the card
    decoded.clear()
    build(folders, tmp_path / "out")
    assert len(decoded) == ROWS + pictures
    pairs = read_pairs(tmp_path / "out/duplicates/pairs.parquet")
    assert [pair.distance > 0 for pair in pairs] == [True]
    decoded.clear()
    # Again it is read from what was kept, and where that is gone from the shards.
    (tmp_path / "out/duplicates/pairs.parquet").unlink()
    before = files_of(tmp_path / "out")
    build(folders, tmp_path / "out")
    assert decoded == []
    (tmp_path / "out/duplicates/pairs.parquet").unlink()
    shutil.rmtree(tmp_path / "out/.state/pixels")
    build(folders, tmp_path / "out")
    assert len(decoded) == ROWS
    assert before.items() <= files_of(tmp_path / "out").items()


@pytest.mark.parametrize("flags", [(), ("--splits=folder/near_ood", "--check=decode")])
def test_room_for_what_the_check_keeps_is_asked_for_before_it_begins(folders, decoded, tmp_path, capsys, flags):
    """By hand: 32 x 32 pixels of three bytes, two digests, a row and two checksums; what is kept is there."""
    out, free = tmp_path / "out", lambda left: lambda _: shutil._ntuple_diskusage(10**9, 10**9 - left, left)
    needed = ROWS * (32 * 32 * 3 + 32 + 32 + 8 + 4 + 4)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(shutil, "disk_usage", free(needed - 1))
        assert folder_benchmark.main(arguments(folders, out, *flags)) == 2
        assert_sentence(capsys.readouterr().err, f"keeps of 44 images takes {needed:,} bytes", "--out")
        assert not out.exists()
        assert not decoded
    build(folders, out, *flags)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(shutil, "disk_usage", free(0))
        build(folders, out, *flags)


@pytest.mark.parametrize(
    ("ending", "flags"), [("png", ()), ("png", ("--check=decode",)), ("jpg", ("--check=decode",))]
)
def test_what_the_check_decodes_the_shards_do_not(folders, decoded, tmp_path, ending, flags):
    """Images that no look at their structure tells to be whole, or all; also where one is damaged and mended."""
    copy = tmp_path / "copy"
    for path in sorted(folders.rglob("*.jpg")):
        target = (copy / path.relative_to(folders)).with_suffix(f".{ending}")
        target.parent.mkdir(parents=True, exist_ok=True)
        Image.open(path).save(target)
    build(copy, tmp_path / "without", "--no-near-duplicates", *flags)
    assert len(decoded) == ROWS
    decoded.clear()
    build(copy, tmp_path / "out", *flags)
    assert len(decoded) == ROWS
    pairs = read_pairs(tmp_path / "out/duplicates/pairs.parquet")
    assert [pair.distance > 0 for pair in pairs] == [True]
    assert not (tmp_path / "out/.state/checked/pixels.rgb").exists()  # they are beside the shards
    decoded.clear()
    build(copy, tmp_path / "out", *flags)
    assert decoded == []
    # The last one is damaged: what the others were found to be is not lost where a release lies.
    whole = (copy / f"near/40.{ending}").read_bytes()
    (copy / f"near/40.{ending}").write_bytes(whole[:-40])
    assert folder_benchmark.main(arguments(copy, tmp_path / "out", *flags)) == 2
    assert len(decoded) == 1
    (copy / f"near/40.{ending}").write_bytes(whole)


def test_more_workers_than_the_check_has_threads_give_the_release_of_one(folders, tmp_path, capsys):
    """The check decodes with one, and nine decode what they write: the same refusal, remark and bytes."""
    copy = tmp_path / "copy"
    shutil.copytree(folders, copy)
    Image.open(copy / "near/36.jpg").save(copy / "near/37.png")
    odd = b"Exif\0\0II*\0\x08\0\0\0\x09\0"  # nine tags that are not there, on which Pillow remarks
    for path in (copy / "known/b/15.jpg", copy / "near/39.jpg"):
        whole = path.read_bytes()
        path.write_bytes(whole[:2] + b"\xff\xe1" + (len(odd) + 2).to_bytes(2, "big") + odd + whole[2:])
    (copy / "known/a/1.jpg").write_bytes((copy / "known/a/1.jpg").read_bytes()[:1000])
    told = {}
    for workers in (1, 9):
        out = tmp_path / str(workers)
        flags = [flag for flag in arguments(copy, out) if flag not in ("--workers=1", "--quiet")]
        codes = [folder_benchmark.main([*flags, f"--workers={workers}", *more]) for more in ([], ["--allow-partial"])]
        assert codes == [2, 0]
        said = capsys.readouterr().err.splitlines()
        told[workers] = [line.replace(str(out), "OUT") for line in said if "planned" not in line], files_of(out)
    assert told[1] == told[9]
    assert "Pillow warns of 2 images, such as" in "".join(told[1][0])
    assert "1 image cannot be used" in "".join(told[1][0])


@pytest.mark.parametrize("flags", [(), ("--limit-per-class=100",)])
def test_a_killed_build_that_goes_on_decodes_nothing_twice(folders, decoded, tmp_path, flags):
    """Killed before each of some renames: a finished shard has its pixels, which are of its rows.

    Without a limit the check has decoded all images before the first of these renames.
    """
    build(folders, tmp_path / "whole", *flags)
    pictures, complete = len(decoded) - ROWS, files_of(tmp_path / "whole")
    out = tmp_path / "out"
    points = (4, 8, 11, 14, 17, 20, 23)
    watched = watched_at_renames(points, out, lambda: build(folders, out, *flags))
    manifest = read_manifest(tmp_path / "whole")
    rows = {key: entry.rows for key, entry in manifest.by_key().items()}
    left = []
    for point in (point for point in points if point < watched.renames):
        watched.as_killed(point)
        finished = {key for key in rows if Layout(out).shard(".state/parts", key, 0, 1).exists()}
        left.append(sum(rows[key] for key in rows if key not in finished))
        decoded.clear()
        build(folders, out, *flags)
        again = len(decoded) - (left[-1] if flags else 0)
        assert again in (0, pictures), point
        assert files_of(out) == complete
    assert left[0] == ROWS and 0 in left and len(set(left)) > 3


def test_a_build_that_takes_some_images_decodes_these_alone(folders, decoded, tmp_path):
    """The check decodes ahead only what is surely compared: not for a limit, not for chosen splits, not without a
    split to compare with."""
    only_test = tmp_path / "images/test"
    shutil.copytree(folders / "known", only_test)
    divided = [f"--in-distribution={only_test.parent}", f"--unknown=near={folders / 'near'}", "--workers=1", "--quiet"]
    build(folders, tmp_path / "limited", "--limit-per-class=2")
    rows = sum(entry.rows for entry in read_manifest(tmp_path / "limited").by_key().values())
    assert len(decoded) == rows < ROWS
    decoded.clear()
    build(folders, tmp_path / "chosen", "--splits=folder/near_ood")
    assert len(decoded) == 8
    decoded.clear()
    assert folder_benchmark.main([*divided, f"--out={tmp_path / 'divided'}"]) == 0
    assert decoded == []


def test_what_is_kept_is_what_the_shards_have(folders, tmp_path):
    """Decoded and shrunk by Pillow alone."""
    build(folders, tmp_path)
    layout, manifest = Layout(tmp_path), read_manifest(tmp_path)
    for key, entry in manifest.by_key().items():
        kept = kept_pixels(layout, key, entry).read()
        data = pq.read_table(tmp_path / entry.data[0].path)["image"].to_pylist()
        for pixels, image in zip(kept, data, strict=True):
            path = tmp_path / "image.jpg"
            path.write_bytes(image["bytes"])
            assert np.array_equal(pixels, Image.open(path).convert("RGB").resize((32, 32), Image.Resampling.BOX))


def test_a_kill_costs_the_check_of_own_images_what_was_not_written_yet(decoded, tmp_path):
    """`docs/own-data.md` says up to 1,024 images; a kill is a check that does not come to `finish`."""
    layout, data = Layout(tmp_path), []
    for level in range(1030):
        opened = io.BytesIO()
        Image.new("RGB", (1, 1), (level % 256, level // 256, 0)).save(opened, "PNG")
        data.append((opened.getvalue(), hashlib.sha256(opened.getvalue()).hexdigest()))
    for decodes in (len(data), len(data) - 1024):
        decoded.clear()
        checked = ImageCheck(layout.inside(".state/checked"), decode=False, compared=True)
        for image in data:
            checked(*image)
        assert len(decoded) == decodes
