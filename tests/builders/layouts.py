"""Turn the demo's official trees into every other accepted layout."""

import csv
import functools
import io
import os
import shutil
import tarfile
import zipfile

from taxonomy import tables
from tests.builders import broad_layouts, cifar_layouts, circulating, facets_layouts
from tests.builders.trees import (
    add,
    also,
    archive_of,
    changed,
    inside_of,
    link,
    moved,
    packed,
    tree,
    write_shards,
    write_tar,
)

KIT = "ILSVRC2012_devkit_t12"


def one_level_up(source, root):
    """The root named one folder too high; files are links, as no folder that is one is searched."""
    shutil.copytree(source, root / "copy of a copy", copy_function=os.link)
    return root


@functools.cache
def wnid_ids():
    """The devkit's class numbers: 1 to 1000, in another order than the wnids."""
    return {row.wnid: row.kit_number for row in tables.imagenet1k()}


def val_images(imagenet):
    """The demo's validation images: (number, wnid, path), by number."""
    paths = (imagenet / "val").glob("*/*.JPEG")
    return sorted((int(path.stem[-8:]), path.parent.name, path) for path in paths)


def devkit_files(imagenet):
    """The file of the devkit that matters, as {path: bytes}."""
    lines = "".join(f"{wnid_ids()[wnid]}\n" for _, wnid, _ in val_images(imagenet))
    return {f"{KIT}/data/ILSVRC2012_validation_ground_truth.txt": lines.encode()}


def flat_val(imagenet, folder):
    """The validation images in one folder."""
    folder.mkdir(parents=True)
    for _, _, path in val_images(imagenet):
        os.link(path, folder / path.name)


def imagenet_flat(imagenet, root):
    """Flat validation images, the devkit in the root."""
    link(imagenet / "train", root / "train")
    flat_val(imagenet, root / "val")
    return tree(root, devkit_files(imagenet))


def imagenet_flat_kit_archive(imagenet, root):
    """Flat validation images, the packed devkit beside the root."""
    (root / "data").mkdir(parents=True)
    link(imagenet / "train", root / "data" / "train")
    flat_val(imagenet, root / "data" / "val")
    with tarfile.open(root / f"{KIT}.tar.gz", "w:gz") as archive:
        for name, content in devkit_files(imagenet).items():
            add(archive, name, content)
    return root / "data"


def imagenet_kaggle(imagenet, root):
    """The folders of the Kaggle competition."""
    data = root / "ILSVRC" / "Data" / "CLS-LOC"
    link(imagenet / "train", data / "train")
    flat_val(imagenet, data / "val")
    with (root / "LOC_val_solution.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["ImageId", "PredictionString"])
        for _, wnid, path in reversed(val_images(imagenet)):
            writer.writerow([path.stem, f"{wnid} 85 1 499 272 {wnid} 1 2 3 4 "])
    return root


def imagenet_kaggle_inside(imagenet, root):
    """The same, with the innermost folder given."""
    return imagenet_kaggle(imagenet, root) / "ILSVRC" / "Data" / "CLS-LOC"


def class_tar(folder, form=tarfile.GNU_FORMAT):
    """The tar of one class folder's images."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=form) as archive:
        for path in sorted(folder.glob("*.JPEG"), reverse=True):
            add(archive, path.name, path.read_bytes())
    return buffer.getvalue()


def imagenet_archives(imagenet, root):
    """The original archives: a tar of tars, a flat tar and the devkit."""
    tree(root, devkit_files(imagenet))
    with tarfile.open(root / "ILSVRC2012_img_train.tar", "w", format=tarfile.GNU_FORMAT) as archive:
        for folder in sorted((imagenet / "train").iterdir()):
            # A pax header in one class and a path in another: those go to tarfile.
            form = tarfile.PAX_FORMAT if folder.name.endswith("0") else tarfile.USTAR_FORMAT
            add(archive, f"{folder.name}.tar", class_tar(folder, form), mtime=1.5 if folder.name.endswith("4") else 1)
    with tarfile.open(root / "ILSVRC2012_img_val.tar", "w", format=tarfile.USTAR_FORMAT) as archive:
        for _, _, path in val_images(imagenet):
            add(archive, f"./{path.name}", path.read_bytes())
    return root


def imagenet_mixed(imagenet, root):
    """Validation images in class folders, training images still packed."""
    imagenet_archives(imagenet, root)
    link(imagenet / "val", root / "val")
    return root


def imagenet_parquet(imagenet, root):
    """The Hub's mirror: the wnid at the end of each name, labels by wnid."""
    wnids = [row.wnid for row in tables.imagenet1k()]
    for split, folder in (("train", "train"), ("validation", "val")):
        paths = sorted((imagenet / folder).glob("*/*.JPEG"))
        rows = [(f"{p.stem}_{p.parent.name}.JPEG", wnids.index(p.parent.name), p.read_bytes()) for p in paths]
        write_shards(root / "data", split, rows, wnids)
    return root


food101_inside = inside_of("food101", "", "food-101", "images")


def food101_parquet(food101, root, names=None):
    """The Hub's mirror; `names` in the order of the label numbers."""
    names = list(names or tables.food101())
    for split, listing in (("train", "train.txt"), ("validation", "test.txt")):
        ids = (food101 / "meta" / listing).read_text().split()
        rows = [
            (f"{i.split('/')[1]}.jpg", names.index(i.split("/")[0]), (food101 / "images" / f"{i}.jpg").read_bytes())
            for i in ids
        ]
        write_shards(root / "data", split, rows, names)
    return root


def food101_parquet_swapped(food101, root):
    """The mirror that numbers cheesecake before cheese_plate."""
    names = list(tables.food101())
    a, b = names.index("cheese_plate"), names.index("cheesecake")
    names[a], names[b] = names[b], names[a]
    return food101_parquet(food101, root, names)


caltech256_inside = inside_of("caltech256", "", "caltech256", "256_ObjectCategories")


food101_archive = archive_of("food101", "", "food-101.tar.gz", "w:gz", "food-101")
caltech256_archive = archive_of("caltech256", "256_ObjectCategories", "256_ObjectCategories.tar", "w")
dtd_archive = archive_of("dtd", "", "dtd-r1.0.1.tar.gz", "w:gz", "dtd")


def places365_easy(places365, root):
    """The easy format: one folder a class, named without inner folders."""
    labels = dict(line.split() for line in (places365 / "places365_val.txt").read_text().splitlines())
    for row in tables.places365():
        name = row.name.replace("/", "-")
        link(places365 / "data_256" / row.category[1:], root / "places365_standard" / "train" / name)
        (root / "places365_standard" / "val" / name).mkdir(parents=True)
    for file, label in labels.items():
        name = tables.places365()[int(label)].name.replace("/", "-")
        os.link(places365 / "val_256" / file, root / "places365_standard" / "val" / name / file)
    return root


def places365_torchvision(places365, root, size="256"):
    """The names that torchvision gives the folders, and the lists in the folder of their archive."""
    link(places365 / "data_256", root / f"data_{size}_standard")
    link(places365 / "val_256", root / f"val_{size}")
    for path in sorted(places365.glob("*places365*.txt")):
        tree(root, {f"filelist_places365-standard/{path.name}": path.read_bytes()})
    return root


def places365_packed(places365, root):
    """The validation images and the lists in the owners' tars."""
    link(places365 / "data_256", root / "data_256")
    packed(places365 / "val_256", root / "val_256.tar", "w")
    lists = {path.name: path.read_bytes() for path in sorted(places365.glob("*places365*.txt"))}
    write_tar(root / "filelist_places365-standard.tar", lists)
    return root


# The large edition; the demo's small images stand in for its.
places365_large = changed("places365_large", places365_torchvision, "large")


ninco_archive = archive_of("ninco", "NINCO", "NINCO_all.tar.gz", "w:gz")


def ninco_openood(ninco, root):
    """OpenOOD's tree, in which no name has a space."""
    for path in (ninco / "NINCO" / "NINCO_OOD_classes").glob("*/*_*_*.*"):
        name = f"{path.parent.name}/{path.name}".replace(" ", "_")
        also(path, root / "images_largescale" / "ninco" / name)
    return root


imagenet_v2_archive = archive_of(  # a tar under the name of a compressed one
    "imagenet_v2", "imagenetv2-matched-frequency-format-val", "imagenetv2-matched-frequency.tar.gz", "w"
)


imagenet_v2_openood = moved(
    "imagenet_v2_openood", (r"imagenetv2-matched-frequency-format-val/(.*)", r"images_largescale/imagenet_v2/\1")
)


imagenet_r_archive = archive_of("imagenet_r", "imagenet-r", "imagenet-r.tar", "w")


imagenet_r_openood = moved("imagenet_r_openood", (r"imagenet-r/(.*)", r"images_largescale/imagenet_r/\1"))


def imagenet21k_tars(imagenet21k, root):
    """A tar for each class, as the archives unpack."""
    (root / "fall11_whole").mkdir(parents=True)
    for folder in sorted(imagenet21k.glob("n*")):
        (root / "fall11_whole" / f"{folder.name}.tar").write_bytes(class_tar(folder))
    return root


def imagenet21k_archive(imagenet21k, root):
    """The archive of 2011 itself."""
    root.mkdir()
    files = {f"{folder.name}.tar": class_tar(folder) for folder in sorted(imagenet21k.glob("n*"), reverse=True)}
    write_tar(root / "fall11_whole.tar", files)
    return root


CORRUPTIONS = {
    "noise": ("gaussian_noise", "shot_noise", "impulse_noise"),
    "blur": ("defocus_blur", "glass_blur", "motion_blur", "zoom_blur"),
    "weather": ("snow", "frost", "fog", "brightness"),
    "digital": ("contrast", "elastic_transform", "pixelate", "jpeg_compression"),
}


def imagenet_c_archives(imagenet_c, root):
    """The archives as downloaded."""
    root.mkdir()
    for group, kinds in CORRUPTIONS.items():
        paths = [path for kind in kinds for path in sorted((imagenet_c / kind).rglob("*.JPEG"))]
        write_tar(
            root / f"{group}.tar", {path.relative_to(imagenet_c).as_posix(): path.read_bytes() for path in paths}
        )
    return root


def imagenet_c_grouped(imagenet_c, root):
    """The archives, each unpacked in a folder of its own name."""
    for group, kinds in CORRUPTIONS.items():
        for kind in kinds:
            link(imagenet_c / kind, root / group / kind)
    return root


imagenet_c_openood = moved(  # without folders of classes
    "imagenet_c_openood", (r"(\w+/\d)/\w+/(.*\.JPEG)", r"images_largescale/imagenet_c/\1/\2")
)


TINY = "tiny-imagenet-200"


def zipped(key, folder):
    """How a folder of a demo is packed as its owner's zip, which has entries for folders, too."""

    def pack(demo, root):
        root.mkdir()
        with zipfile.ZipFile(root / f"{folder}.zip", "w", zipfile.ZIP_DEFLATED) as archive:
            for path in sorted((demo / folder).rglob("*"), key=lambda path: path.name[::-1]):
                archive.write(path, path.relative_to(demo).as_posix())
        return root

    pack.__name__ = f"{key}_archive"
    return pack


tiny_imagenet_archive = zipped("tiny_imagenet", TINY)


def tiny_imagenet_sorted(tiny_imagenet, root, inner=""):
    """Validation images in class folders, as scripts leave them for ImageFolder."""
    link(tiny_imagenet / TINY / "train", root / "train")
    for line in (tiny_imagenet / TINY / "val" / "val_annotations.txt").read_text().splitlines():
        name, wnid = line.split("\t")[:2]
        also(tiny_imagenet / TINY / "val" / "images" / name, root / "val" / wnid / inner / name)
    return root


tiny_imagenet_sorted_deeper = changed("tiny_imagenet_sorted_deeper", tiny_imagenet_sorted, "images")


# OpenOOD's images_classic/tin has no list; some copies have no images/ in class folders.
tiny_imagenet_openood = moved(
    "tiny_imagenet_openood",
    (rf"{TINY}/train/(n\d+)/images/(.*JPEG)", r"images_classic/tin/train/\1/\2"),
    (rf"{TINY}/val/images/(.*JPEG)", r"images_classic/tin/val/images/\1"),
)


def tiny_imagenet_parquet(tiny_imagenet, root):
    """A Hub mirror that keeps the file names."""
    wnids = list(tables.tiny_imagenet200())
    rows = {"train": [], "valid": []}
    for path in sorted((tiny_imagenet / TINY / "train").glob("*/images/*.JPEG")):
        rows["train"].append((path.name, wnids.index(path.parent.parent.name), path.read_bytes()))
    for path in sorted((tiny_imagenet / TINY / "val" / "images").glob("*.JPEG")):
        rows["valid"].append((path.name, 0, path.read_bytes()))
    for split, found in rows.items():
        write_shards(root / "data", split, found, wnids)
    return root


imagenet_es_archive = zipped("imagenet_es", "ImageNet-ES")
imagenet_es_inside = inside_of("imagenet_es", "ImageNet-ES/es-test", "es-test")
imagenet_es_openood = moved("imagenet_es_openood", (r"ImageNet-ES/(.*)", r"images_largescale/imagenet_es/\1"))


cub200_archive = archive_of("cub200", "CUB_200_2011", "CUB_200_2011.tgz", "w:gz")
cub200_tar = archive_of("cub200_tar", "CUB_200_2011", "CUB_200_2011.tar", "w")
cub200_inside = inside_of("cub200", "CUB_200_2011/images", "birds")


fgvc_aircraft_archive = archive_of("fgvc_aircraft", "fgvc-aircraft-2013b", "fgvc-aircraft-2013b.tar.gz", "w:gz")
fgvc_aircraft_inside = inside_of("fgvc_aircraft", "fgvc-aircraft-2013b/data/images", "aircraft")


mos_sun_archive = archive_of("mos_sun", "SUN", "SUN.tar.gz", "w:gz")
mos_sun_tar = archive_of("mos_sun_tar", "SUN", "SUN.tar", "w")


LAYOUTS = {
    "imagenet": (
        one_level_up,
        imagenet_flat,
        imagenet_flat_kit_archive,
        imagenet_kaggle,
        imagenet_kaggle_inside,
        imagenet_archives,
        imagenet_mixed,
        imagenet_parquet,
        *circulating.IMAGENET,
    ),
    "food101": (
        one_level_up,
        food101_inside,
        food101_archive,
        food101_parquet,
        food101_parquet_swapped,
        *circulating.FOOD101,
    ),
    "caltech256": (one_level_up, caltech256_inside, caltech256_archive, *circulating.CALTECH256),
    "places365": (
        one_level_up,
        places365_easy,
        places365_torchvision,
        places365_large,
        places365_packed,
        *circulating.PLACES365,
    ),
    "cifar100": (one_level_up, *cifar_layouts.CIFAR100),
    "cifar10": (one_level_up, *cifar_layouts.CIFAR10),
    "mnist": (one_level_up, *cifar_layouts.MNIST),
    "svhn": (one_level_up, *cifar_layouts.SVHN),
    "lsun": (one_level_up, *cifar_layouts.LSUN),
    "lsun_fix": (one_level_up, *cifar_layouts.LSUN_FIX),
    "dtd": (one_level_up, dtd_archive, *cifar_layouts.DTD, *circulating.DTD),
    "sun397": (one_level_up, *facets_layouts.SUN397),
    "svhn_full": (one_level_up, *facets_layouts.SVHN_FULL, *circulating.SVHN_FULL),
    "inaturalist": (one_level_up, *broad_layouts.INATURALIST),
    "imagenet_o": (one_level_up, *broad_layouts.IMAGENET_O),
    "openimage_o": (one_level_up, *broad_layouts.OPENIMAGE_O),
    "coco2017": (one_level_up, *broad_layouts.COCO2017),
    "partial_broad": (one_level_up, *broad_layouts.PARTIAL_BROAD),
    "ninco": (one_level_up, ninco_archive, ninco_openood),
    "imagenet_v2": (one_level_up, imagenet_v2_archive, imagenet_v2_openood),
    "imagenet_r": (one_level_up, imagenet_r_archive, imagenet_r_openood),
    "imagenet21k": (imagenet21k_tars, imagenet21k_archive),
    "imagenet_c": (one_level_up, imagenet_c_archives, imagenet_c_grouped, imagenet_c_openood),
    "tiny_imagenet": (
        one_level_up,
        tiny_imagenet_archive,
        tiny_imagenet_sorted,
        tiny_imagenet_sorted_deeper,
        tiny_imagenet_openood,
        tiny_imagenet_parquet,
    ),
    "imagenet_es": (one_level_up, imagenet_es_archive, imagenet_es_inside, imagenet_es_openood),
    "cub200": (one_level_up, cub200_archive, cub200_tar, cub200_inside),
    "fgvc_aircraft": (one_level_up, fgvc_aircraft_archive, fgvc_aircraft_inside),
    "mos_sun": (one_level_up, mos_sun_archive, mos_sun_tar),
}
