"""The page of a release: what it says, what it never shows, and how it looks and works in Chromium."""

import html
import os
import re
import shutil
from types import SimpleNamespace

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from builders.release.entries import SourceEntry
from builders.release.layout import Layout
from builders.release.manifest import file_entry, read_manifest
from builders.release.tables import Exclusion, write_excluded
from builders.report.page import page
from tests.browser import WIDTHS, assert_nothing_overflows, look_at
from tests.unknown_detection.pages.samples import HOSTILE
from unknown_detection.pages.content import safe_href

SPLITS = ("near_ood", "test")


@pytest.fixture(scope="session")
def part(imagenet_release, tmp_path_factory):
    """A release with two splits of the demo, which a browser looks at quickly, and its page."""
    root = tmp_path_factory.mktemp("part") / "unknown-detection"
    shutil.copytree(imagenet_release, root, copy_function=os.link, ignore=shutil.ignore_patterns(".state"))
    manifest = read_manifest(root)
    config = manifest.configs["imagenet"]
    splits = {name: config.splits[name] for name in SPLITS}
    manifest = msgspec.structs.replace(
        manifest, configs={"imagenet": msgspec.structs.replace(config, splits=splits)}, audits={}
    )
    path = root.with_name("page.html")
    path.write_text(page(root, manifest, "all"), encoding="utf-8")
    return SimpleNamespace(root=root, manifest=manifest, path=path, text=path.read_text(encoding="utf-8"))


def section(text, anchor):
    return text.partition(f'<section id="{anchor}"')[2].partition("\n<section id=")[0]


def words(markup):
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", markup)).split())


def test_the_page_says_what_the_release_is(part):
    top = words(part.text.partition("<body>")[2].partition("<nav")[0])
    assert "Built from demo sources" in top
    assert "rows 800 in 2 splits" in top  # 400 each, as the README's build has
    assert "Unified unknown detection benchmark, ImageNet scale , version 1.1.0" in words(
        section(part.text, "summary")
    )


def test_digests_licences_and_commands_are_there(part):
    text = words(part.text)
    for key, _, split in part.manifest.splits():
        assert f"{key} 400 {split.digest}" in text
    for source in part.manifest.sources.values():
        assert " ".join(source.licence.statement.split()) in text
    assert f"python -m hf_scripts.verify {part.root}" in text
    assert "python -m builders.imagenet_benchmark --splits imagenet --demo --out build/again" in text
    assert f'imagenet = load_dataset("{part.root}", "imagenet", split="test")' in text
    assert f"python -m builders.commands.audit artifacts {part.root} --splits imagenet" in text


def test_the_page_needs_nothing_else(part):
    addresses = re.findall(r'(?:src|href|action|data|poster)="([^"]*)"', part.text)
    assert addresses
    for address in addresses:
        assert address.startswith(("data:", "#", "http://", "https://")), address
    assert set(re.findall(r'<(\w+)[^>]* href="http', part.text)) == {"a"}  # followed by a reader alone
    assert all(source.startswith("data:image/") for source in re.findall(r' src="([^"]{0,20})', part.text))
    assert "url(" not in part.text
    assert "@import" not in part.text


def test_a_page_with_pictures_that_not_everybody_may_see_says_so(part):
    assert part.text.count("data:image/") == 24
    assert "Keep this page on this machine" in part.text
    assert "It shows small pictures of ImageNet-1k (ILSVRC2012), whose licences" in words(part.text)
    for shown in ("publishable", "none"):
        without = page(part.root, part.manifest, shown)
        assert "data:image/" not in without
        assert "Keep this page on this machine" not in without
        assert "No pictures: " in without


def test_a_release_without_images_says_so(small):
    manifest = read_manifest(small)
    config = manifest.configs["bench"]
    splits = {name: msgspec.structs.replace(split, data=()) for name, split in config.splits.items()}
    bare = msgspec.structs.replace(manifest, configs={"bench": msgspec.structs.replace(config, splits=splits)})
    text = html.unescape(page(small, bare, "all"))
    assert text.count("No pictures: the release has the split's index alone.") == 2
    assert f'load_dataset("{small}", "bench-index"' in text
    assert "This release has no table of duplicates" in text


def hostile(root):
    """A release whose every text is written in bad faith, and its manifest."""
    manifest = read_manifest(root)
    for split in manifest.by_key().values():
        path = root / split.index.path
        table = pq.read_table(path)
        for name in ("class_id", "class_name"):
            place = table.schema.get_field_index(name)
            table = table.set_column(place, table.schema.field(name), pa.array([HOSTILE] * table.num_rows))
        pq.write_table(table, path)
    lines = [
        Exclusion(HOSTILE, "closed_source", HOSTILE, HOSTILE, HOSTILE, image, 1, HOSTILE, HOSTILE)
        for image in ("", HOSTILE)
    ]
    write_excluded(Layout(root).excluded("bench"), lines, ["bench/test", "bench/near_ood"])
    licence = msgspec.structs.replace(
        manifest.sources["closed_source"].licence,
        name=HOSTILE,
        url="javascript:alert(1)",
        publish=HOSTILE,
        statement=HOSTILE,
    )
    source = SourceEntry(title=HOSTILE, edition=HOSTILE, licence=licence, citation=HOSTILE)
    benchmark = msgspec.structs.replace(
        manifest.benchmarks["bench"], title=HOSTILE, paper=HOSTILE, citation=HOSTILE, version=HOSTILE
    )
    config = manifest.configs["bench"]
    splits = {}
    for name, split in config.splits.items():
        part = msgspec.structs.replace(split.parts[0], why=HOSTILE, excluded_by_rule={HOSTILE: 3})
        index = file_entry(Layout(root), root / split.index.path)
        splits[name] = msgspec.structs.replace(split, parts=(part,), shortfalls=(HOSTILE,), index=index)
    excluded = file_entry(Layout(root), Layout(root).excluded("bench"))
    config = msgspec.structs.replace(config, description=HOSTILE, splits=splits, excluded=excluded)
    return msgspec.structs.replace(
        manifest,
        version=HOSTILE,
        previous=HOSTILE,
        benchmarks={"bench": benchmark},
        configs={"bench": config},
        sources={"closed_source": source},
    )


def test_a_release_that_was_written_in_bad_faith_runs_nothing(small, tmp_path, open_page):
    text = page(small, hostile(small), "all")
    assert "<script>document" not in text
    assert "<img src=x" not in text
    assert "</script><" not in text.partition('id="class-data">')[2].partition("</script>")[0]
    assert 'href="javascript' not in text
    assert safe_href("javascript:alert(1)") == ""
    path = tmp_path / "page.html"
    path.write_text(text, encoding="utf-8")
    opened = open_page(path)
    opened.locator("#tree summary").first.click()
    for place in (1, 2):
        opened.locator("#tree summary").nth(place).click()
    assert HOSTILE in opened.locator("#tree").inner_text()
    assert opened.title() != "seized"
    assert opened.locator("#tree dl img, #tree dl script, #tree dl b").count() == 0
    assert opened.complaints == []
    opened.set_viewport_size({"width": WIDTHS["phone"], "height": 900})
    assert_nothing_overflows(opened)


def test_the_page_looks_right_at_every_width_and_in_every_scheme(part, open_page):
    look_at(open_page, part.path)


def test_classes_are_searched_and_opened_by_keyboard(part, open_page):
    opened = open_page(part.path)
    tree = opened.locator("#tree")
    assert tree.locator(":scope > ul > li").count() == 4  # the sources of the config
    opened.get_by_label("Search classes by name, id, rule or evidence").focus()
    opened.keyboard.type("n01443537")
    leaf = tree.locator("summary", has_text="n01443537")
    assert leaf.count() == 1
    assert leaf.locator(".chip").all_inner_texts() == ["in-distribution"]
    while leaf.count() and not leaf.evaluate("it => it === document.activeElement"):
        opened.keyboard.press("Tab")
    opened.keyboard.press("Enter")
    text = tree.locator("dl").inner_text()
    assert "imagenet/test 2" in text
    assert "Left out: tiny_imagenet" in text
    assert "goldfish is a class of Tiny ImageNet" in text

    # The rules and the evidence are searched, too: crane's label is that of the machine.
    opened.get_by_label("Search classes by name, id, rule or evidence").fill("same_label")
    assert tree.locator("summary code").all_inner_texts() == ["n02012849"]
    assert tree.locator(".chip").all_inner_texts() == ["left out"]
    opened.get_by_label("Search classes by name, id, rule or evidence").fill("no such class")
    assert tree.locator("output").inner_text() == "0 of 1,564 classes"  # 1,000, and what the far splits leave out
