"""Turn the demo's SUN397 and SVHN full numbers into every other accepted layout."""

from datasets import ClassLabel, Image, Sequence, Value

from taxonomy import tables
from tests.builders.trees import also, archive_of, inside_of, link, moved, packed, write_shards, write_table


def sun397_images(sun397):
    """The demo's images: (category, path)."""
    folder = sun397 / "SUN397"
    return [
        (row.category, path) for row in tables.sun397() for path in sorted(folder.glob(f"{row.category[1:]}/sun_*"))
    ]


sun397_inside = inside_of("sun397", "", "sun", "SUN397")


# The folders of the letters alone: mirrors leave ClassName.txt out.
sun397_without_the_list = moved("sun397_without_the_list", (r"(SUN397/[a-z]/.*)", r"\1"))


sun397_archive = archive_of("sun397", "SUN397", "SUN397.tar.gz", "w:gz")
sun397_tar = archive_of("sun397_tar", "SUN397", "SUN397.tar", "w")  # of the other server, which is not compressed


def sun397_divided(sun397, root, folders, spell):
    """A mirror's class folders side by side; every other image of a class in another folder."""
    for place, (category, path) in enumerate(sun397_images(sun397)):
        also(path, root / folders[place % len(folders)] / spell(category) / path.name)
    return root


def sun397_kaggle(sun397, root):
    """Each archive unpacked in a folder of its own name, categories with their letter."""
    return sun397_divided(sun397, root, ("train/train", "test/test"), lambda name: name[1:].replace("/", "_"))


def sun397_train_val(sun397, root):
    """Categories without their letter, as in an image folder."""
    return sun397_divided(sun397, root, ("train", "val"), lambda name: name[3:].replace("/", "-"))


def sun397_divided_tree(sun397, root):
    """Each part as in the archive."""
    return sun397_divided(sun397, root, ("train", "test"), lambda name: name[1:])


def sun397_parquet(sun397, root, splits=("train",), spell=lambda name: name):
    """A mirror on the Hub; `spell` says what it calls the categories."""
    names = [spell(row.category) for row in tables.sun397()]
    rows = [(path.name, names.index(spell(category)), path.read_bytes()) for category, path in sun397_images(sun397)]
    for number, split in enumerate(splits):
        write_shards(root / "data", split, rows[number :: len(splits)], names)
    return root


def sun397_parquet_two_splits(sun397, root):
    """The mirror that divides the images and writes the names as plain words."""
    return sun397_parquet(sun397, root, ("train", "test"), lambda name: name[3:].replace("/", " ").replace("_", " "))


def svhn_full_archives(svhn_full, root):
    """The archives as downloaded."""
    root.mkdir(exist_ok=True)
    for partition in ("train", "test"):
        packed(svhn_full / partition, root / f"{partition}.tar.gz", "w:gz")
    return root


def svhn_full_mixed(svhn_full, root):
    """One archive unpacked, the other gunzipped."""
    root.mkdir(exist_ok=True)
    link(svhn_full / "train", root / "train")
    packed(svhn_full / "test", root / "test.tar", "w")
    return root


def svhn_full_parquet(svhn_full, root):
    """The Hub's copy: names as in the archives, in the archives' order, and a column of digits."""
    digits = {"bbox": Sequence(Value("int32"), length=4), "label": ClassLabel(names=list("0123456789"))}
    for partition in ("train", "test"):
        paths = sorted((svhn_full / partition).glob("*.png"), key=lambda path: path.name[::-1])
        columns = {
            "image": [{"bytes": path.read_bytes(), "path": path.name} for path in paths],
            "digits": [{"bbox": [[1, 2, 3, 4]], "label": [7]} for _ in paths],
        }
        path = root / "full_numbers" / f"{partition}-00000-of-00001.parquet"
        write_table(path, {"image": Image(), "digits": Sequence(digits)}, columns, row_group_size=10)
    return root


SUN397 = (
    sun397_inside,
    sun397_without_the_list,
    sun397_archive,
    sun397_tar,
    sun397_kaggle,
    sun397_train_val,
    sun397_divided_tree,
    sun397_parquet,
    sun397_parquet_two_splits,
)
SVHN_FULL = (svhn_full_archives, svhn_full_mixed, svhn_full_parquet)
