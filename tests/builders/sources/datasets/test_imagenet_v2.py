import pytest

from taxonomy import tables
from tests.builders.trees import opened, refusal, tree, write_tar
from tests.sentences import assert_sentence

NAMES = tuple(f"{number:040x}.jpeg" for number in range(10))


def test_as_many_images_of_other_names_are_another_set_of_the_owners(tmp_path):
    inside = "imagenetv2-matched-frequency-format-val"
    files = {f"{inside}/{index}/{name}": b"" for index in range(1_000) for name in NAMES}
    write_tar(tmp_path / "imagenetv2-matched-frequency.tar", files)
    message = refusal("imagenet_v2", tmp_path)
    assert_sentence(message, "10,000")


def test_folders_are_class_indices_and_not_places_in_a_listing(tmp_path):
    # "the directory `100 (str)` is labelled with `2 (int)` class" (the owners' issue 10).
    tree(tmp_path, {f"{folder}/{NAMES[0]}": "" for folder in ("0", "1", "10", "100", "1000", "007")})
    class_of = {row["source_id"]: row["class_id"] for row in opened("imagenet_v2", tmp_path).table.to_pylist()}
    wnids = [row.wnid for row in tables.imagenet1k()]
    assert class_of == {f"{index}/{NAMES[0]}": wnids[index] for index in (0, 1, 10, 100)}


@pytest.mark.parametrize("name", ["imagenetv2-matched-frequency.tar.gz", "imagenetv2-matched-frequency.tar"])
def test_the_owners_archive_is_not_compressed_whatever_it_is_called(tmp_path, name):
    inside = f"imagenetv2-matched-frequency-format-val/7/{NAMES[1]}"
    write_tar(tmp_path / "x.tar", {inside: b"image"})
    (tmp_path / "x.tar").rename(tmp_path / name)
    (row,) = opened("imagenet_v2", tmp_path).table.to_pylist()
    assert (row["how"], row["source_id"], row["size"]) == ("span", f"7/{NAMES[1]}", 5)
