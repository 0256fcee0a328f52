"""Turn the demo's sets of novel classes and its COCO into every other accepted layout."""

import random

import pyarrow as pa
import pyarrow.parquet as pq

from tests.builders.circulating import write_named
from tests.builders.trees import also, archive_of, changed, link, moved, packed, write_parquet


def imagenet_o_images(imagenet_o):
    """The demo's images, in the order of a listing."""
    return sorted((imagenet_o / "imagenet-o").glob("*/*.JPEG"))


# The folder of the folders given, with none of the owners' texts in it.
imagenet_o_inside = moved("imagenet_o_inside", (r"imagenet-o/(.+/.+\.JPEG)", r"test/\1"), given="test")


imagenet_o_archive = archive_of("imagenet_o", "imagenet-o", "imagenet-o.tar", "w")


def imagenet_o_converted(imagenet_o, root):
    """The branch refs/convert/parquet of cais/imagenet-o: names without folders, and these as the labels' names."""
    paths = imagenet_o_images(imagenet_o)
    wnids = sorted({path.parent.name for path in paths})
    rows = [(path.name, wnids.index(path.parent.name), path.read_bytes()) for path in reversed(paths)]
    write_parquet(root / "default" / "test" / "0000.parquet", rows, wnids)
    return root


# The images alone, in the folder given.
inaturalist_bare = moved("inaturalist_bare", (r"iNaturalist/images/(.*\.jpg)", r"\1"))


inaturalist_archive = archive_of("inaturalist", "iNaturalist", "iNaturalist.tar.gz", "w:gz")
inaturalist_tar = archive_of("inaturalist_tar", "iNaturalist", "iNaturalist.tar", "w")


def named_rows(folder):
    """Rows of a mirror that kept the file names, in another order."""
    return [(path.name, path.read_bytes()) for path in sorted(folder.glob("[0-9a-f]*.jpg"), reverse=True)]


def inaturalist_mirror(inaturalist, root):
    """A mirror on the Hub with a column of file names."""
    rows = named_rows(inaturalist / "iNaturalist" / "images")
    for shard in range(2):
        path = root / "data" / f"test-{shard:05d}-of-00002.parquet"
        write_named(path, [(f"images/{name}", content) for name, content in rows[shard::2]], "filename")
    return root


OPENOOD_IMAGES = "images_largescale/openimage_o/images"
OPENOOD_LISTS = "benchmark_imglist/imagenet"


def openimage_o_beside(openimage_o, root):
    """The images with the lists beside them, bare names as in ViM's list."""
    for path in sorted((openimage_o / OPENOOD_IMAGES).glob("[0-9a-f]*.jpg")):
        also(path, root / path.name)
    for path in sorted((openimage_o / OPENOOD_LISTS).glob("*.txt")):
        names = [line.split()[0].rpartition("/")[2] for line in path.read_text(encoding="utf-8").splitlines()]
        (root / path.name).write_text("\n".join([*reversed(names), ""]), encoding="utf-8")
    return root


openimage_o_inside = moved(  # OpenOOD's tree with the innermost folder given; the lists lie three folders above
    "openimage_o_inside",
    (rf"({OPENOOD_IMAGES}/[0-9a-f]+\.jpg)", r"data/\1"),
    (rf"{OPENOOD_LISTS}/(.*\.txt)", r"data/benchmark_imglist/imagenet200/\1"),
    given=f"data/{OPENOOD_IMAGES}",
)


def openimage_o_archive(openimage_o, root):
    """An archive of the folder, and the lists in a folder named as ViM's."""
    root.mkdir(exist_ok=True)
    packed(openimage_o / "images_largescale" / "openimage_o", root / "openimage_o.tar.gz", "w:gz")
    for path in sorted((openimage_o / OPENOOD_LISTS).glob("*.txt")):
        also(path, root / "datalists" / path.name)
    return root


def openimage_o_mirror(openimage_o, root):
    """A mirror as the Hub converts one, in `image.path`."""
    write_named(root / "default" / "test" / "0000.parquet", named_rows(openimage_o / OPENOOD_IMAGES), None)
    for path in sorted((openimage_o / OPENOOD_LISTS).glob("*.txt")):
        also(path, root / path.name)
    return root


INATURALIST = (inaturalist_bare, inaturalist_archive, inaturalist_tar, inaturalist_mirror)
OPENIMAGE_O = (openimage_o_beside, openimage_o_inside, openimage_o_archive, openimage_o_mirror)


def partial_broad_converted(partial_broad, root):
    """The branch refs/convert/parquet, in several files where a partition is large."""
    for path in sorted((partial_broad / "data").glob("*.parquet")):
        table = pq.read_table(path)
        folder = root / "default" / path.name.partition("-")[0]
        folder.mkdir(parents=True)
        for number, first in enumerate(range(0, table.num_rows, 600)):
            pq.write_table(table.slice(first, 600), folder / f"{number:04d}.parquet")
    return root


PARTIAL_BROAD = (partial_broad_converted,)
IMAGENET_O = (imagenet_o_inside, imagenet_o_archive, imagenet_o_converted)


def coco2017_images(coco2017):
    """The demo's images, in the order of a listing."""
    return sorted((coco2017 / "train2017").glob("*.jpg"))


coco2017_in_images = moved(  # Ultralytics's folders: the images in one of their own
    "coco2017_in_images", (r"(train2017/.*)", r"images/\1"), (r"(annotations/.*)", r"\1")
)


coco2017_loose = moved(  # the annotations beside the folder of images
    "coco2017_loose", (r"(train2017/.*)", r"\1"), (r"annotations/(instances_train2017\.json)", r"\1")
)


def coco2017_archive(coco2017, root, ending="tar", mode="w"):
    """A tar of the folder."""
    root.mkdir(exist_ok=True)
    packed(coco2017 / "train2017", root / f"train2017.{ending}", mode)
    link(coco2017 / "annotations", root / "annotations")
    return root


coco2017_compressed = changed("coco2017_compressed", coco2017_archive, "tar.gz", "w:gz")


def coco2017_parquet(coco2017, root):
    """A mirror like detection-datasets/coco: only annotated images, in another order, each with its number."""
    paths = random.Random(0).sample(images := coco2017_images(coco2017), len(images))
    (root / "data").mkdir(parents=True)
    for shard in range(2):
        shard_paths = paths[shard::2]
        table = pa.table(
            {
                "image_id": pa.array([int(path.stem) for path in shard_paths], pa.int64()),
                "image": [{"bytes": path.read_bytes(), "path": None} for path in shard_paths],
            }
        )
        pq.write_table(table, root / "data" / f"train-{shard:05d}-of-00002-{'ab' * 8}.parquet", row_group_size=20)
    link(coco2017 / "annotations", root / "annotations")
    return root


COCO2017 = (coco2017_in_images, coco2017_loose, coco2017_archive, coco2017_compressed, coco2017_parquet)
