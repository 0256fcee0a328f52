"""Is the manifest one that can be worked with? Its form, the files that it lists, and files that it does not list."""

from __future__ import annotations

import json
import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from builders.errors import BuildError
from builders.release.columns import listed_column
from builders.release.digests import file_sha256
from builders.release.duplicates import KEY, METHODS
from builders.release.layout import FOLDERS, Layout
from builders.release.manifest import FORMAT, parts_of, read_manifest
from builders.release.schema import ROLES
from builders.storage.atomic import TEMPORARY
from hf_scripts.checks.problems import Problems

# What publishing adds: the list of versions, and what each of them changed.
CHANGELOG = "CHANGELOG.md"
CHANGES = "changes"

_MANIFEST = {"benchmarks": dict, "configs": dict, "sources": dict, "card": dict}
_FILE = {"path": str, "bytes": int, "sha256": str}
_BENCHMARK = {"title": str, "version": str, "paper": str, "citation": str, "demo": bool}
_CONFIG = {
    "benchmark": str,
    "description": str,
    "label_names": list,
    "columns": list,
    "excluded": dict,
    "splits": dict,
}
_SOURCE = {"title": str, "edition": str, "licence": dict, "citation": str}
_LICENCE = {"name": str, "url": str, "publish": str}
_COUNTS = {
    "rows": int,
    "expected": int,
    "paper": int,
    "why": str,
    "available": int,
    "excluded": int,
    "excluded_by_rule": dict,
}
_ORIGIN = {"role": str, "source": str, "partitions": list}
# A part of a split that is joined; one that is not has its own role and source.
_PART = _ORIGIN | _COUNTS | {"name": str, "labelled": bool, "classes": int, "paper_classes": int, "adopted": str}
_GENERATOR = {"name": str, "version": int, "parameters": dict, "weights": dict, "reproducible": str}
_SPLIT = _COUNTS | {
    "withdrawn": list,
    "shortfalls": list,
    "digest": str,
    "data": list,
    "index": dict,
}


@dataclass(frozen=True)
class Listed:
    """One file as the manifest lists it; `path` is relative to the release."""

    path: str
    bytes: int
    sha256: str


def load(root: Path, problems: Problems, name: str = "") -> dict[str, Any] | None:
    """Read the manifest and check its form.

    Args:
        root: the release folder.
        problems: where to add what is wrong.
        name: what to call the release where the folder is only a place for downloads.

    Returns:
        The manifest, or None where nothing else can be checked with it.

    Raises:
        BuildError: there is no release, or it is of a format that this version does not know.
    """
    path = Layout(root).manifest
    if path.is_file():
        try:
            parsed = json.loads(path.read_bytes())
        except ValueError as error:
            problems.add("manifest", f"manifest.json: expected JSON, found other text ({error})")
            return None
        except OSError as error:
            raise BuildError(f"expected to read {path}, found {error.strerror}; mend that and run again.") from error
        if not isinstance(parsed, dict):
            problems.add("manifest", f"manifest.json: expected an object, found {_named(type(parsed))}")
            return None
        if name and parsed.get("format") != FORMAT:
            found = parsed.get("format")
            raise BuildError(
                f"expected manifest format {FORMAT}, found {found} in {name}; use the version that wrote it."
            )
    manifest = read_manifest(root)
    before = problems.total()
    for sentence in _wrong_form(manifest):
        problems.add("manifest", f"manifest.json: {sentence}")
    return manifest if problems.total() == before else None


def splits(manifest: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any], Mapping[str, Any]]]:
    """All splits, sorted: `config/split`, the config's entry and the split's entry."""
    for config_name, config in sorted(manifest["configs"].items()):
        for name, split in sorted(config["splits"].items()):
            yield f"{config_name}/{name}", config, split


def listed_files(manifest: Mapping[str, Any]) -> list[Listed]:
    """Every file that the manifest lists, sorted; one that several configs share comes once."""
    configs = manifest["configs"].values()
    entries = [config[name] for config in configs for name in ("excluded", "audit") if name in config]
    for _, _, split in splits(manifest):
        entries += [split["index"], *split["data"]]
    entries += [manifest[KEY]] if KEY in manifest else []
    entries += manifest.get("changelog", [])
    return sorted({Listed(e["path"], e["bytes"], e["sha256"]) for e in entries}, key=lambda f: (f.path, f.sha256))


def check_file(root: Path, listed: Listed) -> Problems:
    """Check that a listed file is there with the right bytes and digest."""
    problems = Problems()
    path = root / listed.path
    try:
        size = path.stat().st_size if path.is_file() else -1
        if size < 0:
            problems.add("file missing", f"{listed.path}: expected a file, found none")
        elif size != listed.bytes:
            problems.add("file size", f"{listed.path}: expected {listed.bytes:,} bytes, found {size:,}")
        elif (digest := file_sha256(path)) != listed.sha256:
            problems.add("file digest", f"{listed.path}: expected SHA-256 {listed.sha256}, found {digest}")
    except OSError as error:
        problems.add("file unreadable", f"{listed.path}: expected a readable file, found {error.strerror}")
    return problems


def check_strays(root: Path, files: list[Listed]) -> Problems:
    """Check that nothing lies in the release that would be published and that the manifest does not list."""
    problems = Problems()
    known: set[str] = set()
    for file in files:
        if file.path in known:
            problems.add(
                "manifest", f"manifest.json: expected one size and digest of {file.path}, found two that differ"
            )
        known.add(file.path)
    for path in _published(root):
        name = path.relative_to(root).as_posix()
        if path.name.startswith(".") and path.name.endswith(TEMPORARY):
            problems.add("temporary file", f"{name}: expected no temporary file, found what a killed run left")
        elif path.parent != root and name not in known:
            problems.add("file not listed", f"{name}: expected only files that manifest.json lists, found this one")
    return problems


def check_tree(tree: Mapping[str, tuple[int, str]], manifest: Mapping[str, Any]) -> Problems:
    """Check that a repository holds what its manifest lists, and nothing else.

    Args:
        tree: size and SHA-256 of every file of a commit, without what the Hub puts there itself. The digest is empty
            for small files, of which the Hub does not say it.
        manifest: the commit's manifest.
    """
    problems = Problems()
    files = {file.path: file for file in [*listed_files(manifest), Listed(**manifest["card"])]}
    for _, file in sorted(files.items()):
        problems.merge(check_stored(file, tree))
    problems.merge(check_unlisted(tree, manifest))
    return problems


def check_stored(file: Listed, tree: Mapping[str, tuple[int, str]]) -> Problems:
    """Check that a repository has a listed file with the right size and, where the Hub says it, the right digest."""
    problems = Problems()
    size, digest = tree.get(file.path, (-1, ""))
    if size < 0:
        problems.add("file missing", f"{file.path}: expected a file, found none")
    elif size != file.bytes:
        problems.add("file size", f"{file.path}: expected {file.bytes:,} bytes, found {size:,}")
    elif digest and digest != file.sha256:
        problems.add("file digest", f"{file.path}: expected SHA-256 {file.sha256}, found {digest}")
    return problems


def check_unlisted(paths: Iterable[str], manifest: Mapping[str, Any]) -> Problems:
    """Check that a repository, of which `paths` are all files, holds nothing that its manifest does not list."""
    problems = Problems()
    known = {"manifest.json", manifest["card"]["path"], *(file.path for file in listed_files(manifest))}
    for path in sorted(set(paths) - known):
        problems.add("file not listed", f"{path}: expected only files that manifest.json lists, found this one")
    return problems


def _published(root: Path) -> Iterator[Path]:
    yield from sorted(path for path in root.iterdir() if path.is_file())
    for folder in (*FOLDERS, CHANGES):
        for path in sorted((root / folder).rglob("*")):
            if not stat.S_ISDIR(path.lstat().st_mode):
                yield path


def _wrong_form(manifest: Mapping[str, Any]) -> Iterator[str]:
    """What keeps the other checks from reading the manifest."""
    shape = list(_wrong_keys("the manifest", manifest, _MANIFEST))
    if shape:
        yield from shape
        return
    yield from _wrong_keys("card", manifest["card"], _FILE)
    if not manifest["configs"]:
        yield "expected at least one config, found none"
    for kind, keys in (("benchmarks", _BENCHMARK), ("configs", _CONFIG), ("sources", _SOURCE)):
        for name, entry in sorted(manifest[kind].items()):
            shape = list(_wrong_keys(f"{kind}/{name}", entry, keys))
            yield from shape
            if kind == "configs" and not shape:
                yield from _wrong_config(manifest, name, entry)
            if kind == "sources" and not shape:
                yield from _wrong_keys(f"the licence of {name}", entry["licence"], _LICENCE)
    if KEY in manifest:
        yield from _wrong_duplicates(manifest[KEY])
    yield from _wrong_published(manifest)


def _wrong_duplicates(entry: object) -> Iterator[str]:
    """What keeps the table of duplicates from being read."""
    shape = list(_wrong_keys(KEY, entry, _FILE | {"rows": int, "compared": list}))
    yield from shape
    if shape or not isinstance(entry, dict):
        return
    yield from _wrong_file(KEY, entry)
    for compared in entry["compared"]:
        shape = list(_wrong_keys(f"compared of {KEY}", compared, {"by": str, "splits": list, "with": list}))
        yield from shape
        if not shape and compared["by"] not in METHODS:
            yield f"expected {KEY} to be compared by {', '.join(METHODS)}, found {compared['by']}"
        if not shape and not all(isinstance(key, str) for key in (*compared["splits"], *compared["with"])):
            yield f"expected names of splits in compared of {KEY}, found something else"


def _wrong_published(manifest: Mapping[str, Any]) -> Iterator[str]:
    """What publishing adds, where it did."""
    if "version" in manifest:
        yield from _wrong_keys("the manifest", manifest, {"version": str, "previous": str, "changelog": list})
    changelog = manifest.get("changelog", [])
    for entry in changelog if isinstance(changelog, list) else []:
        shape = list(_wrong_keys("a file of changelog", entry, _FILE))
        yield from shape
        if not shape and entry["path"] != CHANGELOG and PurePosixPath(entry["path"]).parent.as_posix() != CHANGES:
            yield f"expected {CHANGELOG} and files in {CHANGES} in changelog, found {entry['path']}"


def _wrong_config(manifest: Mapping[str, Any], name: str, config: Mapping[str, Any]) -> Iterator[str]:
    labels = config["label_names"]
    if not all(isinstance(label, str) for label in labels) or len(set(labels)) != len(labels) or not labels:
        yield f"expected label_names of {name} to be different words, found others"
    yield from _wrong_columns(name, config["columns"])
    if "near_duplicate_of" in config["columns"]:
        yield from _wrong_keys(name, config, {"duplicates_of": str})
        yield from _wrong_file(f"audit of {name}", config.get("audit"))
    if config["benchmark"] not in manifest["benchmarks"]:
        yield f"expected the benchmark of {name} under benchmarks, found no {config['benchmark']} there"
    yield from _wrong_file(f"excluded of {name}", config["excluded"])
    for split_name, split in sorted(config["splits"].items()):
        key = f"{name}/{split_name}"
        shape = [*_wrong_keys(key, split, _SPLIT), *_wrong_parts(key, split)]
        if shape:
            yield from shape
            continue
        for part_key, part in parts_of(key, split).items():
            if part["role"] not in ROLES:
                yield f"expected role of {part_key} to be one of {', '.join(ROLES)}, found {part['role']}"
            if part["source"] not in manifest["sources"]:
                yield f"expected the source of {part_key} under sources, found no {part['source']} there"
        for entry in (split["index"], *split["data"]):
            yield from _wrong_file(f"a file of {key}", entry)
        if "generator" in split:
            yield from _wrong_keys(f"generator of {key}", split["generator"], _GENERATOR)


def _wrong_columns(name: str, columns: list[object]) -> Iterator[str]:
    """What is wrong with a config's own columns."""
    found = []
    for column in columns:
        try:
            found.append(listed_column(column).name)
        except ValueError as error:
            yield f"columns of {name}: {error}"
    if len(set(found)) != len(found):
        yield f"columns of {name}: expected different names, found {', '.join(found)}"


def _wrong_parts(key: str, split: object) -> Iterator[str]:
    """What keeps a split's role and source, or those of its parts, from being read."""
    if not isinstance(split, dict):
        return
    if "parts" not in split:
        yield from _wrong_keys(key, split, _ORIGIN)
        return
    parts = split["parts"]
    if not isinstance(parts, list) or not parts:
        yield f"expected a list of parts in {key}, found {_named(type(parts))}"
        return
    shape = [
        wrong for number, part in enumerate(parts) for wrong in _wrong_keys(f"part {number} of {key}", part, _PART)
    ]
    yield from shape
    if shape:
        return
    if len({part["name"] for part in parts}) != len(parts):
        yield f"expected parts of {key} of different names, found one name twice"
    for name in ("rows", "expected", "paper", "available", "excluded"):
        total = sum(part[name] for part in parts)
        if split.get(name) != total:
            yield f"expected {name} of {key} to be the {total:,} of its parts together, found {split.get(name)}"


def _wrong_file(where: str, entry: object) -> Iterator[str]:
    shape = list(_wrong_keys(where, entry, _FILE))
    yield from shape
    if not shape and isinstance(entry, dict):
        path = PurePosixPath(entry["path"])
        if path.is_absolute() or ".." in path.parts or path.parts[:1] not in [(folder,) for folder in FOLDERS]:
            yield f"expected the path of {where} to lie in {', '.join(FOLDERS)}, found {path}"


def _wrong_keys(where: str, entry: object, keys: Mapping[str, type]) -> Iterator[str]:
    if not isinstance(entry, dict):
        yield f"expected an object for {where}, found {_named(type(entry))}"
        return
    for key, kind in keys.items():
        if key not in entry:
            yield f"expected {key} in {where}, found none"
        elif type(entry[key]) is not kind:
            yield f"expected {_named(kind)} for {key} in {where}, found {_named(type(entry[key]))}"


def _named(kind: type) -> str:
    names = {dict: "an object", list: "a list", str: "text", int: "a whole number", bool: "true or false"}
    return names.get(kind, kind.__name__)
