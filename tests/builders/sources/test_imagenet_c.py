import pytest

from builders.plan.completeness import shortfalls
from builders.sources.registry import SOURCES
from taxonomy import tables
from tests.builders.published import listed, published, touched
from tests.builders.trees import opened, refusal, tree, write_tar

# Two lines of OpenOOD's list: label 57, the garter snake, and 566, the French horn.
SNAKE, HORN = "brightness/1/ILSVRC2012_val_00000806.JPEG", "brightness/1/ILSVRC2012_val_00000957.JPEG"
WNIDS = {SNAKE: "n01735189", HORN: "n03394916"}


@published
def test_ids_and_classes_are_openoods(tmp_path):
    labels = listed("imagenet_test_imagenet_c")
    touched(tmp_path / "images_largescale" / "imagenet_c", labels)
    index = opened("imagenet_c", tmp_path)
    wnids = [row.wnid for row in tables.imagenet1k()]
    classes = dict(zip(*(index.table[name].to_pylist() for name in ("source_id", "class_id")), strict=True))
    assert classes == {name: wnids[label] for name, label in labels.items()}
    # OpenOOD v1.5 takes 10,000 images of 15 corruptions and 5 severities.
    assert len(labels) == SOURCES["imagenet_c"].expected()["openood"].total == 10_000
    assert len({name.rpartition("/")[0] for name in labels}) == 75
    assert shortfalls(index, ("openood",), wnids) == []
    assert not len(index.pieces[0].missing)


def owners(name):
    """The path of an image in the owners' folders."""
    kind, _, file = name.rpartition("/")
    return f"{kind}/{WNIDS[name]}/{file}"


@pytest.mark.parametrize("group", ["", "weather/"])
def test_only_listed_images_and_folders_with_some_are_looked_at(tmp_path, group):
    others = ("brightness/1/n01735189/ILSVRC2012_val_00000001.JPEG", "brightness/1/n01440764/notes.txt")
    tree(tmp_path, {f"{group}{name}": "" for name in (owners(SNAKE), owners(HORN), *others)})
    (piece,) = opened("imagenet_c", tmp_path).pieces
    assert set(piece.table["source_id"].to_pylist()) == {SNAKE, HORN}
    assert dict(zip(piece.table["source_id"].to_pylist(), piece.table["class_id"].to_pylist(), strict=True)) == WNIDS
    assert len(piece.missing) == 9_998
    assert piece.strays == ()


def test_archives_are_read_in_place_and_one_that_lacks_is_named_by_its_images(tmp_path):
    write_tar(tmp_path / "weather.tar", {owners(SNAKE): b"snake", "brightness/1/n01735189/notes.txt": b""})
    (piece,) = opened("imagenet_c", tmp_path).pieces
    assert piece.layout == "archives weather.tar"
    (row,) = piece.table.to_pylist()
    assert (row["source_id"], row["file"], row["size"]) == (SNAKE, "weather.tar", 5)
    assert HORN in piece.missing.to_pylist()
    assert piece.strays == ()


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"val/n01735189/ILSVRC2012_val_00000806.JPEG": ""}, "the partition openood (10,000 images) is not in"),
        ({"fog/2/n01735189/ILSVRC2012_val_00000806.JPEG": ""}, "the partition openood (10,000 images) is not in"),
        ({"blur.tar": "no archive"}, "is not a whole, uncompressed tar"),
    ],
)
def test_copies_of_something_else(tmp_path, files, words):
    assert words in refusal("imagenet_c", tree(tmp_path, files))
