"""Turn the demo's official trees into the layouts of mirrors, converters and other nestings that are in circulation.

The Hub's pages state columns, splits and row counts of the mirrors that are named here, and no row of them was seen.
What their file names look like is assumed: those of the owners, with or without folders before them.
"""

import tarfile

from datasets import ClassLabel, Image, Value

from taxonomy import tables
from tests.builders.trees import add, also, changed, moved, write_parquet, write_table

WNIDS = [row.wnid for row in tables.imagenet1k()]


def imagenet_images(imagenet, folder):
    """The demo's images of a partition: (wnid, path)."""
    return sorted((path.parent.name, path) for path in (imagenet / folder).glob("*/*.JPEG"))


def suffixed(wnid, path):
    """A name as the Hub's archives and Parquet files have it."""
    return f"{path.stem}_{wnid}.JPEG"


imagenet_suffixed_folders = moved(  # converted copies: names with their class, in the folders of the archives' names
    "imagenet_suffixed_folders",
    (r"train/(\w+)/(\w+)\.JPEG", r"ILSVRC2012_img_train/\1/\2_\1.JPEG"),
    (r"val/(\w+)/(\w+)\.JPEG", r"validation/\1/\2_\1.JPEG"),
)


def imagenet_class_archives(imagenet, root):
    """The training archive unpacked once, and flat validation images whose names have the class: no devkit."""
    (root / "train").mkdir(parents=True)
    for wnid in WNIDS:
        with tarfile.open(root / "train" / f"{wnid}.tar", "w") as archive:
            for path in sorted((imagenet / "train" / wnid).glob("*.JPEG")):
                add(archive, path.name, path.read_bytes())
    for wnid, path in imagenet_images(imagenet, "val"):
        also(path, root / "ILSVRC2012_img_val" / suffixed(wnid, path))
    return root


def imagenet_flat_train(imagenet, root):
    """All training images in one folder, every other one with its class twice, and a validation archive with it."""
    for number, (wnid, path) in enumerate(imagenet_images(imagenet, "train")):
        also(path, root / "train" / (suffixed(wnid, path) if number % 2 else path.name))
    with tarfile.open(root / "ILSVRC2012_img_val.tar", "w") as archive:
        for wnid, path in imagenet_images(imagenet, "val"):
            add(archive, f"val/{suffixed(wnid, path)}", path.read_bytes())
    return root


def imagenet_rows(imagenet, folder, name=suffixed):
    """Rows of a mirror of one partition."""
    return [(name(w, path), WNIDS.index(w), path.read_bytes()) for w, path in imagenet_images(imagenet, folder)]


def imagenet_converted(imagenet, root):
    """The branch refs/convert/parquet of ILSVRC/imagenet-1k, whose training split is too large to convert whole."""
    for split, folder in (("partial-train", "train"), ("validation", "val")):
        write_parquet(root / "default" / split / "0000.parquet", imagenet_rows(imagenet, folder), WNIDS)
    return root


def imagenet_two_mirrors(imagenet, root):
    """mrm8488/ImageNet1K-train and -val, whose splits are both named train, in a folder of snapshots each."""
    names = {"train": lambda _, path: f"/data/imagenet/{path.name}", "val": suffixed}
    for folder, name in names.items():
        place_of = root / f"datasets--mrm8488--ImageNet1K-{folder}" / "snapshots" / "0a1b2c" / "data"
        write_parquet(place_of / "train-00000-of-00001.parquet", imagenet_rows(imagenet, folder, name), WNIDS)
    return root


# The archive unpacked in a folder of its name, twice.
food101_thrice = moved("food101_thrice", (r"(.+/.+)", r"food-101/food-101/food-101/\1"))


# Kaggle's copy.
caltech256_nested = moved("caltech256_nested", (r"(.+/.+/.+\.jpg)", r"256_objectcategories/\1"))


def write_named(path, rows, column):
    """Write (file name, bytes) rows as bitmind's mirrors have them; in `image.path` where no column is named."""
    features = {"image": Image()} | ({column: Value("string")} if column else {})
    columns = {"image": [{"bytes": content, "path": None if column else name} for name, content in rows]}
    write_table(path, features, columns | ({column: [name for name, _ in rows]} if column else {}))


def caltech256_rows(caltech256, name):
    """The demo's images in rows, each under the name that a function gives its path."""
    paths = sorted((caltech256 / "256_ObjectCategories").glob("*/[0-9][0-9][0-9]_[0-9][0-9][0-9][0-9].jpg"))
    return [(name(path), path.read_bytes()) for path in paths]


def caltech256_bitmind(caltech256, root):
    """bitmind/caltech-256: the columns image and filename."""
    rows = caltech256_rows(caltech256, lambda path: path.name)
    write_named(root / "data" / "train-00000-of-00001.parquet", rows, "filename")
    return root


def caltech256_three_splits(caltech256, root):
    """A mirror of three splits as the Hub converts it, with folders in its file names."""
    rows = caltech256_rows(caltech256, lambda path: f"256_ObjectCategories/{path.parent.name}/{path.name}")
    for number, split in enumerate(("train", "validation", "test")):
        write_named(root / "default" / split / "0000.parquet", rows[number::3], None)
    return root


places365_archives = moved(  # each archive unpacked in a folder of its own name, and the lists beside them
    "places365_archives",
    (r"(data_256/.*)", r"train_256_places365standard/\1"),
    (r"(val_256/.*)", r"val_256/\1"),
    (r"(.*places365.*\.txt)", r"\1"),
)


def places365_rows(places365):
    """Training and validation images: (category's place, path as Andron00e's mirror may have it, bytes)."""
    names = [row.name.replace("/", "-") for row in tables.places365()]
    labels = dict(line.split() for line in (places365 / "places365_val.txt").read_text().splitlines())
    train = [
        (number, f"/places/train/{names[number]}/{path.name}", path.read_bytes())
        for number, row in enumerate(tables.places365())
        for path in sorted((places365 / "data_256" / row.category[1:]).glob("*.jpg"))
    ]
    val = [
        (int(label), f"/places/val/{names[int(label)]}/{name}", (places365 / "val_256" / name).read_bytes())
        for name, label in sorted(labels.items())
    ]
    return train, val


def write_places365(path, rows, names, order):
    """Write rows with the columns image, image_file_path and labels; `order` has the label of each category."""
    features = {"image": Image(), "image_file_path": Value("string"), "labels": ClassLabel(names=names)}
    columns = {
        "image": [{"bytes": content, "path": None} for _, _, content in rows],
        "image_file_path": [name for _, name, _ in rows],
        "labels": [order[number] for number, _, _ in rows],
    }
    write_table(path, features, columns)


def places365_custom(places365, root):
    """Andron00e/Places365-custom: both partitions in one split, in the folders' order of the easy format."""
    names = [row.name.replace("/", "-") for row in tables.places365()]
    train, val = places365_rows(places365)
    order = [sorted(names).index(name) for name in names]
    for shard, rows in enumerate((train + val)[start::2] for start in (0, 1)):
        write_places365(root / "data" / f"train-{shard:05d}-of-00002.parquet", rows, sorted(names), order)
    return root


def places365_two_mirrors(places365, root):
    """A mirror of the training images, and dpdl-benchmark/Places365-Validation with its split named train."""
    names = [row.category for row in tables.places365()]
    for folder, rows in zip(("custom-train", "Places365-Validation"), places365_rows(places365), strict=True):
        rows = [(name.rpartition("/")[2], number, content) for number, name, content in rows]
        write_parquet(root / folder / "data" / "train-00000-of-00001.parquet", rows, names)
    return root


# The folder above the archive's, unpacked in a folder of its name.
dtd_above = moved("dtd_above", (r"(images/.+/.+\.jpg)", r"dtd/dtd/\1"))


def dtd_bitmind(dtd, root, paths=("data/train-00000-of-00001.parquet",), column="filename", folders=False):
    """bitmind/dtd: the columns image and filename."""
    images = sorted((dtd / "images").glob("*/*.jpg"))
    rows = [(f"{p.parent.name}/{p.name}" if folders else p.name, p.read_bytes()) for p in images]
    for number, path in enumerate(paths):
        write_named(root / path, rows[number :: len(paths)], column)
    return root


# Three splits in files with a digest in their names, as `datasets` wrote them until 2.13; textures as folders.
OLD = [f"data/{split}-00000-of-00001-eee8c8792b78a841.parquet" for split in ("train", "validation", "test")]
dtd_old_names = changed("dtd_old_names", dtd_bitmind, OLD, None, folders=True)


# Each archive unpacked in a folder of its name.
svhn_full_nested = moved("svhn_full_nested", (r"((train|test)/.*)", r"\2/\1"))


IMAGENET = (
    imagenet_suffixed_folders,
    imagenet_class_archives,
    imagenet_flat_train,
    imagenet_converted,
    imagenet_two_mirrors,
)
FOOD101 = (food101_thrice,)
CALTECH256 = (caltech256_nested, caltech256_bitmind, caltech256_three_splits)
PLACES365 = (places365_archives, places365_custom, places365_two_mirrors)
DTD = (dtd_above, dtd_bitmind, dtd_old_names)
SVHN_FULL = (svhn_full_nested,)
