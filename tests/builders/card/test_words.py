"""Rules, sizes and counts are said in the same words by the card, the page and the commands."""

import json

import pytest

from builders.commands.report import main as report
from builders.release.manifest import read_manifest
from builders.report import counts
from hf_scripts import verify
from tests.builders.conftest import build_demo


@pytest.fixture(scope="module")
def limited(demo, tmp_path_factory):
    """A release of one split with one image a class. Read only."""
    root = tmp_path_factory.mktemp("limited") / "release"
    build_demo(demo, root, splits=("imagenet/far_ood_food32",), limit_per_class=1)
    return root


def test_a_rule_has_one_meaning_on_the_card_and_on_the_page(limited):
    text = (limited / "README.md").read_text(encoding="utf-8")
    on_page = {row[1]: row[3] for row in counts.rules_table(read_manifest(limited)).rows}
    assert on_page["limit-per-class"] == "beyond the limit of images of a class that was given, for a quick look"
    assert all(meaning and f"| `{rule}` | {meaning} |" in text for rule, meaning in on_page.items())


def test_one_image_and_one_benchmark_are_said_in_the_singular(limited, tmp_path, capsys):
    limitations = json.loads((limited / "croissant.json").read_text(encoding="utf-8"))["rai:dataLimitations"]
    assert any(sentence.endswith("is limited to 1 image of each class.") for sentence in limitations)
    assert verify.main([str(limited), "--workers", "1"]) == 0
    assert "note: imagenet is limited to 1 image of each class\n" in capsys.readouterr().out
    assert report([str(limited), "--out", str(tmp_path / "page.html")]) == 0
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "of 1 benchmark<" in page and "in 1 split<" in page
    assert "at most 1 image of each class" in page
