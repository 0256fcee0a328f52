"""Damaged and malicious variants of a manifest: its values replaced, removed, added to, and its text broken."""

import copy
import json

TERMINAL = "\x1b[2J\nwhole: all is well"

VALUES = {
    "null": None,
    "true": True,
    "zero": 0,
    "minus": -1,
    "more": 30_000_000,
    "most": 10**15,
    "over": 10**15 + 1,
    "huge": 10**4_000,
    "half": 0.5,
    "nan": float("nan"),
    "infinity": float("inf"),
    "empty": "",
    "word": "x",
    "terminal": TERMINAL,
    "lines": "a\nb",
    "surrogate": "a\ud800b",
    "bidirectional": "a\u202eb",
    "up": "../../outside",
    "absolute": "/etc/passwd",
    "inside": "data/../../outside",
    "card": "README.md",
    "manifest": "manifest.json",
    "state": ".state/lock",
    "long": "x" * 200_000,
    "digest": "0" * 64,
    "list": [],
    "nulls": [None],
    "words": ["x", "x"],
    "lists": [[[]]],
    "object": {},
    "other": {"x": 1},
    "terminal key": {TERMINAL: TERMINAL},
}

REMOVED, ADDED, RENAMED, DOUBLED = "removed", "added", "renamed", "doubled"

NAMES = ["", "..", "../../outside", "A", "x", TERMINAL, "a\ud800", "a\u202e", "x" * 1_000, "x-index", "duplicates"]


def places(node, path=()):
    """Every place in a manifest, one for each shape: of many configs, splits and files the first stands for all."""
    seen = set()
    for place in _places(node, path):
        shape = tuple(name if isinstance(name, str) and name in KEYS else "*" for name in place)
        if shape not in seen:
            seen.add(shape)
            yield place


def _places(node, path):
    yield path
    if isinstance(node, dict):
        for name, value in node.items():
            yield from _places(value, (*path, name))
    elif isinstance(node, list):
        for number, value in enumerate(node):
            yield from _places(value, (*path, number))


KEYS = {
    *("format", "benchmarks", "configs", "sources", "withdrawn", "duplicates", "card", "version", "previous"),
    *("changelog", "path", "bytes", "sha256", "name", "url", "publish", "statement", "title", "edition", "licence"),
    *("citation", "paper", "seed", "limit_per_class", "demo", "roles_by_config", "role", "source", "partitions"),
    *("rows", "expected", "why", "available", "excluded", "excluded_by_rule", "key", "adopted", "labelled", "classes"),
    *("paper_classes", "id", "reason", "split", "parameters", "weights", "reproducible", "shortfalls", "digest"),
    *("data", "index", "made", "generator", "parts", "type", "description", "benchmark"),
    *("label_names", "columns", "nullable", "splits", "by", "with", "other_split", "pairs"),
    *("two_roles", "two_classes", "compared", "counts"),
}
"""Names of fields; all other keys are names of configs, splits, sources, rules, ..."""


def mutations(manifest, values=VALUES):
    """Variants of a manifest by a name that says what was done where, as JSON text in UTF-8."""
    for place in places(manifest):
        where = "/".join(map(str, place))
        for name, value in values.items():
            yield f"{where} {name}", encoded(_with(manifest, place, value))
        if place:
            yield f"{where} {REMOVED}", encoded(_changed(manifest, place, lambda parent, key: parent.pop(key)))
        node = _at(manifest, place)
        if isinstance(node, dict):
            yield f"{where} {ADDED}", encoded(_with(manifest, (*place, "colour"), "red"))
            for name in NAMES if node else ():
                renamed = {name if number == 0 else key: value for number, (key, value) in enumerate(node.items())}
                yield f"{where} {RENAMED} {name[:20]!a}", encoded(_with(manifest, place, renamed))
                more = {**node, name: next(iter(node.values()))}
                yield f"{where} {ADDED} {name[:20]!a}", encoded(_with(manifest, place, more))
        elif isinstance(node, list) and node:
            yield f"{where} {DOUBLED}", encoded(_with(manifest, place, node * 2))


def broken_texts(manifest):
    """What is no JSON, or not the JSON of a manifest, by name."""
    text = encoded(manifest)
    yield "nothing", b""
    yield "blank", b" \n"
    yield "deep lists", b"[" * 100_000
    yield "deep objects", b'{"a":' * 100_000
    yield "deep value", text.replace(b'"withdrawn": [', b'"withdrawn": [' + b"[" * 100_000, 1)
    yield "many digits", b"9" * 5_000
    yield "many digits inside", text.replace(b'"rows": ', b'"rows": ' + b"9" * 5_000, 1)
    yield "constant", b"NaN"
    yield "mark", b"\xef\xbb\xbf" + text
    yield "UTF-16", text.decode().encode("utf-16")
    yield "Latin-1", text.replace(b'"title": "', b'"title": "\xe9', 1)
    yield "zeros", bytes(1_000)
    yield "two", text + text
    yield "repeated key", b'{"format": 1, ' + text[1:]
    yield "repeated key inside", text.replace(b'"rows": ', b'"rows": 1, "rows": ', 1)
    for part in range(1, 20):
        yield f"cut {part}", text[: len(text) * part // 20]
        at = len(text) * part // 20
        yield f"flipped {part}", text[:at] + bytes([text[at] ^ 0x55]) + text[at + 1 :]


def encoded(manifest):
    """A manifest as JSON with lone surrogates as escapes, as anybody can write them."""
    return json.dumps(manifest).encode()


def _at(node, place):
    for name in place:
        node = node[name]
    return node


def _with(manifest, place, value):
    if not place:
        return value

    def put(parent, key):
        parent[key] = value

    return _changed(manifest, place, put)


def _changed(node, place, change):
    """A copy in which a place is changed; what does not lie on the way there is shared with the original."""
    found = copy.copy(node)
    if len(place) == 1:
        change(found, place[0])
    else:
        found[place[0]] = _changed(node[place[0]], place[1:], change)
    return found
