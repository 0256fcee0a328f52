"""Images with one channel or four, which real sources have, from the build to `load_dataset`.

Food-101's bread_pudding/1375816, lasagna/3787908 and steak/1340977 have one channel, and so have many of Caltech-256.
"""

import io

import datasets
import numpy as np
import pytest
from PIL import Image

from hf_scripts import verify
from tests.builders.conftest import build_demo
from tests.builders.demo_sources import TROUBLES
from tests.builders.trees import linked

CHANNELS = {"grayscale": "L", "cmyk": "CMYK"}


def loaded(release, config, split, cache):
    rows = datasets.load_dataset(str(release), config, split=split, cache_dir=str(cache))
    return {row["source_id"]: row for row in rows}


@pytest.mark.parametrize(("split", "source"), [("test", "imagenet"), ("far_ood_caltech45", "caltech256")])
def test_sources_bytes_keep_their_channels(release, demo, tmp_path, split, source):
    rows = loaded(release, "imagenet", split, tmp_path)
    met = set()
    for trouble in TROUBLES:
        source_id = (
            trouble.path.split("/", 1)[1] if source == "caltech256" else f"val/{trouble.path.rpartition('/')[2]}"
        )
        if trouble.source == source and trouble.kind in CHANNELS and source_id in rows:
            image = rows[source_id]["image"]
            assert image.mode == CHANNELS[trouble.kind]
            assert np.array_equal(np.asarray(image), np.asarray(Image.open(demo[source] / trouble.path)))
            assert rows[source_id]["stored"] == "source"
            met.add(trouble.kind)
    assert met == ({"grayscale"} if source == "caltech256" else set(CHANNELS))


def test_images_of_food101_with_other_channels_are_built_verified_and_loaded(demo, release, tmp_path, capsys):
    food = linked(demo["food101"], tmp_path / "food101")
    before = loaded(release, "imagenet", "far_ood_food32", tmp_path / "before")
    changed = dict(zip(sorted(before)[:2], CHANNELS.values(), strict=True))
    for source_id, mode in changed.items():
        path = food / "images" / source_id
        image = Image.open(io.BytesIO(path.read_bytes())).convert(mode)
        path.unlink()
        image.save(path, "JPEG")
    out = tmp_path / "out"
    build_demo(demo | {"food101": food}, out, splits=("imagenet/far_ood_food32",), decode=True)
    assert verify.main([str(out), "--workers", "1"]) == 0
    capsys.readouterr()
    rows = loaded(out, "imagenet", "far_ood_food32", tmp_path / "cache")
    assert rows.keys() == before.keys()
    assert {name: rows[name]["image"].mode for name in changed} == changed


@pytest.mark.parametrize("trouble", [t for t in TROUBLES if t.source == "dtd" and t.kind in CHANNELS], ids=str)
def test_made_images_have_three_channels(cifar_release, demo, tmp_path, trouble):
    rows = loaded(cifar_release, "cifar", "far_ood_dtd", tmp_path)
    stored = rows[trouble.path.removeprefix("images/")]["image"]
    with Image.open(demo["dtd"] / trouble.path) as source:
        assert source.mode == CHANNELS[trouble.kind]
        # One call of Pillow's own, which may round some pixels otherwise
        # (`tests/builders/generate/exact/test_resize.py`).
        by_pillow = source.convert("RGB").resize((32, 32), Image.Resampling.BILINEAR)
    assert (stored.mode, stored.size) == ("RGB", (32, 32))
    assert np.abs(np.asarray(stored).astype(int) - np.asarray(by_pillow)).max() <= 1
