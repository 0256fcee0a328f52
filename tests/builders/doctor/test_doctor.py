"""What `doctor` says of planted copies and of sound ones in other layouts."""

import functools
import hashlib
import io
import json
import os
import shutil

import numpy as np
import pytest
from PIL import Image

import unknown_detection as ud
from builders.commands.doctor import main
from builders.doctor.copies import recognise
from builders.sources.registry import SOURCES
from tests.builders.layouts import LAYOUTS, TINY
from tests.builders.trees import linked, replaced, tree


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "unknown-detection"


@pytest.fixture(scope="module")
def index(demo, tmp_path_factory):
    """Gives the index of a demo source, made by the command from its official layout."""

    @functools.cache
    def made(key):
        path = tmp_path_factory.mktemp("index") / f"{key}.parquet"
        main([str(demo[key]), "--write-index", str(path), "--workers", "1", "--json"])
        return path

    return made


def saved(image, form="JPEG", **options):
    data = io.BytesIO()
    image.save(data, form, **options)
    return data.getvalue()


def changed(change):
    """A function of bytes from one of images."""
    return lambda data: saved(change(Image.open(io.BytesIO(data)).convert("RGB")), quality=95)


def with_orientation(data):
    exif = Image.Exif()
    exif[0x0112] = 6
    return saved(Image.open(io.BytesIO(data)).convert("RGB"), exif=exif, quality=95)


ONE = "images/blotchy/blotchy_0160.jpg"
OTHER = "images/braided/braided_0168.jpg"


def put(change, name=ONE):
    def plant(root):
        replaced(root / name, change)

    return plant


def removed(root):
    (root / ONE).unlink()


def added(root):
    tree(root, {"images/blotchy/blotchy_0001b.jpg": changed(lambda image: image.rotate(5))((root / ONE).read_bytes())})


def misplaced(root):
    (root / ONE).rename(root / "images" / "braided" / "blotchy_0160.jpg")


def renamed(root):
    (root / ONE).rename(root / "images" / "blotchy" / "picture.jpg")


def copied_over(root):
    (root / ONE).unlink()
    shutil.copy(root / OTHER, root / ONE)


def together(*plants):
    def plant(root):
        for each in plants:
            each(root)

    return plant


cut = put(lambda data: data[: len(data) // 2])
half = put(changed(lambda image: image.resize((image.width // 2, image.height // 2))))
worse = put(lambda data: saved(Image.open(io.BytesIO(data)).convert("RGB"), quality=70))


def in_grey(data):
    return saved(Image.open(io.BytesIO(data)).convert("L"), quality=95)


def put_other(root):
    """Put a third image in the place of one."""
    (root / ONE).unlink()
    shutil.copy(min((root / "images" / "bubbly").iterdir()), root / ONE)


grey = put(in_grey)
turned = put(changed(lambda image: image.transpose(Image.Transpose.ROTATE_90)))
commented = put(lambda data: data[:2] + b"\xff\xfe\x00\x06abcd" + data[2:])
replaced_by_another = put(
    lambda data: saved(Image.fromarray(np.random.default_rng(0).integers(0, 255, (40, 50, 3), np.uint8)))
)
no_image = put(lambda data: b"<html>404</html>")

PLANTED = {
    "missing": (removed, {"missing": 1}),
    "extra": (added, {"extra": 1}),
    "in the folder of another class": (misplaced, {"wrong class": 1}),
    "renamed": (renamed, {"under another name": 1}),
    "copied over": (copied_over, {"doubled": 1}),
    "cut": (cut, {"truncated": 1}),
    "a page in its place": (no_image, {"unreadable": 1}),
    "resized": (half, {"resized": 1}),
    "grey": (grey, {"grey": 1}),
    "turned": (turned, {"turned": 1}),
    "saved again": (worse, {"differs": 1}),
    "with a comment": (commented, {"differs": 1}),
    "another picture": (replaced_by_another, {"resized": 1}),  # an index tells no more than another size
    "turned by EXIF": (put(with_orientation), {"differs": 1}),
    "missing and cut": (together(put(lambda data: data[:200], OTHER), removed), {"missing": 1, "truncated": 1}),
    "resized and extra": (together(added, half), {"extra": 1, "resized": 1}),
    "copied over and cut": (together(put(lambda data: data[:200], OTHER), put_other), {"doubled": 1, "truncated": 1}),
    "in the folder of another class and a page": (
        together(put(lambda data: b"<html>404</html>", OTHER), misplaced),
        {"wrong class": 1, "unreadable": 1},
    ),
    "grey and turned": (together(put(in_grey, OTHER), turned), {"grey": 1, "turned": 1}),
    "renamed and saved again": (
        together(put(changed(lambda image: image), OTHER), renamed),
        {"under another name": 1, "differs": 1},
    ),
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_copy_is_named_rightly_by_an_index(demo, index, tmp_path, name):
    plant, kinds = PLANTED[name]
    root = linked(demo["dtd"], tmp_path / "copy")
    plant(root)
    before = digests(root)
    found = ud.doctor(root, against=str(index("dtd")))
    assert (found["kinds"], found["whole"]) == (kinds, False)
    assert found["sentence"].startswith("Describable Textures (DTD) (images) differs from dtd.parquet: ")
    named = [each["id"] for each in found["differences"]]
    assert all("blotchy" in each or "braided_0168" in each for each in named)
    assert digests(root) == before, "nothing is written into the copy"


def test_the_command_ends_with_the_sentence_and_exit_code_1(demo, index, tmp_path, capsys):
    root = linked(demo["dtd"], tmp_path / "copy")
    together(added, cut)(root)
    found = ud.doctor(root, against=str(index("dtd")))
    assert main([str(root), "--against", str(index("dtd")), "--workers", "1"]) == 1
    assert capsys.readouterr().out.splitlines()[-1] == found["sentence"]


# By the pixels of a whole copy, which an index has not.
BY_PIXELS = {
    "saved again": {"re-encoded": 1},
    "with a comment": {"other bytes": 1},
    "another picture": {"other picture": 1},
    "resized": {"resized": 1},
    "grey": {"grey": 1},
    "turned": {"turned": 1},
    "in the folder of another class": {"wrong class": 1},
    "missing and cut": {"missing": 1, "truncated": 1},
}


@pytest.mark.parametrize("name", BY_PIXELS)
def test_a_planted_copy_is_named_rightly_by_pixels(demo, tmp_path, name):
    root = linked(demo["dtd"], tmp_path / "copy")
    PLANTED[name][0](root)
    found = ud.compare(root, demo["dtd"])
    assert (found["kinds"], found["equal"]) == (BY_PIXELS[name], False)


def digests(root):
    return {
        path.relative_to(root).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in root.rglob("*")
        if path.is_file()
    }


SOUND = [
    (key, convert)
    for key in ("imagenet", "tiny_imagenet", "dtd", "cifar100", "mnist", "ninco")
    for convert in LAYOUTS[key]
]
_QUICK = 3
"""Layouts of a source that are tried in the quick tests."""


def sound_copies():
    for key, convert in SOUND:
        marks = () if convert in LAYOUTS[key][-_QUICK:] and key != "imagenet" else (pytest.mark.slow,)
        quick = convert.__name__ == "imagenet_parquet"
        yield pytest.param(key, convert, marks=() if quick else marks, id=f"{key}-{convert.__name__}")


@pytest.mark.parametrize(("key", "convert"), list(sound_copies()))
def test_a_sound_copy_in_another_layout_is_complete(demo, index, tmp_path, key, convert):
    root = convert(demo[key], tmp_path / "copy")
    found = ud.doctor(root, against=str(index(key)))
    assert (found["kinds"], found["whole"]) == ({}, True), found["sentence"]
    images = sum(each["images"] for each in found["found"])
    assert found["sentence"].startswith(f"complete: every one of {images:,} images of {SOURCES[key].title}")


LEFT_OUT = {"imagenet_c": ("[2-5]", "[c-mo-z]*"), "places365": ("[b-z]",), "sun397": ("[b-z]",)}
"""Names of most folders of the demos that have hundreds, since each of them is tried as a copy of every source."""


@pytest.mark.parametrize("key", SOURCES)
def test_the_demo_of_each_source_is_recognised(demo, key, tmp_path):
    root = linked(demo[key], tmp_path / "copy", *LEFT_OUT[key]) if key in LEFT_OUT else demo[key]
    (copy, *_) = recognise(root).copies
    assert copy.source is not None
    assert copy.source.key == key
    assert {partition.name for partition in copy.partitions} == set(SOURCES[key].expected())


def test_one_archive_of_several_is_looked_at_alone(demo, index, tmp_path):
    (archives,) = [convert for convert in LAYOUTS["imagenet"] if convert.__name__ == "imagenet_archives"]
    root = archives(demo["imagenet"], tmp_path / "archives")
    found = ud.doctor(root / "ILSVRC2012_img_val.tar", against=str(index("imagenet")))
    assert [each["partition"] for each in found["found"]] == ["val"]
    assert found["sentence"] == (
        "complete: every one of 2,000 images of ImageNet-1k (ILSVRC2012) (val) as in imagenet.parquet"
    )
    assert any("also has 4,000 rows of imagenet, train" in note for note in found["notes"])


def test_the_folder_of_a_partition_is_recognised_by_the_one_above(demo):
    (copy,) = recognise(demo["imagenet"] / "val").copies
    assert (copy.source.key, [partition.name for partition in copy.partitions]) == ("imagenet", ["val"])


def test_without_an_index_counts_stand_beside_the_owners(demo):
    found = ud.doctor(demo["tiny_imagenet"], quick=True)
    assert [(each["partition"], each["images"], each["expected"]) for each in found["found"]] == [
        ("train", 400, 100_000),
        ("val", 400, 10_000),
    ]
    assert found["kinds"] == {"missing": 110_000 - 800}
    assert found["found"][0]["wrong_classes"]["n01443537"] == [2, 500]


def test_an_altered_tiny_imagenet_is_named_so(demo, tmp_path):
    """Two classes more, and 100 validation images of one of them, as public copies have."""
    root = linked(demo["tiny_imagenet"], tmp_path / "copy") / TINY
    own = next((root / "train" / "n01443537" / "images").iterdir()).read_bytes()
    tree(root, {"train/n02480855/images/n02480855_0.JPEG": own, "val/images/val_10000.JPEG": own})
    replaced(root / "val" / "val_annotations.txt", lambda text: text + b"val_10000.JPEG\tn02480855\t10\t10\t38\t42\n")
    found = ud.doctor(root.parent, quick=True)
    assert found["sentence"].startswith(
        f"not as the owner's: Tiny ImageNet: {root}/val/val_annotations.txt gives val_10000.JPEG"
    )
    extra = [each["id"] for each in found["differences"] if each["kind"] == "extra"]
    assert f"{TINY}/train/n02480855/images/n02480855_0.JPEG" in extra


def test_a_run_that_was_interrupted_goes_on_where_it_stopped(demo, tmp_path, cache, monkeypatch):
    from builders.doctor import diagnose as module
    from builders.doctor import scan

    def stopped(*_, **__):
        raise KeyboardInterrupt

    # Of links, another test's link to a file would be a change.
    root = shutil.copytree(demo["dtd"], tmp_path / "copy")

    def interrupt():
        with monkeypatch.context() as patch:
            patch.setattr(module, "copy_side", stopped)  # after all was read
            assert main([str(root), "--workers", "1"]) == 130
        assert list(cache.rglob("*.arrow"))

    interrupt()
    read = []
    whole = scan.image_facts
    monkeypatch.setattr(scan, "image_facts", lambda *args, **named: read.append(1) or whole(*args, **named))
    assert main([str(root), "--workers", "1"]) == 1  # the demo is small
    assert not read
    assert not list(cache.rglob("*.arrow")), "what is finished is removed"
    interrupt()
    status, data = (root / ONE).stat(), (root / ONE).read_bytes()
    (root / ONE).unlink()
    (root / ONE).write_bytes(data[:-12] + b"\0" * 10 + data[-2:])
    os.utime(root / ONE, ns=(status.st_atime_ns, status.st_mtime_ns))
    read.clear()
    assert main([str(root), "--workers", "1"]) == 1
    assert read, "an image of the same size and time is another one"


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("resized", {"resized": 1}),
        ("grey", {"grey": 1}),
        ("saved again", {"differs": 1}),
        ("missing", {"missing": 1}),
        ("renamed", {"under another name": 1}),
    ],
)
def test_quick_compares_names_sizes_and_headers_with_an_index(demo, index, tmp_path, name, kinds):
    root = linked(demo["dtd"], tmp_path / "copy")
    PLANTED[name][0](root)
    found = ud.doctor(root, against=str(index("dtd")), quick=True)
    assert (found["kinds"], found["whole"]) == (kinds, False)
    if name == "saved again":
        size, was = (root / ONE).stat().st_size, (demo["dtd"] / ONE).stat().st_size
        assert found["differences"][0]["detail"] == f"{size:,} bytes, not {was:,}"


def test_quick_takes_what_only_all_bytes_show_for_equal(demo, index, tmp_path):
    root = linked(demo["dtd"], tmp_path / "copy")
    replaced(root / ONE, lambda data: data[:-12] + b"\0" * 10 + data[-2:])
    found = ud.doctor(root, against=str(index("dtd")), quick=True)
    assert found["whole"]
    assert found["sentence"].endswith("of which names, sizes and headers were compared (--quick)")
    assert not ud.doctor(root, against=str(index("dtd")))["whole"]


def test_what_is_broken_in_the_owners_archive_is_a_note(demo, tmp_path):
    root, name = tmp_path / "copy" / "SUN397", "c/church/outdoor/sun_bhenjvsvrtumjuri.jpg"
    linked(demo["sun397"] / "SUN397/c/church", root / "c/church")
    tree(root, {name: b"\xff\xd8 badly encoded"})
    found = ud.doctor(root.parent)
    assert not any("bhenjvsvrtumjuri" in each["id"] for each in found["differences"])
    assert f"1 image known to be broken in the owner's archive: sun397/{name}" in found["notes"]


def test_a_file_larger_than_any_image_is_named_so(demo, index, tmp_path, monkeypatch):
    from builders.doctor import scan

    root = linked(demo["dtd"], tmp_path / "copy")
    replaced(root / ONE, lambda data: data + bytes(1 << 20))
    monkeypatch.setattr(scan, "LARGEST_IMAGE", 1 << 20)
    found = ud.doctor(root, against=str(index("dtd")))
    assert found["kinds"] == {"unreadable": 1}
    assert "more than 1,048,576 bytes" in found["differences"][0]["detail"]


@pytest.mark.parametrize("place", ["none", "empty"])
def test_where_there_is_nothing_the_exit_code_is_2(tmp_path, place, capsys):
    (tmp_path / "empty").mkdir()
    assert main([str(tmp_path / place)]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_nothing_is_written_into_the_copy(demo, capsys):
    assert main([str(demo["dtd"]), "--csv", str(demo["dtd"] / "found.csv")]) == 2
    assert "into which nothing is written" in capsys.readouterr().err


def test_the_csv_has_every_finding(demo, index, tmp_path):
    root = linked(demo["dtd"], tmp_path / "copy")
    together(added, cut)(root)
    table = tmp_path / "found.csv"
    assert main([str(root), "--against", str(index("dtd")), "--csv", str(table), "--workers", "1"]) == 1
    lines = table.read_text().splitlines()
    assert lines[0] == "kind,group,id,images,detail"
    assert sorted(line.split(",")[0] for line in lines[1:]) == ["extra", "truncated"]


def test_json_is_one_document(demo, capsys):
    main([str(demo["dtd"]), "--json", "--workers", "1"])
    assert json.loads(capsys.readouterr().out)["command"] == "doctor"
