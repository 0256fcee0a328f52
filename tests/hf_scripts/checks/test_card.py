"""The dataset card, as `verify` checks it: its digest, and that its YAML is the manifest's."""

import time
import tracemalloc

import pytest
import yaml

from builders.release.manifest import read_manifest
from hf_scripts.checks.problems import Problems
from hf_scripts.checks.release import check_card
from tests.hf_scripts.samples import make_release
from tests.hf_scripts.tampering import built, check, copy, problems, replace, replace_by
from tests.manifests import entry_of, manifest_of, typed

__all__ = ["built", "check", "copy", "problems"]


def test_a_card_that_is_gone(copy, problems):
    (copy / "README.md").unlink()
    assert problems() == ["README.md: cannot be read: No such file or directory"]


# Cards in bad faith


@pytest.fixture
def small(tmp_path):
    """A release, and its card's problems after an edit of the card that the manifest lists."""
    root = make_release(tmp_path / "release", {"bench/test": range(4)}, shards=2)
    text = (root / "README.md").read_text(encoding="utf-8")

    def edit(change):
        card = change(text) if callable(change) else change
        replace(root / "README.md", card if isinstance(card, bytes) else card.encode())
        manifest = manifest_of(root)
        manifest["card"] = entry_of(root, "README.md")
        problems = Problems()
        check_card(root, typed(manifest), problems)
        return list(problems.lines())

    edit.root = root
    assert edit(text) == []
    return edit


HOSTILE = {
    "bomb": "a: &a [x, x]\n"
    + "".join(f"{b}: &{b} [{f'*{a}, ' * 9}]\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True)),
    "python": "a: !!python/object/apply:os.system [id]",
    "date": "a: 2024-99-99",
    "number": "a: " + "9" * 6_000,
    "base 60": "a: 1" + ":1" * 50_000,
    "flow nesting": "a: " + "[" * 100_000,
    "block nesting": "- " * 100_000,
    "long": "a: b\n" * 200_000,
    "repeated": "a: 1\na: 3",
    "open": "configs: [",
    "control": "a: \x00",
    "documents": "a: 1\n...\n---  \nb: 2",
    "nothing": "",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_yaml_is_refused_at_once_and_never_parsed(small, monkeypatch, name):
    for loader in ("load", "safe_load", "parse", "compose", "scan"):
        monkeypatch.setattr(yaml, loader, lambda *_, **__: pytest.fail("the card's YAML was parsed"))
    started, text = time.process_time(), f"---\n{HOSTILE[name]}\n---\n"
    tracemalloc.start()
    (line,) = small(text)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert line.startswith("README.md line 2: is ") and line.isprintable() and len(line) < 500
    assert time.process_time() - started < 2 and peak < 50_000_000


@pytest.mark.parametrize(
    ("card", "sentence"),
    [
        (b"\xff\xfe---\n", "cannot be read: it is not UTF-8 text (byte 0)"),
        (b"---\n" + b"a" * 2_100_000 + b"\n---\n", "cannot be read: it has more than 2,000,000 bytes"),
        (b"# Title\n", "line 1: is '# Title', not '---' as manifest.json gives"),
        ("\ufeff---\n".encode(), "line 1: is '\\ufeff---', not '---' as manifest.json gives"),
        (b"---\r\n", "line 1: is '---\\r', not '---' as manifest.json gives"),
        (b"", "line 1: is '', not '---' as manifest.json gives"),
    ],
)
def test_a_card_without_yaml_that_can_be_read(small, card, sentence):
    (line,) = small(card)
    assert sentence in line


@pytest.mark.parametrize("kind", ["fifo", "folder", "device"])
def test_a_card_that_is_no_regular_file(small, kind):
    replace_by(kind, small.root / "README.md")
    found = Problems()
    check_card(small.root, read_manifest(small.root), found)
    assert list(found.lines()) == ["README.md: is not a regular file"]
