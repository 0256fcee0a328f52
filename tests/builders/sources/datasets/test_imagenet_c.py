import pytest

from tests.builders.trees import opened, tree, write_tar

# Two lines of OpenOOD's list: label 57, the garter snake, and 566, the French horn.
SNAKE, HORN = "brightness/1/ILSVRC2012_val_00000806.JPEG", "brightness/1/ILSVRC2012_val_00000957.JPEG"
WNIDS = {SNAKE: "n01735189", HORN: "n03394916"}


def owners(name):
    """The path of an image in the owners' folders."""
    kind, _, file = name.rpartition("/")
    return f"{kind}/{WNIDS[name]}/{file}"


@pytest.mark.parametrize("group", ["", "weather/"])
def test_only_listed_images_and_folders_with_some_are_looked_at(tmp_path, group):
    unlisted = ("brightness/1/n01735189/ILSVRC2012_val_00000001.JPEG", "brightness/1/n01440764/notes.txt")
    tree(tmp_path, {f"{group}{name}": "" for name in (owners(SNAKE), owners(HORN), *unlisted)})
    (partition,) = opened("imagenet_c", tmp_path).partitions
    assert set(partition.table["source_id"].to_pylist()) == {SNAKE, HORN}
    assert (
        dict(zip(partition.table["source_id"].to_pylist(), partition.table["class_id"].to_pylist(), strict=True))
        == WNIDS
    )
    assert len(partition.missing) == 9_998
    assert partition.strays == ()


def test_archives_are_read_in_place_and_one_that_lacks_is_named_by_its_images(tmp_path):
    write_tar(tmp_path / "weather.tar", {owners(SNAKE): b"snake", "brightness/1/n01735189/notes.txt": b""})
    (partition,) = opened("imagenet_c", tmp_path).partitions
    assert partition.layout == "archives weather.tar"
    (row,) = partition.table.to_pylist()
    assert (row["source_id"], row["file"], row["size"]) == (SNAKE, "weather.tar", 5)
    assert HORN in partition.missing.to_pylist()
    assert partition.strays == ()
