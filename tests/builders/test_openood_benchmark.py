"""The benchmarks of OpenOOD, MOS and ImageNet-OOD: every row against the published lists, and a build of the demo."""

import dataclasses
import hashlib
import json
from collections import Counter

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from builders.declare.quotas import Listed
from builders.openood_benchmark import BENCHMARK, main
from builders.plan.candidates import Draws
from builders.plan.completeness import missing_listed
from builders.plan.planner import plan
from builders.release.manifest import read_manifest
from builders.release.openood_tree import LISTS, list_text
from hf_scripts import materialize, verify
from taxonomy import lists, tables
from tests.builders.indexes import listed_rows, named_index
from tests.builders.trees import linked
from tests.hf_scripts import tampering
from tests.manifests import manifest_of, rows_in
from tests.published_lists import content, labels, needs_lists, published
from tests.sentences import assert_sentence

LISTED = {
    "validation": "openood_validation",
    "test": "openood_test",
    "openood-imagenet200/validation": "imagenet200_validation",
    "openood-imagenet200/test": "imagenet200_test",
    "imagenet_c": "openood_imagenet_c",
    **{f"openood-imagenet200-shifted/imagenet_{kind}": f"imagenet200_{kind}" for kind in ("v2", "r", "c")},
    "sun": "mos_sun",
    "places": "mos_places",
}
"""The published list of a split, by its key or name, where it has another name."""


KEYS = [key for key in BENCHMARK.usual() if not key.startswith("openood-cifar")]
"""The splits on ImageNet; `test_openood_cifar.py` has those on CIFAR."""


def test_splits_have_the_published_numbers_of_rows():
    """Which these are, of every split, is held by tests/stated_figures.csv."""
    counts = {key: BENCHMARK.count(key) for key in BENCHMARK.splits}
    assert {key: count.rows for key, count in counts.items()} == {key: count.paper for key, count in counts.items()}


def _complete(key, partitions):
    """Ids and classes of a complete copy of a source by partition: the real names where lists have them."""
    if key == "imagenet":
        wnids = [row.wnid for row in tables.imagenet1k()]
        of = labels("openood_validation") | labels("openood_test")
        return {"val": {f"val/{path}": wnids[label] for path, label in of.items()}}
    if key == "dtd":  # the four textures that OpenOOD leaves out have 120 images, too
        left_out = {f"{name}/{name}_{n:04}.jpg" for name in tables.dtd() for n in range(120)}
        listed = published("textures")
        textures = {path.split("/")[0] for path in listed}
        ids = [*listed, *sorted(path for path in left_out if path.split("/")[0] not in textures)]
        return {"images": {path: path.split("/")[0] for path in ids}}
    if key == "sun397":  # which category an image has is not published: here they take turns
        categories = [row.category for row in tables.sun397()]
        names = [*published("mos_sun"), *(f"sun_{'z' * 15}{letter}.jpg" for letter in "abc")]
        of = {name: categories[number % 397] for number, name in enumerate(names)}
        return {"images": {f"{category[1:]}/{name}": category for name, category in of.items()}}
    if key == "places365":
        of = {row.category[1:].replace("/", "_"): row.category for row in tables.places365()}
        images = {"train": {"train/a/abbey/00000001.jpg": "/a/airfield"}, "val": {}}
        for number, name in enumerate(published("mos_places")):
            place, _, file = name.rpartition("_")
            if place == "Places365_val":
                images["val"][f"val/{name}"] = list(of.values())[number % 365]
            else:
                images["train"][f"train{of[place]}/{file}"] = of[place]
        return images
    if key == "inaturalist":
        return {"images": dict(tables.inaturalist())}
    if key == "openimage_o":
        return {
            "test": dict.fromkeys(published("openimage_o"), "unlabelled"),
            "val": dict.fromkeys(published("openimage_o_validation"), "unlabelled"),
        }
    wnids = [row.wnid for row in tables.imagenet1k()]
    if key == "imagenet_v2":
        return {"images": {path: wnids[int(path.split("/")[0])] for path in published(key)}}
    if key == "imagenet_c":
        return {"openood": {path: wnids[label] for path, label in labels("openood_imagenet_c").items()}}
    names = ("ssb_hard", "imagenet_ood") if key == "imagenet21k" else (key,)
    return {
        name if key == "imagenet21k" else "images": {path: path.split("/")[0] for path in published(name)}
        for name in names
    }


@pytest.fixture(scope="module")
def planned():
    """The plan of every split but training from complete sources, with all columns but pixels, by key."""
    needed = {}
    keys = KEYS
    for key in keys:
        split = BENCHMARK.parts[key]
        needed.setdefault(split.source.key, (split.source, []))[1].extend(split.partitions)
    indexes = {name: named_index(source, _complete(name, partitions)) for name, (source, partitions) in needed.items()}
    return {split.key: split for split in plan(Draws(BENCHMARK, seed=0), indexes, splits=keys)}


def _published_ids(key):
    """The published ids of a split as its source spells them."""
    if key in ("mos/test", "imagenet-ood/test"):
        return sorted([*published("openood_validation"), *published("openood_test")])
    return published(_list_name(key))


def _flat(key, source_id):
    """An id as the published list of a split spells it."""
    if key == "mos/sun":
        return source_id.rpartition("/")[2]
    if key == "mos/places":
        return source_id.removeprefix("train/").removeprefix("val/").replace("/", "_")
    return source_id.removeprefix("val/")


@needs_lists
@pytest.mark.parametrize("key", [key for key in KEYS if key != "mos/textures"])
def test_a_split_has_exactly_the_published_images(planned, key):
    ids = [_flat(key, source_id) for source_id in planned[key].table["source_id"].to_pylist()]
    assert sorted(ids) == _published_ids(key)
    assert len(ids) == BENCHMARK.count(key).rows


def _list_name(key):
    """The published list of a split."""
    return LISTED.get(key) or LISTED.get(key.partition("/")[2], key.partition("/")[2])


@needs_lists
@pytest.mark.parametrize("key", [key for key in KEYS if key in LISTS])
def test_an_exported_list_is_the_published_one_byte_for_byte(planned, key):
    """From a complete copy of the source, whose file names are those of the lists where no table has them."""
    split = planned[key]
    assert list_text(listed_rows(split)) == content(_list_name(key))


def _from_tables(name):
    """Source, id, class and label of every image of a list, without any copy of a source."""
    if name == "ssb_hard":
        return [("imagenet21k", source_id, of, -1) for source_id, of in lists.load_list("ssb_hard").items()]
    if name == "inaturalist":
        return [("inaturalist", source_id, of, -1) for source_id, of in tables.inaturalist().items()]
    wnids = {"openood_validation": [row.wnid for row in tables.imagenet1k()]}.get(name, sorted(lists.imagenet_r()))
    known = {wnid: label for label, wnid in enumerate(wnids)}
    return [
        ("imagenet", path, of, known[of]) for path, of in lists.load_list("openood_validation").items() if of in known
    ]


@needs_lists
@pytest.mark.parametrize("name", ["openood_validation", "imagenet200_validation", "ssb_hard", "inaturalist"])
def test_a_list_that_follows_from_the_tables_is_the_published_one_byte_for_byte(name):
    """Of the others only a copy knows the names or, of ILSVRC2012's other validation images, the labels."""
    assert list_text(_from_tables(name)) == content(name)


@needs_lists
def test_all_of_dtd_is_mos_textures(planned):
    assert Counter(planned["mos/textures"].table["class_id"].to_pylist()) == dict.fromkeys(tables.dtd(), 120)


@needs_lists
def test_labels_are_those_of_the_published_lists(planned):
    for config, names in {
        "openood-imagenet1k": ("openood_validation", "openood_test"),
        "openood-imagenet200": ("imagenet200_validation", "imagenet200_test"),
    }.items():
        for split, name in zip(("validation", "test"), names, strict=True):
            assert labels_of(planned[f"{config}/{split}"]) == labels(name)
    for key in (key for key in KEYS if "-shifted/" in key):
        assert labels_of(planned[key]) == labels(_list_name(key))


# SHA-256 of the sorted lines of benchmark_imglist/imagenet200/test_imagenet200_{v2,r,c}.txt of OpenOOD v1.5, in the
# public copy at github.com/moxime/ooddict, commit a4cb1ff, folder data.
PUBLIC_COPY = {
    "imagenet_v2": "0acbab230bea4ec0e1772c83f7d41e7fbce647b83937070dd741be839cb8532f",
    "imagenet_r": "e718d2189a582968ec2ba89b9f7a279bbae641f9fcc58ee1be2fb204e61f81c6",
    "imagenet_c": "2a82130d51cf0c9f6ac50f6ba5633e71bc31904bd571665e147cb599e14333a1",
}


@needs_lists
@pytest.mark.parametrize("name", PUBLIC_COPY)
def test_imagenet200s_shifted_rows_are_those_of_a_public_copy_of_the_lists(planned, name):
    """Its lines, labels of the 200 classes included, although the rows are derived from ImageNet-1k's lists."""
    text = list_text(listed_rows(planned[f"openood-imagenet200-shifted/{name}"]))
    assert hashlib.sha256(text.encode()).hexdigest() == PUBLIC_COPY[name]


def labels_of(split):
    ids = (path.removeprefix("val/") for path in split.table["source_id"].to_pylist())
    return dict(zip(ids, split.table["label"].to_pylist(), strict=True))


# Counted from WordNet's hypernyms alone in tests/taxonomy/rules/test_openood.py.
@needs_lists
def test_kin_of_known_classes_are_marked_row_by_row(planned):
    kinds = {
        key: Counter(planned[key].table["id_overlap_kind"].to_pylist())
        for key in ("openood-imagenet1k/ssb_hard", "imagenet-ood/imagenet_ood")
    }
    assert kinds == {
        "openood-imagenet1k/ssb_hard": {"descendant": 8_000, "ancestor": 1_600, None: 39_400},
        "imagenet-ood/imagenet_ood": {"descendant": 50, "ancestor": 100, None: 31_652},
    }


@needs_lists
def test_validation_and_test_are_disjoint_and_those_of_imagenet200_within_them(planned):
    ids = {key: set(split.table["source_id"].to_pylist()) for key, split in planned.items()}
    assert not ids["openood-imagenet1k/validation"] & ids["openood-imagenet1k/test"]
    assert ids["openood-imagenet1k/validation"] | ids["openood-imagenet1k/test"] == ids["mos/test"]
    for split in ("validation", "test"):
        assert ids[f"openood-imagenet200/{split}"] < ids[f"openood-imagenet1k/{split}"]


@needs_lists
def test_imagenet_c_is_made_of_test_images(planned):
    """Each a corrupted copy of another one, so that no validation image is among them."""
    for config, images in (("openood-imagenet1k", 10_000), ("openood-imagenet200", 2_000)):
        shifted = planned[f"{config}-shifted/imagenet_c"].table["source_id"].to_pylist()
        test = set(planned[f"{config}/test"].table["source_id"].to_pylist())
        originals = [f"val/{path.rpartition('/')[2]}" for path in shifted]
        assert len(set(originals)) == images and set(originals) < test


def _sun(names):
    category = tables.sun397()[0].category
    source = BENCHMARK.parts["mos/sun"].source
    return named_index(source, {"images": {f"{category[1:]}/{name}": category for name in names}})


def test_listed_images_that_a_source_lacks_are_counted_and_named():
    quota = Listed(10_000, "mos_sun", by_name=True)
    names = sorted(lists.load_list("mos_sun"))
    index = _sun(names[1:])
    assert missing_listed(quota, index, ("images",), list(index.source.classes())) == [
        f"SUN397, images: lacks 1 of the 10,000 listed images ({names[0]})"
    ]
    assert missing_listed(quota, _sun(names), ("images",), list(index.source.classes())) == []


def test_a_listed_name_that_a_source_has_twice_is_reported():
    names = sorted(lists.load_list("mos_sun"))
    index = _sun(names)
    other = tables.sun397()[1].category
    partition = index.partitions[0]
    extra = named_index(index.source, {"images": {f"{other[1:]}/{names[0]}": other}}).partitions[0]
    table = pa.concat_tables([partition.table, extra.table]).unify_dictionaries()
    index = dataclasses.replace(index, partitions=(dataclasses.replace(partition, table=table),))
    quota = Listed(10_000, "mos_sun", by_name=True)
    assert missing_listed(quota, index, ("images",), list(index.source.classes())) == [
        "SUN397, images: has 10,001 images with the 10,000 listed names"
    ]


def test_images_of_other_classes_do_not_count_as_missing(demo):
    """ImageNet-200's validation is listed with that of ImageNet-1k, whose other classes a copy may lack."""
    source = BENCHMARK.parts["openood-imagenet200/validation"].source
    ids = {path: wnid for path, wnid in lists.load_list("openood_validation").items() if wnid in lists.imagenet_r()}
    quota = Listed(1_000, "openood_validation")
    index = named_index(source, {"val": ids})
    assert missing_listed(quota, index, ("val",), lists.imagenet_r()) == []
    assert missing_listed(quota, index, ("val",), list(source.classes()))[0].startswith(
        "ImageNet-1k (ILSVRC2012), val: lacks 4,000 of the 5,000 listed images (val/ILSVRC2012_val_"
    )


def test_the_demo_has_exactly_the_listed_images_that_exist(openood_release, demo):
    existing = {path.relative_to(demo["places365"]).as_posix() for path in demo["places365"].rglob("*.jpg")}
    existing = {path.replace("data_256", "train", 1).replace("val_256", "val", 1) for path in existing}
    existing |= {f"val/{path.name}" for path in (demo["imagenet"] / "val").rglob("*.JPEG")}
    existing |= {f"test/{place:05d}" for place in range(100)}  # of CIFAR-10
    for key, name in (
        ("openood-imagenet1k/validation", "openood_validation"),
        ("openood-cifar10/validation", "openood_cifar10_validation"),
        ("mos/places", "mos_places"),
    ):
        rows = pq.read_table(openood_release / "index" / f"{key}.parquet", columns=["source_id"])
        assert set(rows["source_id"].to_pylist()) == existing & set(lists.load_list(name))
    configs = manifest_of(openood_release)["configs"]
    rows = {
        f"{config}/{name}": rows_in(split)
        for config in configs
        if not config.startswith("openood-cifar")
        for name, split in configs[config]["splits"].items()
    }
    unknown = {"ssb_hard": 980, "ninco": 128, "inaturalist": 220, "textures": 172}
    unknown |= {"openimage_o": 54, "openimage_o_validation": 6}
    assert rows == {
        **{
            f"{config}/{name}": n
            for name, n in unknown.items()
            for config in ("openood-imagenet1k", "openood-imagenet200")
        },
        "openood-imagenet1k/validation": 209,
        "openood-imagenet1k/test": 1_791,
        "openood-imagenet1k-shifted/imagenet_v2": 1_000,
        "openood-imagenet1k-shifted/imagenet_r": 400,
        "openood-imagenet1k-shifted/imagenet_c": 1_000,
        "openood-imagenet200-shifted/imagenet_v2": 200,
        "openood-imagenet200-shifted/imagenet_r": 400,
        "openood-imagenet200-shifted/imagenet_c": 200,
        "openood-imagenet200/validation": 42,
        "openood-imagenet200/test": 358,
        "mos/test": 2_000,
        "mos/inaturalist": 220,
        "mos/places": 13,
        "mos/textures": 188,
        "imagenet-ood/test": 2_000,
        "imagenet-ood/imagenet_ood": 637,
    }


def test_the_demo_verifies_and_says_that_it_is_one(openood_release, capsys):
    # The other configs have images of the same sources.
    configs = "openood-imagenet1k,openood-imagenet1k-shifted,openood-cifar10,imagenet-ood"
    assert verify.main([str(openood_release), "--workers", "1", "--splits", configs]) == 0
    assert "openood is built from demo sources" in capsys.readouterr().out


def test_a_kind_without_an_overlap_is_no_valid_row(openood_release, tmp_path, capsys):
    """The column beside `id_overlap` is checked against it."""
    root = linked(openood_release, tmp_path / "other")
    tampering.rewrite(root, "mos/places", lambda rows: tampering.with_cells(rows, 0, id_overlap=None))
    assert verify.main([str(root), "--check", "fast", "--workers", "1"]) == 1
    assert "no kind of overlap, or one without the other column" in capsys.readouterr().out


def test_training_images_are_an_index_alone_until_images_are_asked_for(demo, tmp_path, capsys):
    """Beside a config that has images in the same run; later images are added to the same rows."""
    out, train, other = tmp_path / "out", "openood-imagenet200-train/train", "openood-imagenet200/validation"
    flags = [f"--imagenet={demo['imagenet']}", "--limit-per-class=1", "--workers=1", "--quiet"]
    command = [*flags, f"--splits={train},{other}", f"--out={out}"]
    assert main(command) == 0
    assert f"{train}: rows without pixels; --with-images writes these, too" in capsys.readouterr().out
    index = read_manifest(out).by_key()
    assert not index[train].data and index[train].rows == 200 and index[other].data
    from_index = tmp_path / "materialized"
    assert materialize.main([str(out), *flags[:1], "--splits=openood-imagenet200-train", f"--out={from_index}"]) == 0
    assert main([*command, "--with-images"]) == 0
    with_images = read_manifest(out).by_key()
    assert with_images[train].data and with_images[train].digest == index[train].digest
    assert read_manifest(from_index).by_key()[train].data == with_images[train].data


def test_a_demo_has_images_of_every_list(demo, tmp_path, capsys):
    """Of SUN397 those of its own demo that MOS published, with their categories."""
    sources = [f"--{source.key}={demo[source.key]}" for source in BENCHMARK.sources()]
    assert main([*sources, "--dry-run", "--out", str(tmp_path), "--quiet", "--json"]) == 0
    rows = {entry["split"]: entry["rows"] for entry in json.loads(capsys.readouterr().out)["splits"]}
    assert rows.keys() == set(BENCHMARK.usual()) and min(rows.values()) > 0
    assert rows["mos/sun"] == len(range(5, 397, 10)) == 40


def test_a_split_that_lacks_listed_images_is_refused_by_name(tmp_path, capsys):
    first, *_ = sorted(lists.load_list("openood_validation"))
    folder = tmp_path / "imagenet" / "val" / lists.load_list("openood_validation")[first]
    folder.mkdir(parents=True)
    (folder / first.rpartition("/")[2]).touch()
    split = "openood-imagenet1k/validation"
    flags = [f"--imagenet={tmp_path / 'imagenet'}", f"--splits={split}", "--dry-run", "--quiet", "--out"]
    assert main([*flags, str(tmp_path / "out")]) == 2
    assert_sentence(capsys.readouterr().err, "4,999", "5,000", "val/ILSVRC2012_val_00000015.JPEG")


def test_imagenet_es_is_built_on_request_alone_and_its_rows_say_light_and_setting(demo, tmp_path):
    assert not [key for key in BENCHMARK.usual() if key.startswith("imagenet-es/")]
    out = tmp_path / "out"
    flags = ["--splits=imagenet-es", "--workers=1", "--quiet", "--allow-partial"]
    assert main([f"--imagenet_es={demo['imagenet_es']}", *flags, f"--out={out}"]) == 0
    assert verify.main([str(out), "--check", "fast", "--workers", "1"]) == 0
    for name in ("param_control", "auto_exposure"):
        rows = pq.read_table(out / "index" / "imagenet-es" / f"{name}.parquet").to_pylist()
        known = {row.wnid: row.index for row in tables.imagenet1k()}
        assert sorted(row["label"] for row in rows) == [known[wnid] for wnid in tables.tiny_imagenet200()]
        assert all(f"/param_{row['camera_setting']}/" in row["source_id"] for row in rows)
