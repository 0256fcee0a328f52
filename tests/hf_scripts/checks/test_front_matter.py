"""YAML in bad faith: each is refused in one sentence, in bounded time and memory."""

import time
import tracemalloc

import pytest
import yaml

from hf_scripts.checks.front_matter import MOST_BYTES, FrontMatterError, read_front_matter

BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{here}: &{here} [{', '.join([f'*{before}'] * 9)}]\n" for before, here in zip("abcdefgh", "bcdefghi", strict=True)
)
"""Nine levels of nine: 9^9 entries if the aliases are expanded."""

HOSTILE = {
    "bomb": (BOMB, "has an anchor or alias (line 2)"),
    "bomb in configs": (f"{BOMB}configs: *i", "has an anchor or alias"),
    "anchor": ("a: &here 1", "has an anchor or alias (line 2)"),
    "merge": ("<<: *a", "has an anchor or alias"),
    "python": (
        "a: !!python/object/apply:os.system [id]",
        "has a tag, tag:yaml.org,2002:python/object/apply:os (line 2)",
    ),
    "tag": ("configs: !thing\n- a", "has a tag, !thing (line 2)"),
    "binary": ("a: !!binary aGVsbG8=", "has a tag, tag:yaml.org,2002:binary"),
    "date": ("a: 2024-99-99", "has an impossible value (month must be in 1..12"),
    "time": ("a: 2024-01-01T25:00:00", "has an impossible value (hour must be in 0..23"),
    "number": ("a: " + "9" * 6_000, "has a number of 6,000 characters (line 2)"),
    "base 60": ("a: 1" + ":1" * 50_000, "has a number of 100,001 characters"),
    "flow nesting": ("a: " + "[" * 100_000, "is nested more than 20 levels deep"),
    "flow mappings": ("a: " + "{b: " * 40_000, "is nested more than 20 levels deep"),
    "block nesting": ("- " * 100_000, "is nested more than 20 levels deep"),
    "keys nesting": ("? " * 100_000, "has a key that is not text"),
    "many": ("a: [" + "b, " * 60_000 + "]\nconfigs: 3\nconfigs: 4", "repeats the key configs (line 4)"),
    "long": ("a: b\n" * 200_000, f"the YAML has 1,000,000 bytes, more than the limit of {MOST_BYTES:,}"),
    "repeated": ("a: 1\nb: 2\na: 3", "repeats the key a (line 4)"),
    "repeated inside": ("a:\n- b: 1\n  b: 2", "repeats the key b (line 4)"),
    "list key": ("? [a, b]\n: c", "has a key that is not text"),
    "value": ("a: =", "cannot be parsed: could not determine a constructor"),
    "open": ("configs: [", "cannot be parsed: "),
    "tabs": ("a:\n\t- b", "cannot be parsed: "),
    "control": ("a: \x00", "cannot be parsed: control characters are not allowed"),
    "documents": ("a: 1\n...\n---  \nb: 2", "cannot be parsed: but found another document"),
    "list": ("- a", "is not a mapping"),
    "nothing": ("", "is not a mapping"),
    "text": ("abc", "is not a mapping"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_yaml_is_refused_at_once(name):
    text, reason = HOSTILE[name]
    started = time.process_time()
    with pytest.raises(FrontMatterError) as caught:
        read_front_matter(f"---\n{text}\n---\n")
    took = time.process_time() - started
    assert reason in str(caught.value) and str(caught.value).isprintable()
    assert len(str(caught.value)) < 200
    assert took < 2, took


@pytest.mark.parametrize("name", ["bomb in configs", "many", "flow nesting", "base 60"])
def test_hostile_yaml_takes_little_memory(name):
    tracemalloc.start()
    with pytest.raises(FrontMatterError):
        read_front_matter(f"---\n{HOSTILE[name][0]}\n---\n")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 50_000_000, peak


@pytest.mark.parametrize("text", ["", "# Title\n", "---\na: 1\n", "text\n---\na: 1\n---\n", " ---\na: 1\n---\n"])
def test_a_card_without_yaml(text):
    with pytest.raises(FrontMatterError, match="there is no YAML between two lines of --- at its beginning"):
        read_front_matter(text)


def test_yaml_as_cards_have_it_is_read():
    front = {"license": "other", "configs": [{"config_name": "a", "data_files": [{"split": "b", "path": ["c", "d"]}]}]}
    front |= {"dataset_info": [{"config_name": "a", "splits": [{"name": "b", "num_bytes": 12, "num_examples": 3}]}]}
    text = f"---\n{yaml.safe_dump(front, sort_keys=False)}\n---\n# Title\n---\n"
    assert read_front_matter(text) == front


def test_the_limit_is_read_in_time():
    """The largest YAML that is not refused, with as many entries as fit."""
    text = "configs:\n" + "- a\n" * ((MOST_BYTES - 100) // 4)
    started = time.process_time()
    assert len(read_front_matter(f"---\n{text}\n---\n")["configs"]) == (MOST_BYTES - 100) // 4
    assert time.process_time() - started < 2
