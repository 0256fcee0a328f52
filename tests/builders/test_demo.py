import hashlib
import io
import struct

import datasets
import PIL.Image
import pytest

import builders.demo as demo_module
from builders.demo import MARKER, STRAYS, TROUBLES, is_demo, main, write_demo
from builders.errors import BuildError
from builders.sources import SOURCES
from taxonomy import tables


def images(root):
    return sorted(path for path in root.rglob("*") if path.suffix.lower() in (".jpeg", ".jpg"))


def test_every_source_is_there_and_says_that_it_is_a_demo(demo):
    assert set(demo) == set(SOURCES)
    root = demo["imagenet"].parent
    assert is_demo(root)
    assert all(is_demo(folder) for folder in demo.values())
    assert "drawn by a program" in (root / MARKER).read_text()


def test_every_image_is_another_one(demo):
    pixels, files = set(), 0
    for root in demo.values():
        for path in images(root):
            with PIL.Image.open(path) as image:
                pixels.add(hashlib.sha256(image.convert("RGB").tobytes()).digest())
            files += 1
    assert len(pixels) == files


def test_images_are_small(demo):
    sizes = [path.stat().st_size for root in demo.values() for path in images(root)]
    assert sum(sizes) < 20e6
    assert max(sizes) < 10_000


def test_troubles_and_strays_lie_where_the_constants_say(demo):
    assert all((demo[trouble.source] / trouble.path).is_file() for trouble in TROUBLES)
    assert all((demo[key] / name).is_file() for key, names in STRAYS.items() for name in names)


def test_troubles_of_validation_images_are_in_tiny_imagenet_classes():
    wnids = {t.path.split("/")[1] for t in TROUBLES if t.path.startswith("val/")}
    assert wnids <= set(tables.tiny_imagenet200())


def opened(demo, kind):
    trouble = next(trouble for trouble in TROUBLES if trouble.kind == kind)
    return PIL.Image.open(io.BytesIO((demo[trouble.source] / trouble.path).read_bytes()))


def test_troubles_are_what_they_are_called(demo):
    assert opened(demo, "cmyk").mode == "CMYK"
    assert opened(demo, "png").format == "PNG"
    assert opened(demo, "grayscale").mode == "L"
    assert opened(demo, "orientation").getexif()[0x0112] == 6


@pytest.mark.parametrize("trouble", TROUBLES, ids=lambda trouble: trouble.path)
def test_pillow_reads_the_pixels_of_every_trouble(demo, trouble):
    with PIL.Image.open(demo[trouble.source] / trouble.path) as image:
        image.load()


@pytest.mark.parametrize(
    ("kind", "error"), [("exif-text-for-number", struct.error), ("exif-text-for-fraction", TypeError)]
)
def test_datasets_cannot_decode_broken_exif(demo, kind, error):
    """Why a release may not pass such bytes through; when this fails, `datasets` or Pillow has mended it."""
    trouble = next(trouble for trouble in TROUBLES if trouble.kind == kind)
    content = (demo[trouble.source] / trouble.path).read_bytes()
    with pytest.raises(error):
        datasets.Image().decode_example({"path": None, "bytes": content})


def test_pixels_depend_on_the_seed_and_names_do_not(demo, tmp_path, monkeypatch):
    monkeypatch.setattr(demo_module, "_SOURCES", {"food101": demo_module._food101})
    again = write_demo(tmp_path / "same")["food101"]
    other = write_demo(tmp_path / "other", seed=1)["food101"]
    names = [path.relative_to(demo["food101"]) for path in images(demo["food101"])]
    assert [path.relative_to(other) for path in images(other)] == names
    assert all((again / name).read_bytes() == (demo["food101"] / name).read_bytes() for name in names)
    assert not any((other / name).read_bytes() == (demo["food101"] / name).read_bytes() for name in names)


def test_other_peoples_folders_are_left_alone(tmp_path, capsys):
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(BuildError, match="found other files"):
        write_demo(tmp_path)
    assert main([str(tmp_path)]) == 2
    assert "found other files" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_command_writes_a_demo_and_names_the_next_one(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(demo_module, "_SOURCES", {"caltech256": demo_module._caltech256})
    for _ in range(2):  # the second run writes the demo again
        assert main([str(tmp_path / "demo"), "--seed", "3"]) == 0
        assert "Next: python -m builders.imagenet_benchmark --caltech256" in capsys.readouterr().out
