import ast
import importlib.util
from pathlib import Path

import PIL.Image
import pytest

from builders.demo.images import encode_image
from builders.plan.completeness import count_shortfalls
from builders.sources.base import Stray
from builders.sources.datasets.lsun_fix import SCENES
from tests.builders.trees import opened, refusal, tree
from tests.sentences import assert_sentence


def png(side=32):
    return encode_image(PIL.Image.new("RGB", (side, side), (side, 1, 2)), "PNG")


def folder(*numbers, name="LSUN_fix", side=32):
    return {f"{name}/correct_resize_{number}.png": png(side) for number in numbers}


def test_the_scene_follows_from_the_number(tmp_path):
    """The authors' script writes 1,000 images of each scene, one scene after the other."""
    index = opened("lsun_fix", tree(tmp_path, folder(0, 999, 1000, 3007, 9999)))
    scene_of = dict(zip(index.table["source_id"].to_pylist(), index.table["class_id"].to_pylist(), strict=True))
    assert scene_of == {
        "correct_resize_0.png": "bedroom",
        "correct_resize_999.png": "bedroom",
        "correct_resize_1000.png": "bridge",
        "correct_resize_3007.png": "classroom",
        "correct_resize_9999.png": "tower",
    }
    assert index.layouts == {"images": "CSI's images in LSUN_fix"}


def test_the_scenes_are_those_of_torchvision():
    """Read from its source: importing it imports torch, which takes seconds."""
    spec = importlib.util.find_spec("torchvision")
    if spec is None:
        pytest.skip("torchvision is not installed")
    source = (Path(spec.origin).parent / "datasets" / "lsun.py").read_text(encoding="utf-8")
    lists = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.List)]
    assert [ast.literal_eval(node) for node in lists if len(node.elts) == len(SCENES)] == [list(SCENES)]


def test_a_copy_that_is_not_whole_is_said_to_be_short(tmp_path):
    index = opened("lsun_fix", tree(tmp_path, folder(*range(1, 1000), 1000)))
    (sentence,) = count_shortfalls(index, ("images",), ["bedroom"])
    assert_sentence(sentence, "1,000", "999")


def test_other_names_are_strays(tmp_path):
    files = folder(5) | {f"LSUN_fix/{name}": "" for name in ("correct_resize_07.png", "correct_resize_10000.png", "x")}
    (partition,) = opened("lsun_fix", tree(tmp_path, files)).partitions
    reason = "not named correct_resize_<0 to 9999>.png"
    assert partition.table["source_id"].to_pylist() == ["correct_resize_5.png"]
    assert partition.strays == tuple(
        Stray(f"LSUN_fix/{name}", reason) for name in ("correct_resize_07.png", "correct_resize_10000.png", "x")
    )


def test_images_of_another_size_are_another_set(tmp_path):
    message = refusal("lsun_fix", tree(tmp_path, folder(1, 2, side=36)))
    assert_sentence(message, tmp_path / "LSUN_fix", "LSUN-FIX")


@pytest.mark.parametrize("name", ["Imagenet_fix", "ImageNet_FIX/test"])
def test_imagenet_fix_has_the_same_names_and_is_another_set(tmp_path, name):
    message = refusal("lsun_fix", tree(tmp_path, folder(1, 2, name=name)))
    assert_sentence(message, tmp_path / name)
    index = opened("lsun_fix", tree(tmp_path, folder(3)))
    assert index.table["source_id"].to_pylist() == ["correct_resize_3.png"]
    nested = tree(tmp_path / "imagenet", folder(4))  # LSUN-FIX beside somebody's ImageNet
    assert opened("lsun_fix", nested).table.num_rows == 1


def test_two_copies_are_refused(tmp_path):
    message = refusal("lsun_fix", tree(tmp_path, folder(1, name="a") | folder(1, name="b")))
    assert_sentence(message)


def test_lsun_itself_is_no_lsun_fix(demo):
    assert "is not in" in refusal("lsun_fix", demo["lsun"])
