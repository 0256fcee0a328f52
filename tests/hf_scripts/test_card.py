"""The dataset card: its YAML against `datasets`, its BibTeX, its tables against the manifest, and the command."""

import json
import re
import shutil

import datasets
import pytest
import yaml
from datasets.info import DatasetInfosDict

from builders import card
from builders.drawn import class_ids
from builders.registry import BENCHMARKS
from builders.release import arrow_schema, read_excluded
from hf_scripts.card import main

LABELS = ["n01443537", "yes", "1e5", "0x1f", "no: colon", "ünïcode"]


@pytest.fixture(params=["imagenet_release", "cifar_release"])
def built(request):
    """A built release and its manifest."""
    root = request.getfixturevalue(request.param)
    return root, json.loads((root / "manifest.json").read_text(encoding="utf-8"))


def front_of(text):
    start, front, rest = text.split("---\n", 2)
    assert start == ""
    return yaml.safe_load(front), rest


@pytest.mark.parametrize("image", [True, False])
@pytest.mark.parametrize("columns", [(), ("near_duplicate_of",)])
def test_features_are_those_that_datasets_reads_from_the_files(image, columns):
    theirs = datasets.Features.from_arrow_schema(arrow_schema(LABELS, columns, image=image))
    ours = card.features(LABELS, columns, image=image)
    assert ours == theirs._to_yaml_list()
    # Through YAML and back, where words such as "yes" and "1e5" would be taken for something else.
    again = yaml.safe_load(yaml.safe_dump(ours, allow_unicode=True))
    assert datasets.Features._from_yaml_list(again) == theirs


def test_the_yaml_has_the_counts_and_files_of_every_config(built):
    root, manifest = built
    front, _ = front_of((root / "README.md").read_text(encoding="utf-8"))
    infos = DatasetInfosDict.from_directory(str(root))
    for config in front["configs"]:
        name = config["config_name"]
        if name == "duplicates":
            assert config["data_files"] == [{"split": "pairs", "path": ["duplicates/pairs.parquet"]}]
            assert infos[name].splits["pairs"].num_examples == manifest["duplicates"]["rows"]
            continue
        entry = manifest["configs"][name.removesuffix("-index")]
        for file in config["data_files"]:
            split = entry["splits"][file["split"]]
            listed = [split["index"]] if name.endswith("-index") else split["data"]
            assert file["path"] == [item["path"] for item in listed]
            assert infos[name].splits[file["split"]].num_examples == split["rows"]
            assert infos[name].splits[file["split"]].num_bytes == sum(item["bytes"] for item in listed)
    assert {config["config_name"] for config in front["configs"]} == set(infos)


def test_a_wrong_count_in_the_yaml_would_be_refused(cifar_release, tmp_path):
    # The reason why counts stand in the card: `load_dataset` compares them with the files.
    root = shutil.copytree(cifar_release, tmp_path / "copy", ignore=shutil.ignore_patterns(".state"))
    text = (root / "README.md").read_text(encoding="utf-8")
    (root / "README.md").write_text(text.replace("num_examples: 188", "num_examples: 189"), encoding="utf-8")
    with pytest.raises(Exception, match=r"num_examples=18[89]"):
        datasets.load_dataset(str(root), "cifar-index", split="far_ood_dtd", cache_dir=str(tmp_path / "cache"))


def test_tables_have_every_split_and_what_each_rule_leaves_out(built):
    root, manifest = built
    _, text = front_of((root / "README.md").read_text(encoding="utf-8"))
    for name, config in manifest["configs"].items():
        lines = read_excluded(root / config["excluded"]["path"])
        for split, entry in config["splits"].items():
            by_rule = {}
            for line in lines:
                if line.split == f"{name}/{split}" and line.images:
                    by_rule[line.rule] = by_rule.get(line.rule, 0) + line.images
            rules = ", ".join(f"{rule} {images:,}" for rule, images in sorted(by_rule.items()))
            assert f"| `{name}/{split}` | {rules or 'none'} |" in text
            counts = " | ".join(f"{entry[k]:,}" for k in ("rows", "expected", "paper", "excluded"))
            assert (
                f"| `{split}` | {entry['role']} | {manifest['sources'][entry['source']]['title']} | {counts} |" in text
            )


def bibtex_entries(text):
    """Entries of a BibTeX text, by a parser of our own: type, key, and fields with balanced braces."""
    entries, at = {}, 0
    while (start := text.find("@", at)) >= 0:
        opened = text.index("{", start)
        depth, end = 0, opened
        while True:
            depth += {"{": 1, "}": -1}.get(text[end], 0)
            end += 1
            if depth == 0:
                break
        key, _, fields = text[opened + 1 : end - 1].partition(",")
        names = re.findall(r"(?m)^\s*(\w+)\s*=\s*\{", fields)
        entries[key.strip()] = (text[start + 1 : opened], names)
        at = end
    return entries


def test_the_bibtex_parses_and_names_every_paper_once(built):
    root, manifest = built
    text = (root / "README.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```bibtex\n(.*?)```", text, re.S)
    entries = bibtex_entries(block)
    assert block.count("@") == len(entries) == 1 + len(manifest["sources"])
    for key, (kind, names) in entries.items():
        assert re.fullmatch(r"[a-z]+", kind), key
        assert {"title", "author", "year"} <= set(names), key


def test_nothing_in_the_card_names_a_place_on_this_machine(built):
    root, _ = built
    assert str(root.parent) not in (root / "README.md").read_text(encoding="utf-8")


def test_an_index_only_release_shows_how_to_load_its_index(cifar_release):
    manifest = json.loads((cifar_release / "manifest.json").read_text(encoding="utf-8"))
    for split in manifest["configs"]["cifar"]["splits"].values():
        split["data"] = []
    front, text = front_of(card.render(manifest))
    assert "cifar" not in {config["config_name"] for config in front["configs"]}
    assert 'load_dataset("ORG/NAME", "cifar-index", split="external_validation")' in text


def test_withdrawn_rows_and_the_version_are_named(cifar_release):
    manifest = json.loads((cifar_release / "manifest.json").read_text(encoding="utf-8"))
    row = {
        "id": "dtd/banded/banded_0002.jpg#fixed-resize-32",
        "split": "cifar/far_ood_dtd",
        "reason": "its owner asked",
    }
    _, text = front_of(card.render(manifest | {"withdrawn": [row], "version": "2.0.0"}))
    assert f"- `{row['id']}` (cifar/far_ood_dtd): its owner asked" in text
    assert "**Version 2.0.0.**" in text
    assert 'revision="v2.0.0"' in text


def test_size_categories_are_the_hubs():
    sizes = {999: "n<1K", 1_000: "1K<n<10K", 99_999: "10K<n<100K", 999_999: "100K<n<1M", 1_000_000: "1M<n<10M"}
    for rows, name in sizes.items():
        assert card._size({"configs": {"x": {"splits": {"y": {"rows": rows}}}}}) == name


def test_check_tells_whether_the_card_is_what_the_template_gives(cifar_release, tmp_path, capsys):
    root = shutil.copytree(cifar_release, tmp_path / "copy", ignore=shutil.ignore_patterns(".state"))
    assert main([str(root), "--check"]) == 0
    before = (root / "README.md").read_bytes()
    (root / "README.md").write_bytes(before.replace(b"# Unknown detection\n", b"# Something else\n"))
    assert main([str(root), "--check"]) == 1
    assert "README.md is out of date from line" in capsys.readouterr().out
    assert main([str(root)]) == 0
    assert (root / "README.md").read_bytes() == before
    assert main([str(root), "--check"]) == 0


def test_a_folder_without_a_release_is_refused(tmp_path, capsys):
    assert main([str(tmp_path)]) == 2
    assert "expected a release folder with a manifest.json" in capsys.readouterr().err


def test_label_names_in_the_yaml_are_the_benchmarks(cifar_release):
    infos = DatasetInfosDict.from_directory(str(cifar_release))
    labels = BENCHMARKS["cifar"].configs[0].labels
    assert infos["cifar"].features["label"].names == class_ids(labels, seed=0)
