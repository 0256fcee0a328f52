import collections
import io
import struct

import datasets
import numpy as np
import PIL.Image
import pytest

from builders.commands.demo import main
from builders.demo import write as demo_module
from builders.demo.arrays import CHANGES
from builders.demo.cifar100 import near_duplicates
from builders.demo.containers import CONTAINERS
from builders.demo.write import keep_demo, write_demo
from builders.errors import BuildError
from builders.registry import BENCHMARKS
from builders.sources.base import DEMO_MARKER, is_demo
from builders.sources.registry import SOURCES
from tests.builders.cifar_layouts import cifar100_batch
from tests.builders.demo_sources import FILES, STRAYS, TROUBLES
from tests.builders.trees import contents, opened
from tests.sentences import assert_sentence, stops


def images(root):
    return sorted(path for path in root.rglob("*") if path.suffix.lower() in (".jpeg", ".jpg", ".png"))


def test_every_source_is_there_and_says_that_it_is_a_demo(demo):
    assert set(demo) == set(SOURCES)
    root = demo["imagenet"].parent
    assert is_demo(root)
    assert all(is_demo(folder) for folder in demo.values())
    assert "drawn by a program" in (root / DEMO_MARKER).read_text()


def test_images_are_small(demo):
    sizes = [path.stat().st_size for root in demo.values() for path in images(root)]
    assert sum(sizes) < 20e6
    assert max(sizes) < 10_000


def test_troubles_and_strays_lie_where_the_constants_say(demo):
    assert all((demo[trouble.source] / trouble.path).is_file() for trouble in TROUBLES)
    for key, names in STRAYS.items():
        for name in names:
            place = demo[key] / name
            assert not any(place.iterdir()) if name.endswith("/") else place.is_file()


def test_places365_val_begins_with_the_labels_of_the_real_list(demo):
    lines = (demo["places365"] / "places365_val.txt").read_text(encoding="utf-8").splitlines()
    assert lines[:5] == [
        f"Places365_val_{number:08d}.jpg {label}" for number, label in enumerate((165, 358, 93, 164, 289), start=1)
    ]
    assert collections.Counter(line.split()[1] for line in lines) == {str(label): 3 for label in range(365)}


def test_food101_has_its_three_images_of_one_channel_under_their_real_names(demo):
    names = ("bread_pudding/1375816", "lasagna/3787908", "steak/1340977")
    train = (demo["food101"] / "meta" / "train.txt").read_text(encoding="utf-8").split()
    test = (demo["food101"] / "meta" / "test.txt").read_text(encoding="utf-8").split()
    for name in names:
        with PIL.Image.open(demo["food101"] / "images" / f"{name}.jpg") as image:
            assert image.mode == "L"
        assert (name in train) != (name in test)
    assert len(train) + len(test) == len({*train, *test}) == 101 * 6 + 3


def stored(demo, kind):
    trouble = next(trouble for trouble in TROUBLES if trouble.kind == kind)
    return PIL.Image.open(io.BytesIO((demo[trouble.source] / trouble.path).read_bytes()))


def test_troubles_are_what_they_are_called(demo):
    assert stored(demo, "cmyk").mode == "CMYK"
    assert stored(demo, "png").format == "PNG"
    assert stored(demo, "gif").format == "GIF"
    assert stored(demo, "bmp").format == "BMP"
    assert (stored(demo, "png-with-alpha").format, stored(demo, "png-with-alpha").mode) == ("PNG", "RGBA")
    assert stored(demo, "grayscale").mode == "L"
    assert stored(demo, "orientation").getexif()[0x0112] == 6
    for trouble in TROUBLES:  # Pillow reads the pixels of each
        with PIL.Image.open(demo[trouble.source] / trouble.path) as image:
            image.load()


@pytest.mark.parametrize(
    ("kind", "error"),
    [
        ("exif-text-for-number", struct.error),
        ("exif-text-for-fraction", TypeError),
        ("exif-fraction-for-text", AttributeError),
        ("exif-float-for-text", AttributeError),
        ("exif-double-for-text", AttributeError),
    ],
)
def test_datasets_cannot_decode_broken_exif(demo, kind, error):
    """Why a release may not pass such bytes through; when this fails, `datasets` or Pillow has mended it."""
    trouble = next(trouble for trouble in TROUBLES if trouble.kind == kind)
    content = (demo[trouble.source] / trouble.path).read_bytes()
    with pytest.raises(error):
        datasets.Image().decode_example({"path": None, "bytes": content})


def test_pixels_depend_on_the_seed_and_names_do_not(demo, tmp_path):
    same = write_demo(tmp_path / "same", ["food101"])["food101"]
    other = write_demo(tmp_path / "other", ["food101"], seed=1)["food101"]
    names = [path.relative_to(demo["food101"]) for path in images(demo["food101"])]
    assert [path.relative_to(other) for path in images(other)] == names
    assert all((same / name).read_bytes() == (demo["food101"] / name).read_bytes() for name in names)
    assert not any((other / name).read_bytes() == (demo["food101"] / name).read_bytes() for name in names)


def every_file(folder):
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_kept_demo_gains_the_sources_that_it_lacks(demo, tmp_path, monkeypatch):
    """Each with the files that it has beside all others: some of SUN397 are copies of Places365's."""
    root = tmp_path / "demo"
    for keys in (["sun397", "svhn_full"], ["svhn_full", "dtd"]):
        assert keep_demo(root, keys) == {key: root / key for key in sorted(keys)}
    assert {path.name for path in root.iterdir()} == {"sun397", "svhn_full", "dtd", DEMO_MARKER, ".finished"}
    for key in ("sun397", "svhn_full", "dtd"):
        assert every_file(root / key) == every_file(demo[key]), key
    written = []
    monkeypatch.setattr(demo_module, "write_demo", lambda _root, keys, **_: written.append(keys))
    keep_demo(root, ["sun397", "dtd"])
    assert written == []
    monkeypatch.setattr(demo_module, "_edition", lambda: "of another version")
    keep_demo(root, ["sun397", "dtd"])
    assert written == [["dtd", "sun397"]]


def test_a_source_that_was_not_written_to_its_end_is_written_again(tmp_path, monkeypatch):
    keep_demo(tmp_path / "demo", ["svhn_full"])
    with monkeypatch.context() as patch:
        patch.setattr(demo_module, "digest", lambda *_: 1 / 0)  # the last step of a source
        with pytest.raises(ZeroDivisionError):
            keep_demo(tmp_path / "demo", ["food101"])
    (tmp_path / "demo" / "food101" / "images" / "baklava" / "3020152.jpg").unlink()
    assert keep_demo(tmp_path / "demo", ["food101", "svhn_full"]).keys() == {"food101", "svhn_full"}
    assert (tmp_path / "demo" / "food101" / "images" / "baklava" / "3020152.jpg").is_file()


def test_containers_depend_on_the_seed_and_keys_and_labels_do_not(demo, tmp_path):
    assert set(CONTAINERS) == {"cifar10", "cifar100", "svhn", "mnist", "lsun", "partial_broad"}
    same, other = write_demo(tmp_path / "0", ["svhn", "lsun"]), write_demo(tmp_path / "1", CONTAINERS, seed=1)
    for key in CONTAINERS:
        first = contents(opened(key, demo[key]))
        assert key not in same or contents(opened(key, same[key])) == first
        changed = contents(opened(key, other[key]))
        assert changed.keys() == first.keys()
        assert not any(changed[name] == pixels for name, pixels in first.items())


def alike(image, other):
    """The best correlation of brightness between two images, one of them mirrored or moved by up to two pixels."""
    gray = image.mean(axis=2)[2:30, 2:30]
    views = other.mean(axis=2), other.mean(axis=2)[:, ::-1]
    moved = [view[y : y + 28, x : x + 28] for view in views for y in range(5) for x in range(5)]
    return max(np.corrcoef(gray.ravel(), view.ravel())[0, 1] for view in moved)


def test_planted_near_duplicates_are_alike_and_no_other_images_of_a_class_are(demo):
    train, train_pixels = cifar100_batch(demo["cifar100"], "train")
    test, test_pixels = cifar100_batch(demo["cifar100"], "test")
    planted = {(pair.test, pair.train) for pair in near_duplicates()}
    likeness = {
        (i, j): alike(test_pixels[i], train_pixels[j])
        for i, fine in enumerate(test["fine_labels"])
        for j in np.flatnonzero(np.array(train["fine_labels"]) == fine).tolist()
        if fine % 10 == 0 or (i, j) in planted
    }
    assert min(likeness[pair] for pair in planted) > 0.85
    assert max(value for pair, value in likeness.items() if pair not in planted) < 0.8


def test_a_near_duplicate_is_planted_in_every_class_and_every_kind_of_change_is_there():
    assert len(near_duplicates()) == len({pair.test for pair in near_duplicates()}) == 100
    assert {kind: sum(pair.kind == kind for pair in near_duplicates()) for kind in CHANGES} == dict.fromkeys(
        CHANGES, 25
    )
    assert set(CHANGES) == {"shifted", "brighter", "mirrored", "jpeg"}


def test_other_peoples_folders_are_left_alone(tmp_path, capsys):
    (tmp_path / "thesis.tex").touch()
    with stops(BuildError):
        write_demo(tmp_path)
    assert main([str(tmp_path)]) == 2
    assert_sentence(capsys.readouterr().err)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_command_writes_a_demo_and_names_the_next_ones(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(demo_module, "DEMOS", {"caltech256": FILES["caltech256"], "lsun": demo_module.DEMOS["lsun"]})
    root = tmp_path / "demo"
    for _ in range(2):  # the second run writes the demo again
        assert main([str(root), "--seed", "3"]) == 0
    lines = capsys.readouterr().out.splitlines()[-6:]
    for line, (name, benchmark) in zip(lines, BENCHMARKS.items(), strict=True):
        keys = [source.key for source in benchmark.sources() if source.on_disk]
        flags = " ".join(f"--{key} {root / key}" for key in keys)
        assert line == f"Next: python -m builders.{name}_benchmark {flags}"
    assert opened("lsun", root / "lsun").table.num_rows == 120
