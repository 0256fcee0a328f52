"""Which files of a person's folder are images of which class, and which folders are refused."""

import pytest

from builders.errors import BuildError
from builders.sources.image_folder import ALL, find_images, image_folder
from builders.sources.opening import open_source
from builders.sources.readers.folders import child_names
from taxonomy import tables
from tests.sentences import stops
from unknown_detection.words import printable


def tree(root, *paths):
    for path in paths:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(b"")
    return root


def test_class_folders_hold_what_is_below_them_at_any_depth(tmp_path):
    root = tree(tmp_path, "dog/b.JPG", "dog/deep/er/a.png", "cat/c.webp", "Vögel/1.tiff")
    images = find_images(root)
    assert images.files == {
        ALL: (("Vögel/1.tiff", "Vögel"), ("cat/c.webp", "cat"), ("dog/b.JPG", "dog"), ("dog/deep/er/a.png", "dog"))
    }
    assert images.classes == ("Vögel", "cat", "dog")
    assert images.sizes(ALL) == {"Vögel": 1, "cat": 1, "dog": 2}
    assert images.strays == {ALL: ()}


def test_what_is_no_image_is_a_stray_with_its_reason(tmp_path):
    root = tree(tmp_path, "dog/a.jpg", "dog/notes.txt", "dog/.hidden.jpg", "dog/b\x1b[2J.jpg", "list.csv", ".DS_Store")
    tree(root, "dog/.thumbnails/a.jpg")
    strays = {stray.path: stray.reason for stray in find_images(root).strays[ALL]}
    assert strays == {
        ".DS_Store": "hidden, or in a hidden folder",
        "dog/.hidden.jpg": "hidden, or in a hidden folder",
        "dog/.thumbnails/a.jpg": "hidden, or in a hidden folder",
        "dog/b\\x1b[2J.jpg": "a name that does not print",
        "dog/notes.txt": "not the name of an image",
        "list.csv": "not the name of an image",
    }


def test_partitions_are_known_by_their_names(tmp_path):
    root = tree(tmp_path, "Train/dog/a.jpg", "Train/cat/b.jpg", "valid/dog/c.jpg", "test/dog/d.jpg", "readme.txt")
    images = find_images(root)
    assert {name: dict(images.sizes(name)) for name in images.files} == {
        "train": {"cat": 1, "dog": 1},
        "validation": {"cat": 0, "dog": 1},
        "test": {"cat": 0, "dog": 1},
    }


def test_classes_named_like_partitions_are_classes_beside_others(tmp_path):
    assert find_images(tree(tmp_path, "train/a.jpg", "bus/b.jpg")).classes == ("bus", "train")


def test_partitions_beside_other_folders_are_neither_taken_for_classes_nor_left_out(tmp_path):
    root = tree(tmp_path, "train/dog/a.jpg", "test/dog/b.jpg", "extra/dog/c.jpg")
    with stops(BuildError):
        find_images(root)


def test_letters_in_both_cases_are_two_classes(tmp_path):
    """As in sets of handwritten letters; of a partition that has both, another may have one."""
    assert find_images(tree(tmp_path / "one", "a/0.png", "A/0.png")).classes == ("A", "a")
    divided = tree(tmp_path / "two", "train/a/0.png", "train/A/0.png", "test/a/0.png")
    assert find_images(divided).classes == ("A", "a")


def test_a_name_is_printed_or_not_whatever_pythons_unicode_has(tmp_path):
    """Joined emoji, a space of no break, and U+0378, which no version of Unicode has assigned yet."""
    root = tree(tmp_path, "\U0001f468\u200d\U0001f469/a.png", "x\u00a0y/b.png", "dog/\u0378.png")
    assert [path for path, _ in find_images(root).files[ALL]] == [
        "dog/\u0378.png",
        "x\u00a0y/b.png",
        "\U0001f468\u200d\U0001f469/a.png",
    ]


def test_a_flat_folder_is_one_class_if_it_may_be(tmp_path):
    root = tree(tmp_path, "b.jpg", "a.jpg", "licence.txt")
    assert find_images(root, flat="far_ood").files == {ALL: (("a.jpg", "far_ood"), ("b.jpg", "far_ood"))}
    with stops(BuildError):
        find_images(root)


def test_ids_do_not_depend_on_where_the_folder_is(tmp_path):
    indexes = []
    for name in ("one", "two"):
        root = tree(tmp_path / name, "dog/b.jpg", "dog/a.jpg", "cat/c.jpg")
        source = image_folder("own", "Own images", find_images(root))
        indexes.append(open_source(source, root, [ALL]).table)
    assert indexes[0].equals(indexes[1])
    assert indexes[0]["source_id"].to_pylist() == ["cat/c.jpg", "dog/a.jpg", "dog/b.jpg"]


def test_wnids_are_named(tmp_path):
    row = tables.imagenet1k()[7]
    source = image_folder("own", "Own images", find_images(tree(tmp_path, f"{row.wnid}/a.jpg", "mine/b.jpg")))
    assert source.classes() == {"mine": "mine", row.wnid: row.name}


@pytest.mark.parametrize(
    ("paths", "words"),
    [
        ([], ("no image", "Give another folder")),
        (["notes.txt"], ("no image", "Give another folder")),
        (["dog/a.jpg", "cat/notes.txt"], ("class folder", "cat", "no image", "remove it")),
        (["dog/a.jpg", "loose.jpg"], ("beside its class folders", "loose.jpg", "or remove it")),
        (["train/dog/a.jpg", "val/dog/b.jpg", "valid/dog/c.jpg"], ("validation images twice", "val and valid")),
        (["caf\u00e9/a.jpg", "cafe\u0301/b.jpg"], ("class under two names", "(caf\\xe9)", "differ in encoding alone")),
        (["cat/a.jpg", "\uff43\uff41\uff54/b.jpg"], ("cat (cat) and", "(\\uff43\\uff41\\uff54) differ in encoding")),
        (["train/caf\u00e9/a.jpg", "test/cafe\u0301/b.jpg"], ("two names", "differ in encoding alone", "one name")),
        (["train/Caf\u00e9/a.jpg", "test/cafe\u0301/b.jpg"], ("two names", "differ in case and encoding alone")),
        (["train/Dog/a.jpg", "test/dog/b.jpg"], ("two names: Dog and dog differ in case alone", "Give its folders")),
        (["dog\x1b[2J/a.jpg"], ("does not print", "\\x1b[2J", "Rename it")),
    ],
)
def test_other_folders_are_refused(tmp_path, paths, words):
    with pytest.raises(BuildError) as caught:
        find_images(tree(tmp_path, *paths))
    assert printable(str(caught.value)) == str(caught.value)
    for word in (str(tmp_path), *words):
        assert word in str(caught.value)


def test_a_link_to_a_folder_is_refused_and_a_missing_folder_too(tmp_path):
    root = tree(tmp_path / "root", "dog/a.jpg")
    (root / "cat").symlink_to(tree(tmp_path / "cats", "b.jpg"))
    with stops(BuildError):
        find_images(root)
    with stops(BuildError):
        find_images(tmp_path / "absent")


@pytest.mark.parametrize(
    ("home", "flat"), [("dog", ""), ("train/dog/deep", ""), (".", "near_ood")], ids=["class", "partition", "flat"]
)
def test_images_that_are_links_are_refused_like_folders(home, flat, tmp_path):
    """Wherever they lead: to a picture of another folder, to one of this folder, or nowhere."""
    root = tree(tmp_path / "root", f"{home}/a.jpg")
    elsewhere = tree(tmp_path / "private", "holiday.jpg") / "holiday.jpg"
    for name, target in (("b.jpg", elsewhere), ("c.PNG", root / home / "a.jpg"), ("d.png", root / "absent")):
        (root / home / name).symlink_to(target)
    (root / home / "notes.txt").symlink_to(elsewhere)  # no image, so it is not read
    with stops(BuildError) as caught:
        find_images(root, flat)
    inside = "" if home == "." else f"{home}/"
    assert f"links: {inside}b.jpg, {inside}c.PNG, {inside}d.png. Links" in str(caught.value)
    for name in ("b.jpg", "c.PNG", "d.png"):
        (root / home / name).unlink()
    if not flat:
        (root / home / "more").symlink_to(elsewhere.parent)
        with pytest.raises(BuildError, match=f"are links: {inside}more"):
            find_images(root, flat)
        (root / home / "more").unlink()
    assert sum(map(len, find_images(root, flat).files.values())) == 1


def test_the_names_of_many_class_folders_are_looked_up_and_not_searched(tmp_path, monkeypatch):
    """By counting comparisons: 100,000 empty class folders took minutes of them before the first was named."""
    compared = 0

    class Name(str):
        __slots__ = ()
        __hash__ = str.__hash__

        def __eq__(self, other):
            nonlocal compared
            compared += 1
            return str.__eq__(self, other)

    names = [f"c{number:04d}" for number in range(1000)]
    for name in names:
        (tmp_path / name).mkdir()
    monkeypatch.setattr(
        "builders.sources.image_folder.child_names", lambda folder: [Name(name) for name in child_names(folder)]
    )
    with stops(BuildError, "c0000"):
        find_images(tmp_path)
    assert compared <= 10 * len(names)
