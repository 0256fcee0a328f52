"""The tables of published lists, against the lists themselves where the folder `shared` beside the repository is."""

import gzip
from collections import Counter
from pathlib import Path

import pytest

from taxonomy import lists, tables
from taxonomy.compile_lists import main
from tests.published_lists import FILES, PUBLISHED, lines, needs_lists

# Counts of the papers: Zhang et al. (2023), table 1 and its lists; Yang et al. (2024); Huang and Li (2021).
COUNTS = {
    "openood_validation": 5_000,
    "ssb_hard": 49_000,
    "openood_imagenet_c": 10_000,
    "openood_cifar10_validation": 1_000,
    "openood_cifar100_validation": 1_000,
    "openood_cifar10_cifar100": 9_000,
    "openood_cifar10_tin": 7_793,
    "openood_cifar10_tin_validation": 1_000,
    "openood_cifar100_tin": 6_526,
    "openood_cifar100_tin_validation": 972,
    "openood_cifar10_places": 35_195,
    "openood_cifar100_places": 33_773,
    "imagenet_ood": 31_802,
    "mos_sun": 10_000,
    "mos_places": 10_000,
}


def test_every_list_has_its_published_number_of_images():
    assert {name: len(lists.load_list(name)) for name in lists.LISTS} == COUNTS


@needs_lists
@pytest.mark.parametrize("name", lists.LISTS)
def test_a_table_is_what_its_published_list_compiles_to(name, capsys):
    assert main(["--check", name, str(PUBLISHED / FILES[name])]) == 0
    assert "as published" in capsys.readouterr().out


def test_places_of_mos_are_images_that_places365_can_have():
    """Fifty categories, with numbers of the 3,068 to 5,000 training images, and validation images from 1 to 36,500."""
    of = Counter(lists.load_list("mos_places").values())
    assert of.pop(lists.UNKNOWN) == 178
    assert len(of) == 50 and of.total() == 9_822
    numbers = {"train": [], "val": []}
    for source_id in lists.load_list("mos_places"):
        numbers[source_id.partition("/")[0]].append(int(source_id[-12:-4]))
    assert min(numbers["train"]) >= 1 and max(numbers["train"]) <= 5_000
    assert min(numbers["val"]) >= 1 and max(numbers["val"]) <= 36_500


def test_imagenet200_is_among_the_1000_classes_and_validation_has_five_of_each():
    wnids = {row.wnid for row in tables.imagenet1k()}
    assert len(lists.imagenet_r()) == 200 and set(lists.imagenet_r()) < wnids
    assert Counter(lists.load_list("openood_validation").values()) == dict.fromkeys(wnids, 5)


def test_a_line_of_another_list_is_named_with_its_number(tmp_path, capsys):
    path = tmp_path / "list.txt.gz"
    path.write_bytes(gzip.compress(b"ssb_hard/n00470682/n00470682_102.JPEG -1\nssb_hard/n00470682/n1_2.JPEG -1\n"))
    assert main(["ssb_hard", str(path)]) == 2
    message = capsys.readouterr().err
    assert f"Line 2 of {path} is no line of such a list" in message and "test_ssb_hard.txt" in message


@needs_lists
@pytest.mark.parametrize("name", lists.LISTS)
def test_copies_of_a_list_with_folders_before_its_lines_and_labels_behind_them_are_the_same(name, tmp_path, capsys):
    """As other projects have them: ZhikangXu0112/InterNeg has `images/sun_aaaevyiuguntlerb.jpg -1` of MOS's SUN."""
    path = tmp_path / "list.txt"
    path.write_text("".join(f"images/of/{line}{'' if ' ' in line else ' -1'}\n" for line in lines(name)))
    assert main(["--check", name, str(path)]) == 0
    assert "as published" in capsys.readouterr().out


def test_lines_are_read_with_and_without_folders_and_label():
    """Written by hand, one of each list; the lists need not be there."""
    of_image = {
        "ssb_hard": ("n00470682/n00470682_102.JPEG", ("n00470682", "102")),
        "imagenet_ood": ("n02666943/n02666943_13580.JPEG", ("n02666943", "13580")),
        "openood_imagenet_c": ("brightness/1/ILSVRC2012_val_00000806.JPEG", ("brightness/1", "806")),
        "openood_cifar10_validation": ("cifar10/test/airplane/0011.png", ("airplane", "11")),
        "openood_cifar10_cifar100": ("cifar100/test/aquarium_fish/0100.png", ("aquarium_fish", "100")),
        "openood_cifar100_tin": ("val_20.JPEG", ("n03814639", "20")),
        "openood_cifar100_places": ("canal-urban/Places365_val_00000382.jpg", ("/c/canal/urban", "382")),
        "mos_sun": ("sun_aaaevyiuguntlerb.jpg", (lists.UNKNOWN, "aaaevyiuguntlerb")),
        "mos_places": ("b_badlands_00000034.jpg", ("/b/badlands", "34")),
    }
    for name, (line, image) in of_image.items():
        for text in (line, f"{line} -1", f"images/{line}", f"a/b/{line} 57"):
            assert lists.LISTS[name].parsed(text) == image, text
        for text in (f"images {line}", f"7{line}", f"{line}x", f"{line} one"):
            assert lists.LISTS[name].parsed(text) is None, text


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("mos_places", "n_nowhere_00000001.jpg"),
        ("openood_validation", "val/ILSVRC2012_val_00000013.JPEG 1000"),
        ("openood_cifar10_validation", "cifar10/test/aeroplane/0001.png 0"),
        ("openood_cifar10_validation", "cifar10/test/airplane/0000.png 0"),
        ("openood_cifar10_places", "nowhere/Places365_val_00000001.jpg -1"),
    ],
)
def test_a_class_that_there_is_not_is_no_line_of_a_list(name, line, tmp_path, capsys):
    path = tmp_path / "list.txt"
    path.write_text(f"{line}\n")
    assert main(["--check", name, str(path)]) == 2
    assert f"Line 1 of {path} is no line of such a list" in capsys.readouterr().err


def test_an_image_that_is_listed_twice_is_refused(tmp_path, capsys):
    path = tmp_path / "list.txt"
    path.write_text("sun_aaaevyiuguntlerb.jpg\n" * 2)
    assert main(["mos_sun", str(path)]) == 2
    assert f"Line 2 of {path} lists an image again" in capsys.readouterr().err


def test_another_list_than_the_packages_is_reported(tmp_path, capsys):
    path = tmp_path / "list.txt"
    path.write_text("sun_aaaevyiuguntlerb.jpg\n")
    assert main(["--check", "mos_sun", str(path)]) == 1
    assert "listed_mos_sun.csv is not what" in capsys.readouterr().err


def test_the_tables_of_lists_are_small():
    """Compressed, as a wheel has them; ours: 2.7 bytes an image, 0.57 megabytes for 212,061 images."""
    data = Path(lists.__file__).parent / "data"
    assert sum(len(gzip.compress((data / lists.list_file(name)).read_bytes())) for name in lists.LISTS) < 2.7 * sum(
        COUNTS.values()
    )
