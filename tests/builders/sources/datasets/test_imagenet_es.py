"""ImageNet-ES's test set: what its names say, and its photographs compared with other lists of them."""

import collections

from builders.sources.registry import SOURCES
from taxonomy import tables
from tests.builders.trees import linked, opened, tree


def test_the_counts_are_those_of_the_owners_card():
    """1,000 photographs in two lights, with 27 settings and in five shots; five photographs of each class."""
    expected = SOURCES["imagenet_es"].expected()
    assert {name: size.total for name, size in expected.items()} == {"param_control": 54_000, "auto_exposure": 10_000}
    assert {name: {*size.per_class.values()} for name, size in expected.items()} == {
        "param_control": {270},
        "auto_exposure": {50},
    }


def test_the_classes_of_its_photographs_are_those_of_imagenet_cs_list():
    """OpenOOD's list of ImageNet-C has a fifth of ImageNet's validation images, with their classes."""
    other = {number: row["wnid"] for row in tables.read_csv_rows("imagenet_c.csv") for number in row["images"].split()}
    ours = {number: row["wnid"] for row in tables.read_csv_rows("imagenet_es.csv") for number in row["images"].split()}
    shared = ours.keys() & other.keys()
    assert len(shared) > 150
    assert all(ours[number] == other[number] for number in shared)


def test_light_and_setting_are_columns(demo):
    for partition in opened("imagenet_es", demo["imagenet_es"]).partitions:
        rows = partition.table.select(["source_id", "light", "camera_setting"]).to_pylist()
        for row in rows:
            _, light, setting, _, _ = row["source_id"].split("/")
            assert (light, setting) == ({"on": "l1", "off": "l5"}[row["light"]], f"param_{row['camera_setting']}")
        assert collections.Counter(row["light"] for row in rows) == {"on": 100, "off": 100}


def test_an_image_of_no_photograph_of_the_test_set_is_a_stray(demo, tmp_path):
    root = linked(demo["imagenet_es"], tmp_path / "copy")
    place = "ImageNet-ES/es-test/param_control/l1/param_1/n01443537/ILSVRC2012_val_00000001.JPEG"
    tree(root, {place: b""})
    partition = opened("imagenet_es", root).partitions[0]
    assert (place, "not in the owners' test set") in [(stray.path, stray.reason) for stray in partition.strays]
