"""What the table says of each source, against the declarations."""

import json

import pytest

from builders.commands.sources import describe_source
from builders.hub.place import parse_place
from builders.registry import BENCHMARKS
from builders.sources.registry import SOURCES


def test_splits_that_need_a_source_are_those_that_name_it():
    needed = describe_source(SOURCES["sun397"]).needed_by
    assert needed == {
        "facets": ("facets-t1/validation", "facets-t1/test", "facets-t2/validation", "facets-t2/test"),
        "openood": ("mos/sun",),
    }
    assert describe_source(SOURCES["lsun_fix"]).needed_by == {
        "cifar --published-lsun-fix": ("cifar/far_ood_lsun_fix",)
    }
    assert describe_source(SOURCES["food101"]).needed_by == {"imagenet": ("imagenet/far_ood_food32",)}


@pytest.mark.parametrize("name", BENCHMARKS)
def test_every_source_of_a_benchmark_is_needed_by_it(name):
    for source in BENCHMARKS[name].sources():
        if source.on_disk:
            assert describe_source(source).needed_by[name], source.key


def test_the_copy_on_this_machine_is_named_and_looked_into(demo, tmp_path):
    imagenet = SOURCES["imagenet"]
    assert describe_source(imagenet).location == "no"
    assert describe_source(imagenet, tmp_path / "x", scan=True).location == f"no folder {tmp_path / 'x'}"
    assert describe_source(imagenet, demo["imagenet"]).location == str(demo["imagenet"])
    assert describe_source(imagenet, demo["imagenet"], scan=True).partitions == ("train", "val")
    assert describe_source(imagenet, demo["dtd"], scan=True).location == f"{demo['dtd']} (not recognised)"
    place = parse_place("hf://datasets/ILSVRC/imagenet-1k")
    assert describe_source(imagenet, place, scan=True).location == "hf://datasets/ILSVRC/imagenet-1k"


def test_json_has_files_with_digests_and_tells_what_is_not_known(tmp_path):
    document = json.loads(json.dumps(describe_source(SOURCES["caltech256"], tmp_path).as_json()))
    assert document["files"] == [
        {
            "name": "256_ObjectCategories.tar",
            "bytes": None,  # what a catalogue says is rounded
            "url": "https://data.caltech.edu/records/nyy15-4j048/files/256_ObjectCategories.tar",
            "mirrors": [],
            "md5": "67b4f42ca05d46448c6bb8ecd2220f6d",
            "sha256": None,
        }
    ]
    assert document["licence"]["publish"] == "open"
    assert (document["folder"], document["folder_exists"], document["partitions_found"]) == (str(tmp_path), True, None)
    assert document["hub"] == {"place": "hf://datasets/bitmind/caltech-256", "gated": False}


def test_sizes_add_up_and_say_where_one_is_missing():
    assert describe_source(SOURCES["svhn"]).size == "246 MB"  # 182,040,794 + 64,275,384 bytes
    assert describe_source(SOURCES["imagenet"]).size == "155 GB and more"  # and a development kit
    assert describe_source(SOURCES["lsun_fix"]).size == "not published"
