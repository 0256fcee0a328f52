"""The demos of sources with one image a file: names like the real ones, damaged images, lists and stray files.

Tested by `tests/builders/demo/test_write.py`.
"""

from __future__ import annotations

import collections
import itertools
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from PIL import Image

from builders.demo import coco2017, tiny_imagenet
from builders.demo.arrays import draw_digits
from builders.demo.images import DemoSource, Drawing, digest, draw_image, lines, mixed, numbers
from taxonomy import lists, tables


def _inside(folder: str, source_id: str, class_id: str) -> Drawing:
    """Return an image whose path is its id in a folder."""
    return Drawing(f"{folder}/{source_id}", source_id, class_id)


_IMAGENET_TROUBLES = {
    # The three training images lie where ImageNet has such images: a PNG and one of the 22 CMYK files, as listed in
    # tensorflow/datasets, imagenet2012_dataset_builder.py; an XMP packet that is not UTF-8, as reported in
    # python-pillow/Pillow #8957.
    "train/n02105855/n02105855_2933.JPEG": "png",
    "train/n01739381/n01739381_1309.JPEG": "cmyk",
    "train/n04532106/n04532106_1553.JPEG": "xmp-not-utf8",
    # Validation images of classes that are in-distribution in the ImageNet benchmark, so that a build meets them all.
    "val/n01443537/ILSVRC2012_val_00000001.JPEG": "cmyk",
    "val/n01629819/ILSVRC2012_val_00000002.JPEG": "png",
    "val/n01641577/ILSVRC2012_val_00000003.JPEG": "grayscale",
    "val/n01644900/ILSVRC2012_val_00000004.JPEG": "orientation",
    "val/n01698640/ILSVRC2012_val_00000005.JPEG": "exif-text-for-number",
    "val/n01742172/ILSVRC2012_val_00000006.JPEG": "exif-text-for-fraction",
}


def _imagenet() -> Iterator[Drawing]:
    wnids = [row.wnid for row in tables.imagenet1k()]
    fixed = {path.split("/")[1]: int(path[-9:-5]) for path in _IMAGENET_TROUBLES if path.startswith("train/")}
    for wnid in wnids:
        for number in numbers(wnid, 4, 31_000, [fixed[wnid]] if wnid in fixed else ()):
            path = f"train/{wnid}/{wnid}_{number}.JPEG"
            yield Drawing(path, path, wnid)
    troubled = [path.split("/")[1] for path in _IMAGENET_TROUBLES if path.startswith("val/")]
    other_wnids = [wnid for wnid in wnids for _ in range(2)]
    for wnid in troubled:
        other_wnids.remove(wnid)
    shuffled = mixed(((wnid, position) for position, wnid in enumerate(other_wnids)), "val")
    for number, wnid in enumerate([*troubled, *shuffled], start=1):
        name = f"ILSVRC2012_val_{number:08d}.JPEG"
        yield Drawing(f"val/{wnid}/{name}", f"val/{name}", wnid)


def _imagenet_v2() -> Iterator[Drawing]:
    for row in tables.imagenet1k():
        name = f"{row.index}/{digest('imagenet_v2', row.wnid).hex()[:40]}.jpeg"
        yield _inside("imagenetv2-matched-frequency-format-val", name, row.wnid)


def _imagenet_r() -> Iterator[Drawing]:
    for wnid, kind in itertools.product(lists.imagenet_r(), ("art", "sketch")):
        yield _inside("imagenet-r", f"{wnid}/{kind}_0.jpg", wnid)


def _imagenet_c() -> Iterator[Drawing]:
    """Of each class the first photograph that OpenOOD lists, in the folders of the archives."""
    listed = {name[-13:-5].lstrip("0"): name for name in lists.load_list("openood_imagenet_c")}
    for row in tables.read_csv_rows("imagenet_c.csv"):
        name = listed[row["images"].split()[0]]
        kind, _, file = name.rpartition("/")
        yield Drawing(f"{kind}/{row['wnid']}/{file}", name, row["wnid"])


def _imagenet_es() -> Iterator[Drawing]:
    """Of each class the first photograph, each in another light and setting."""
    for number, row in enumerate(tables.read_csv_rows("imagenet_es.csv")):
        name = f"{row['wnid']}/ILSVRC2012_val_{row['images'].split()[0]:0>8}.JPEG"
        for folder, times in (("param_control", 27), ("auto_exposure", 5)):
            path = f"{folder}/l{1 + number % 2 * 4}/param_{1 + number % times}/{name}"
            yield Drawing(f"ImageNet-ES/es-test/{path}", path, row["wnid"])


def _cub200() -> Iterator[Drawing]:
    """Of each class the first two test images, and of known classes the first two training images."""
    for row in tables.read_csv_rows("cub200.csv"):
        name = "_".join(word[:1].upper() + word[1:] for word in row["class"][4:].split("_"))
        for image in (*row["test"].split()[:2], *row["train"].split()[:2]):
            place, _, number = image.partition("_")
            path = f"{row['class']}/{name}_{place:0>4}_{number}.jpg"
            yield Drawing(f"CUB_200_2011/images/{path}", path, row["class"])


def _fgvc_aircraft() -> Iterator[Drawing]:
    """Of each variant the first two test images, and of known ones the first two training images."""
    for row in tables.read_csv_rows("fgvc_aircraft.csv"):
        for number in (*row["test"].split()[:2], *row["train"].split()[:2]):
            yield _inside("fgvc-aircraft-2013b/data/images", f"{number}.jpg", row["variant"])


def _imagenet_o() -> Iterator[Drawing]:
    """The 400 images that the authors of NINCO looked at, drawn like the class that the network took each for."""
    for image in tables.examined_images():
        if image.source == "imagenet_o":
            yield _inside("imagenet-o", image.source_id, image.source_id.partition("/")[0])


def _imagenet21k() -> Iterator[Drawing]:
    """Of each class the first image that a list has, under its real name."""
    for name in lists.OF_IMAGENET21K:  # 29 classes are in both lists, and have an image of each
        first: dict[str, str] = {}
        for path, wnid in lists.load_list(name).items():
            first.setdefault(wnid, path)
        for wnid, path in first.items():
            yield Drawing(path, path, wnid)


# The three images of the real archive that have one channel. They come on top of their class's images.
_FOOD_TROUBLES = ("bread_pudding/1375816", "lasagna/3787908", "steak/1340977")
_FOOD_TRAIN, _FOOD_TEST = 4, 2


def _food101() -> Iterator[Drawing]:
    for name in tables.food101():
        troubled = [int(path.partition("/")[2]) for path in _FOOD_TROUBLES if path.startswith(f"{name}/")]
        for number in sorted([*numbers(name, _FOOD_TRAIN + _FOOD_TEST, 4_000_000), *troubled]):
            yield _inside("images", f"{name}/{number}.jpg", name)


def _food101_lists(images: Sequence[Drawing]) -> dict[str, str]:
    names = tables.food101()
    train, test = [], []
    for _, of_class in itertools.groupby(images, key=lambda image: image.class_id):
        ids = [image.source_id.removesuffix(".jpg") for image in of_class]
        train += ids[:-_FOOD_TEST]
        test += ids[-_FOOD_TEST:]
    return {
        "meta/classes.txt": lines(names),
        "meta/labels.txt": lines(name.replace("_", " ").capitalize() for name in names),
        "meta/train.txt": lines(train),
        "meta/test.txt": lines(test),
    }


def _caltech256() -> Iterator[Drawing]:
    for row, number in itertools.product(tables.caltech256(), range(1, 5)):
        yield _inside("256_ObjectCategories", f"{row.folder}/{row.number:03d}_{number:04d}.jpg", row.folder)


_PLACES_VAL_LABELS = (165, 358, 93, 164, 289)
"""Labels of the first five validation images, as the real `places365_val.txt` has them."""


def _places365() -> Iterator[Drawing]:
    categories = [row.category for row in tables.places365()]
    for category, number in itertools.product(categories, range(1, 4)):
        name = f"{category}/{number:08d}.jpg"
        yield Drawing(f"data_256{name}", f"train{name}", category)
    shuffled = mixed(itertools.product(categories, range(3)), "places")
    for position, label in enumerate(_PLACES_VAL_LABELS):
        other = shuffled.index(categories[label], position)
        shuffled[position], shuffled[other] = shuffled[other], shuffled[position]
    for number, category in enumerate(shuffled, start=1):
        name = f"Places365_val_{number:08d}.jpg"
        yield Drawing(f"val_256/{name}", f"val/{name}", category)


def _places365_lists(images: Sequence[Drawing]) -> dict[str, str]:
    index = {row.category: row.index for row in tables.places365()}
    rows = [(image.source_id.partition("/"), index[image.class_id]) for image in images]
    return {
        "categories_places365.txt": lines(f"{category} {number}" for category, number in index.items()),
        "places365_train_standard.txt": lines(f"/{i[2]} {label}" for i, label in rows if i[0] == "train"),
        "places365_val.txt": lines(f"{i[2]} {label}" for i, label in rows if i[0] == "val"),
    }


def _lsun_fix() -> Iterator[Drawing]:
    """The first images of each scene, 32 x 32."""

    def draw(of_class: bytes, of_image: bytes) -> Image.Image:
        return draw_image(of_class, of_image).resize((32, 32), Image.Resampling.BOX)

    for scene, number in itertools.product(range(10), range(12)):
        name = f"correct_resize_{scene * 1_000 + number}.png"
        yield Drawing(f"LSUN_fix/{name}", name, str(scene), draw, "png")


def _dtd() -> Iterator[Drawing]:
    for name in tables.dtd():
        for number in numbers(name, 4, 250, (1,)):
            yield _inside("images", f"{name}/{name}_{number:04d}.jpg", name)


def _dtd_lists(images: Sequence[Drawing]) -> dict[str, str]:
    ids = [image.source_id for image in images]
    return {f"labels/{name}1.txt": lines(ids[start::3]) for start, name in enumerate(("train", "val", "test"))}


_SUN_TROUBLES = {
    # Four of the images that mmpretrain (datasets/sun397.py) lists as no JPEG. It does not say what they are instead;
    # these are the formats that tensorflow/datasets (sun.py) names. The two of the abbey are JPEGs like the rest.
    "SUN397/a/assembly_line/sun_ajckcfldgdrdjogj.jpg": "gif",
    "SUN397/a/auto_factory/sun_apfsprenzdnzbhmt.jpg": "png",
    "SUN397/b/bow_window/indoor/sun_ahsholsagvlrsboa.jpg": "png-with-alpha",
    "SUN397/b/baggage_claim/sun_avittiqqaiibgcau.jpg": "bmp",
    "SUN397/a/abbey/sun_aqswjsnjlrfzzhiz.jpg": "cmyk",
    "SUN397/a/abbey/sun_aaoktempcmudsvna.jpg": "grayscale",
    # Tags as reported in python-pillow/Pillow #6492, #6799 and #8965 and huggingface/datasets #8165.
    "SUN397/b/beach/sun_dnccaalmahhjmhfk.jpg": "exif-fraction-for-text",
    "SUN397/c/castle/sun_laprtwgeuidlueij.jpg": "exif-no-denominator",
}


def _sun397() -> Iterator[Drawing]:
    # MOS's list names images and no categories, so those of its demo are in any: one in every tenth.
    listed = iter(_listed_of_sun())
    for number, row in enumerate(tables.sun397()):
        folder = f"SUN397{row.category}/"
        names = {path.removeprefix(folder) for path in _SUN_TROUBLES if path.startswith(f"{folder}sun_")}
        names.update(itertools.islice(listed, number % 10 == 5))
        counter = 0
        while len(names) < 4:
            letters = "".join(chr(ord("a") + byte % 26) for byte in digest("sun397", row.category, counter)[:16])
            names.add(f"sun_{letters}.jpg")
            counter += 1
        for name in sorted(names):
            yield _inside("SUN397", f"{row.category[1:]}/{name}", row.category)


def _svhn_full() -> Iterator[Drawing]:
    for partition, count in (("train", 24), ("test", 12)):
        for number in range(1, count + 1):
            path = f"{partition}/{number}.png"
            yield Drawing(path, path, "number", _house_number, "png")


def _house_number(_: bytes, of_image: bytes) -> Image.Image:
    """Draw one to three digits side by side, in a size of the image's own."""
    digits = [byte % 10 for byte in of_image[: 1 + of_image[9] % 3]]
    pixels = np.concatenate(list(draw_digits([of_image] * len(digits), digits)), axis=1)
    width, height = 14 + of_image[10] % 18, 20 + of_image[11] % 13
    return Image.fromarray(pixels).resize((len(digits) * width, height), Image.Resampling.NEAREST)


def _svhn_full_lists(_: Sequence[Drawing]) -> dict[str, str]:
    # The real ones are HDF5 and a script; nothing reads them.
    texts = {"digitStruct.mat": "MATLAB 7.3 MAT-file (none in the demo)\n", "see_bboxes.m": "% none in the demo\n"}
    return {f"{partition}/{name}": text for partition in ("train", "test") for name, text in texts.items()}


def _inaturalist() -> Iterator[Drawing]:
    """Two images of each species: first those seen to show an ImageNet-1k object, then others examined for one."""
    examined = {image.source_id: image.decision != "i" for image in tables.examined_images()}
    species, counts = tables.inaturalist(), collections.Counter[str]()
    for name in sorted(species, key=lambda name: (examined.get(name, 2), name)):
        counts[species[name]] += 1
        if counts[species[name]] <= 2:
            yield _inside("iNaturalist/images", name, species[name])


_OPENIMAGE_O = "images_largescale/openimage_o/images"

# Four images of the test list and one of the validation list that show an object of ImageNet-1k, as examined by
# NINCO's authors; the other names are made up.
_OPENIMAGE_O_EXAMINED = {
    "test": ("11e9b2ed1207bae6.jpg", "1d98391ba7944ca8.jpg", "275ff5948ca1ca2c.jpg", "f961aa4b0623afcf.jpg"),
    "val": ("09a685735975c277.jpg",),
}


def _openimage_o_names() -> dict[str, list[str]]:
    """Return the file names of the two lists, 54 and 6, in an order as irregular as that of the real ones."""
    others = [f"{digest('openimage_o', number).hex()[:16]}.jpg" for number in range(55)]
    examined = _OPENIMAGE_O_EXAMINED
    return {"test": [*examined["test"], *others[:50]], "val": [*examined["val"], *others[50:]]}


def _openimage_o() -> Iterator[Drawing]:
    for name in sorted(name for names in _openimage_o_names().values() for name in names):
        yield _inside(_OPENIMAGE_O, name, name)  # no two show one thing, as the set has no classes


def _openimage_o_lists(_: Sequence[Drawing]) -> dict[str, str]:
    return {
        f"benchmark_imglist/imagenet/{partition}_openimage_o.txt": lines(
            f"openimage_o/images/{name} -1" for name in names
        )
        for partition, names in _openimage_o_names().items()
    }


_NINCO = "NINCO/NINCO_OOD_classes"
_NINCO_GIF = "pseudorca_crassidens_047_67902086.gif"


def _ninco() -> Iterator[Drawing]:
    """Two images a class in the owners' folders, some with spaces. The one .gif of their list is here, too."""
    with_spaces = {name.replace(" ", "_"): name for name in ("Caracal caracal caracal", "high heels")}
    for name in (row["class"] for row in tables.read_csv_rows("ninco.csv")):
        folder = with_spaces.get(name, name)
        files = [
            f"{folder}_{place:03d}_{int.from_bytes(digest('ninco', name, place)[:4], 'big')}.{ending}"
            for place, ending in enumerate(("jpg", "JPEG"))
        ]
        for file in [files[0], _NINCO_GIF] if name == "pseudorca_crassidens" else files:
            yield Drawing(f"{_NINCO}/{folder}/{file}", f"{name}/{file.replace(' ', '_')}", name)


def _listed_of_sun() -> list[str]:
    return sorted(lists.load_list("mos_sun"))[:40]


def _mos_sun() -> Iterator[Drawing]:
    for name in _listed_of_sun():
        yield _inside("SUN/images", name, name)  # no two show one thing, as the set has no classes


FILES: Mapping[str, DemoSource] = {
    "imagenet": DemoSource(_imagenet, troubles=_IMAGENET_TROUBLES, strays=("train/n01440764/README.txt",)),
    "food101": DemoSource(
        _food101,
        _food101_lists,
        {f"images/{path}.jpg": "grayscale" for path in _FOOD_TROUBLES},
        strays=("images/apple_pie/notes.txt", "images/creme_brulee/crème brûlée.jpg"),
    ),
    "caltech256": DemoSource(
        _caltech256,
        troubles={
            "256_ObjectCategories/133.lightning/133_0001.jpg": "grayscale",
            "256_ObjectCategories/133.lightning/133_0003.jpg": "orientation",
        },
        strays=(
            # The first two, a file and an empty folder, are in the real archive.
            "256_ObjectCategories/198.spider/RENAME2",
            "256_ObjectCategories/056.dog/greg/vision309/",
            "256_ObjectCategories/056.dog/greg/vision309.txt",
            "256_ObjectCategories/133.lightning/relámpago 雷.jpg",
        ),
    ),
    "places365": DemoSource(
        _places365,
        _places365_lists,
        {"val_256/Places365_val_00000001.jpg": "grayscale"},
        strays=("val_256/.DS_Store",),
    ),
    "lsun_fix": DemoSource(_lsun_fix, strays=("LSUN_fix/Thumbs.db",)),
    "dtd": DemoSource(
        _dtd,
        _dtd_lists,
        {
            "images/banded/banded_0001.jpg": "cmyk",
            "images/dotted/dotted_0001.jpg": "exif-float-for-text",
            "images/grid/grid_0001.jpg": "grayscale",
            "images/knitted/knitted_0001.jpg": "exif-double-for-text",
            "images/lined/lined_0001.jpg": "exif-no-denominator",
            "images/zigzagged/zigzagged_0001.jpg": "orientation",
        },
        strays=("images/waffled/.directory",),  # which a file manager left in the real archive
    ),
    "sun397": DemoSource(
        _sun397,
        lambda _: {"SUN397/ClassName.txt": lines(row.category for row in tables.sun397())},
        _SUN_TROUBLES,
        strays=(
            # What the archive programs of a Mac and the file manager of Windows leave, and a picture of somebody
            # else's.
            "SUN397/a/abbey/._sun_aqswjsnjlrfzzhiz.jpg",
            "SUN397/b/balcony/exterior/balcón 陽台.jpg",
            "SUN397/w/wine_cellar/Thumbs.db",
        ),
    ),
    "svhn_full": DemoSource(_svhn_full, _svhn_full_lists, strays=("train/.DS_Store",)),
    "inaturalist": DemoSource(
        _inaturalist,
        troubles={  # at places of ours: which of the real images have any is not known
            "iNaturalist/images/1d6895c461e58f4924d45fb25fe6cea9.jpg": "orientation",
            "iNaturalist/images/6880b704dc090d7d9be44c004dc89cee.jpg": "grayscale",
        },
        strays=("iNaturalist/images/.DS_Store",),
    ),
    "imagenet_o": DemoSource(_imagenet_o, strays=("imagenet-o/README.txt",)),  # as in the real archive
    "openimage_o": DemoSource(
        _openimage_o,
        _openimage_o_lists,
        {
            f"{_OPENIMAGE_O}/1d98391ba7944ca8.jpg": "cmyk",
            f"{_OPENIMAGE_O}/275ff5948ca1ca2c.jpg": "exif-text-for-number",
        },
        strays=(f"{_OPENIMAGE_O}/._11e9b2ed1207bae6.jpg",),
    ),
    "coco2017": DemoSource(coco2017.images, coco2017.lists, strays=("train2017/.DS_Store",)),
    "ninco": DemoSource(
        _ninco,
        troubles={f"{_NINCO}/pseudorca_crassidens/{_NINCO_GIF}": "gif"},
        strays=(f"{_NINCO}/.DS_Store",),
    ),
    "imagenet_v2": DemoSource(_imagenet_v2, strays=("imagenetv2-matched-frequency-format-val/0/.DS_Store",)),
    "imagenet_r": DemoSource(_imagenet_r, strays=("imagenet-r/README.txt",)),  # as in the real archive
    "imagenet21k": DemoSource(_imagenet21k),
    "imagenet_c": DemoSource(_imagenet_c),
    "tiny_imagenet": DemoSource(
        tiny_imagenet.images,
        tiny_imagenet.lists,
        {"tiny-imagenet-200/train/n01443537/images/n01443537_1.JPEG": "grayscale"},
        strays=("tiny-imagenet-200/val/images/.DS_Store",),
    ),
    "imagenet_es": DemoSource(_imagenet_es, strays=("ImageNet-ES/es-test/param_control/l1/.DS_Store",)),
    "cub200": DemoSource(_cub200, strays=("CUB_200_2011/images/.DS_Store",)),
    "fgvc_aircraft": DemoSource(_fgvc_aircraft, strays=("fgvc-aircraft-2013b/data/images/.DS_Store",)),
    "mos_sun": DemoSource(_mos_sun, strays=("SUN/images/.DS_Store",)),
}
"""The demo of each such source by its key."""
