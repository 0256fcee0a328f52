"""The dataset card: its YAML against `datasets`, its BibTeX, its tables against the manifest, and the command."""

import itertools
import json
import re
from pathlib import Path

import datasets
import pytest
import yaml
from datasets.info import DatasetInfosDict
from huggingface_hub import DatasetCard, eval_result_entries_to_yaml, parse_eval_result_entries
from PIL import Image

from builders.card import card
from builders.card.facts import MOST_CLASSES
from builders.card.metadata import croissant_text, front_matter
from builders.card.words import RULE_MEANINGS
from builders.registry import BENCHMARKS
from builders.release.layout import shard_path
from builders.release.manifest import read_manifest
from builders.release.schema import ROLES, arrow_schema
from builders.release.tables import read_excluded
from hf_scripts.card import main
from taxonomy.tables import imagenet1k
from tests import manifests
from tests.hf_scripts.samples import make_release
from tests.manifests import manifest_of, typed

LABELS = ["n01443537", "yes", "1e5", "0x1f", "no: colon", "ünïcode"]


@pytest.fixture(params=["imagenet_release", "cifar_release"])
def built(request):
    """A built release and its manifest."""
    root = request.getfixturevalue(request.param)
    return root, manifest_of(root)


def card_of(root):
    return front_of((root / "README.md").read_text(encoding="utf-8"))


def front_of(text):
    """The YAML of a card, and what follows it."""
    start, front, body = text.split("---\n", 2)
    assert start == ""
    return yaml.safe_load(front), body


def test_the_yaml_leads_datasets_to_the_files_and_counts_of_every_config(built):
    root, manifest = built
    front, _ = card_of(root)
    infos = DatasetInfosDict.from_directory(str(root))
    for config in front["configs"]:
        name = config["config_name"]
        if name == "duplicates":
            assert config["data_files"] == [{"split": "pairs", "path": "duplicates/pairs.parquet"}]
            assert infos[name].splits["pairs"].num_examples == manifest["duplicates"]["rows"]
            continue
        entry = manifest["configs"][name.removesuffix("-index")]
        data_files = datasets.load_dataset_builder(str(root), name).config.data_files
        assert {str(split) for split in data_files} == set(entry["splits"])
        for split, its in entry["splits"].items():
            listed = [its["index"]] if name.endswith("-index") else its["data"]
            assert [Path(path) for path in data_files[split]] == [root / item["path"] for item in listed]
            assert infos[name].splits[split].num_examples == manifests.rows_in(its)
            assert infos[name].splits[split].num_bytes == sum(item["bytes"] for item in listed)
    assert {config["config_name"] for config in front["configs"]} == set(infos)


def test_label_names_that_yaml_would_take_for_something_else(tmp_path):
    root = make_release(tmp_path / "release", {"bench/test": range(6)}, labels=LABELS)
    rows = datasets.load_dataset(str(root), "bench", split="test", cache_dir=str(tmp_path / "cache"))
    assert rows.features["label"].names == LABELS
    assert rows.features["role"].names == list(ROLES)


def made_up(shard_rows):
    """A manifest of every split that is usually built, with as many rows as complete sources give, and its shards."""

    def split(config, name, rows):
        of = -(-rows // shard_rows)
        data = [manifests.file(shard_path("data", f"{config}/{name}", n, of), size=499_999_999) for n in range(of)]
        index = manifests.file(f"index/{config}/{name}.parquet", size=99_999_999)
        return manifests.split(rows=rows, data=data, index=index)

    configs = {}
    for benchmark in BENCHMARKS.values():
        for key in benchmark.usual():
            config, _, name = key.partition("/")
            splits = configs.setdefault(config, manifests.config({}))["splits"]
            splits[name] = split(config, name, benchmark.count(key).rows)
    return typed(manifests.manifest(configs))


def test_all_benchmarks_in_one_release_have_little_front_matter():
    # Shards of 500 MB hold about 4,500 images of ImageNet (110 KB each).
    manifest = made_up(shard_rows=4_500)
    shards = [shard for split in manifest.by_key().values() for shard in split.data]
    front = front_matter(manifest)
    assert (len(front["configs"]), len(shards) > 170) == (66, True)
    # The 15,000 characters that three benchmarks with 66 splits in 26 configs were held to, for each split: OpenOOD's
    # configs have up to eight, and those have 2.5 on average.
    splits = sum(len(config["data_files"]) for config in front["configs"])
    assert len(yaml.safe_dump(front, sort_keys=False, allow_unicode=True)) < 15_000 / 66 * splits


def test_the_yaml_says_what_the_hub_reads(tmp_path):
    """Words as of hub-docs (datasetcard.md, datasets-gated.md), creators and sizes those that `datasets` lists."""
    root = make_release(tmp_path / "release", {"bench/test": range(3)}, publish="gated")
    front, text = card_of(root)
    data = DatasetCard.load(root / "README.md", repo_type="dataset").data
    assert data.to_dict() == front
    assert (data.license, front["license_link"], data.language) == ("other", "LICENSE.md", ["en"])
    assert "## The Source" in (root / front["license_link"]).read_text(encoding="utf-8")
    resources = Path(datasets.utils.__file__).parent / "resources"
    creators = json.loads((resources / "creators.json").read_text(encoding="utf-8"))["annotations"]
    assert set(data.annotations_creators) <= set(creators)
    assert set(data.size_categories) <= set(json.loads((resources / "size_categories.json").read_text()))
    assert data.source_datasets == ["extended|other-gated-source"]
    assert all(key in text for key in ("Its Licence", "Do as you are told."))
    # What somebody who asks for access reads and fills in; a field is a type, or a mapping that has one.
    assert "Its Licence (https://example.org/terms). Do as you are told." in front["extra_gated_prompt"]
    fields = front["extra_gated_fields"]
    assert set(fields.values()) <= {"text", "checkbox", "date_picker", "country", "select"}
    assert fields["I have read the terms of The Source and keep to them"] == "checkbox"
    for publish in ("open", "ids-only"):  # which need no request, or which no request gives
        front, _ = card_of(make_release(tmp_path / publish, {"bench/test": range(3)}, publish=publish))
        assert not any(key.startswith("extra_gated") for key in front)


def test_the_hub_s_results_would_claim_what_is_not_so():
    """Why a release has no eval.yaml: a result is one value of one config's split, and of no detector or metric.

    By the client's own parser of `.eval_results` (huggingface_hub 2.4). AUROC takes two splits, and detectors differ.
    """
    task = {"id": "org/name", "task_id": "bench-near_ood"}
    ours = [
        {"dataset": task, "value": 0.8, "metric": "auroc", "detector": "msp"},
        {"dataset": task, "value": 0.9, "metric": "auroc", "detector": "knn"},
        {"dataset": task, "value": 0.9, "metric": "fpr_at_95", "detector": "knn"},
    ]
    read = parse_eval_result_entries(ours)
    assert eval_result_entries_to_yaml(read) == [{"dataset": task, "value": entry["value"]} for entry in ours]
    assert read[1] == read[2]


def test_tables_have_every_split_and_what_each_rule_leaves_out(built):
    root, manifest = built
    _, text = card_of(root)
    for name, config in manifest["configs"].items():
        lines = read_excluded(root / config["excluded"]["path"])
        for split, entry in config["splits"].items():
            by_rule = {}
            for line in lines:
                if line.split == f"{name}/{split}" and line.images:
                    by_rule[line.rule] = by_rule.get(line.rule, 0) + line.images
            rules = ", ".join(f"{rule} {images:,}" for rule, images in sorted(by_rule.items()))
            assert f"| `{name}/{split}` | {rules or 'none'} |" in text
            (part,) = entry["parts"]
            counts = " | ".join(f"{part[k]:,}" for k in ("rows", "expected", "paper"))
            title = manifest["sources"][part["source"]]["title"]
            assert f"| `{split}` | {part['role']} | {title} | {counts} |" in text


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
    manifest = manifest_of(cifar_release)
    for split in manifest["configs"]["cifar"]["splits"].values():
        split["data"] = []
    front, text = front_of(card.card_text(typed(manifest)))
    assert "cifar" not in {config["config_name"] for config in front["configs"]}
    assert 'load_dataset(str(Path.cwd()), "cifar-index", split="test")' in text
    assert "This release has rows without images" not in text  # cifar-train has some


def test_withdrawn_rows_and_the_version_are_named(cifar_release):
    manifest = manifest_of(cifar_release)
    name = "dtd/banded/banded_0002.jpg#fixed-resize-32"
    row = {"id": name, "reason": "its owner asked"}
    manifest["configs"]["cifar"]["splits"]["far_ood_dtd"]["withdrawn"] = [row]
    published = {"version": "2.0.0", "repository": "org/name"}
    _, text = front_of(card.card_text(typed(manifest | published)))
    assert f"- `{name}` (cifar/far_ood_dtd): its owner asked" in text
    assert "**Version 2.0.0.**" in text
    assert 'load_dataset("org/name", "cifar", split="test", revision="v2.0.0")' in text
    assert "hf_scripts.materialize org/name --splits CONFIG --revision v2.0.0" in text


def snippets(text):
    """The Python examples of a card."""
    return re.findall(r"```python\n(.*?)```", text, re.S)


def test_what_the_card_says_to_paste_works_in_the_folder(imagenet_release, monkeypatch, tmp_path):
    """Demo images of ImageNet vary in size; grey and CMYK ones are among its classes."""
    monkeypatch.chdir(imagenet_release)
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", str(tmp_path))
    _, text = card_of(imagenet_release)
    load, pytorch, duplicates = snippets(text)
    loaded = {}
    exec(load, loaded)
    assert loaded["rows"].num_rows == loaded["labels"].num_rows == 400
    assert loaded["labels"].column_names == ["label", "role", "id"]
    assert loaded["labels"]["label"] == loaded["rows"]["label"]
    compared = {}
    exec(duplicates, compared)
    assert compared["rows"].num_rows == 399  # one test image is a near one's, as the table of the card says
    torch = pytest.importorskip("torch", reason="torch is not installed")
    batch = {}
    exec(pytorch, batch)
    assert batch["images"].shape == (400 % 64, 3, 224, 224) and batch["images"].dtype == torch.float32
    assert batch["images"].min() >= 0 and batch["images"].max() <= 1
    assert batch["labels"].tolist() == loaded["rows"]["label"][-(400 % 64) :]
    odd = [{"image": Image.new(mode, (5, 9)), "label": -1, "id": mode} for mode in ("L", "CMYK", "RGBA", "P", "1")]
    assert batch["collate"](odd)[0].shape == (5, 3, 224, 224)


@pytest.fixture(params=["imagenet_release", "cifar_release", "facets_release", "broad_release"])
def root(request):
    return request.getfixturevalue(request.param)


def test_rules_columns_roles_and_classes_are_explained(root):
    manifest = read_manifest(root)
    _, text = card_of(root)
    rules = {rule for split in manifest.by_key().values() for rule in split.excluded_by_rule}
    assert rules <= RULE_MEANINGS.keys()
    assert all(f"| `{rule}` | {RULE_MEANINGS[rule]} |" in text for rule in rules)
    for config in manifest.configs.values():
        schema = arrow_schema(config.label_names, config.columns)
        assert all(f"`{column}`" in text for column in schema.names)
        for role in {role for split in config.splits.values() for role in split.roles}:
            assert f"| {ROLES.index(role)} | `{role}` |" in text
    known = {item.wnid: item.name for item in imagenet1k()}
    for config in manifest.configs.values():
        if len(config.label_names) > MOST_CLASSES:
            assert f"`croissant.json` lists them with their names (`labels/{min(manifest.configs)}`)" in text
        else:
            assert all(f"`{label}` {known[label]}" in text for label in config.label_names if label in known)
    prose = re.sub(r"```.*?```", "an example", text, flags=re.S)
    assert not re.search(r"\{\{|\{%|\}\}|\n\n\n", prose)


def test_markdown_renders_tables_lists_and_pictures(cifar_release):
    """A table or list without a blank line above it would run into its paragraph."""
    _, text = card_of(cifar_release)
    lines = text.splitlines()
    for above, line in itertools.pairwise(lines):
        if re.match(r"\|[-:| ]+\|$", line):
            assert above.startswith("|") and above.count("|") == line.count("|"), line
        starts = line.startswith(("- ", "| ", "#", "![")) and not above.startswith(("- ", "|"))
        assert not starts or above == "", (above, line)
    for row in (line for line in lines if line.startswith("|")):
        assert row.endswith("|")


def test_neither_depends_on_the_order_in_the_manifest(broad_release):
    """A build has another order in memory than the manifest that it writes."""
    manifest = manifest_of(broad_release)
    turned = json.loads(json.dumps(manifest), object_pairs_hook=lambda pairs: dict(reversed(pairs)))
    assert list(turned["sources"]) == list(manifest["sources"])[::-1]
    assert card.card_text(typed(turned)) == (broad_release / "README.md").read_text(encoding="utf-8")
    assert croissant_text(typed(turned)) == (broad_release / "croissant.json").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["README.md", "croissant.json", "LICENSE.md"])
def test_a_byte_of_no_text_is_an_edit_like_others(name, tmp_path, capsys):
    root = make_release(tmp_path / "release", {"bench/test": range(1)})
    good = (root / name).read_bytes()
    (root / name).write_bytes(good[:40] + b"\xff" + good[40:])
    assert main([str(root), "--check"]) == 1
    line = good[:40].count(b"\n") + 1
    assert f"{root / name} is out of date from line {line} on" in capsys.readouterr().out
    assert main([str(root)]) == 0
    assert (root / name).read_bytes() == good
    (root / name).unlink()
    assert main([str(root), "--check"]) == 1
    assert f"{name} is missing" in capsys.readouterr().out


def test_texts_of_a_manifest_are_no_html_in_the_card(tmp_path):
    root = make_release(tmp_path / "release", {"bench/test": range(1)})
    manifest = manifest_of(root)
    html = "<img src=x onerror=alert(1)><!-- </details> --> 1 < 2 & <b>"
    manifest["configs"]["bench"]["description"] = html
    manifest["benchmarks"]["bench"] |= {"title": html, "paper": html, "citation": "@misc{a, title={```<script>}}"}
    manifest["sources"]["source"] |= {"title": html, "citation": f"@misc{{b, note={{{html}}}}}"}
    manifest["sources"]["source"]["licence"] |= {"statement": html, "name": html}
    split = manifest["configs"]["bench"]["splits"]["test"]
    split["parts"][0]["why"], split["shortfalls"] = html, [html]
    manifest["configs"]["bench"]["label_names"] = ["`</code><b>", "n02"]
    front, text = front_of(card.card_text(typed(manifest)))
    assert front["size_categories"] == ["n<1K"]  # YAML, which is no Markdown
    assert "&lt;img src=x onerror=alert(1)>&lt;!-- &lt;/details> --> 1 &lt; 2 & &lt;b>" in text
    allowed = {"<details>", "<summary>", "</summary>", "</details>"}
    fences = re.sub(r"^```python.*?^```$", "", text, flags=re.M | re.S)
    tags = set(re.findall(r"<[^>\s]*>?", re.sub(r"`[^`\n]*`", "", fences)))
    assert tags <= allowed, tags - allowed
