"""The files of a release that its manifest determines: the dataset card, the Croissant metadata, the sources' terms.

Tested by `tests/hf_scripts/test_card.py`.
"""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING

import msgspec

from builders.card import facts, words
from builders.card.metadata import croissant_text, front_matter_text
from builders.release.duplicates import doubts
from builders.release.entries import FileEntry, Manifest, without_outdated_audits
from builders.release.layout import CARD, CROISSANT, DESCRIPTIONS, INDEX_SUFFIX, LICENCES, Layout
from builders.release.manifest import file_entry, valid_text, write_manifest
from builders.release.schema import COMMON, SHIFT_ROLES
from builders.storage.files import write_text
from unknown_detection.words import byte_text, quantity

if TYPE_CHECKING:
    import jinja2


def write_card_and_manifest(layout: Layout, manifest: Manifest, before: Manifest | None = None) -> Manifest:
    """Write the files that a release's manifest determines, and then the manifest, which lists them like all others.

    Returns the manifest as written; `before` and errors are as of `write_manifest`.
    """
    manifest = without_outdated_audits(manifest)
    # What would not be valid is refused before a file is replaced; the digests of these files are not known yet.
    unknown = {field: FileEntry(path, 0, "0" * 64) for field, path in DESCRIPTIONS.items()}
    valid_text(layout.root, msgspec.structs.replace(manifest, **unknown))
    for path, text in rendered(manifest).items():
        write_text(layout.inside(path), text)
    entries = {field: file_entry(layout, layout.inside(path)) for field, path in DESCRIPTIONS.items()}
    manifest = msgspec.structs.replace(manifest, **entries)
    write_manifest(layout.root, manifest, before)
    return manifest


def rendered(manifest: Manifest) -> dict[str, str]:
    """Render the files that a manifest determines; returns their texts by path."""
    return {CARD: card_text(manifest), CROISSANT: croissant_text(manifest), LICENCES: licences_text(manifest)}


def card_text(manifest: Manifest) -> str:
    """Render the card of a manifest."""
    text = _rendered(
        "dataset_card.md.j2",
        manifest=manifest,
        facts=facts,
        words=words,
        doubts=doubts(manifest),
        release=_release_values(manifest),
        column_meanings={name: column.meaning for name, column in COMMON.items()},
        shifts=SHIFT_ROLES,
    )
    return front_matter_text(manifest) + text


def licences_text(manifest: Manifest) -> str:
    """Render the terms of a manifest's sources, each in its owner's words."""
    return _rendered("licences.md.j2", manifest=manifest, facts=facts)


def _rendered(template: str, **values: object) -> str:
    text: str = _template(template).render(**values)
    # What a template leaves out leaves blank lines behind; those of examples stay.
    pieces = re.split(r"(^```.*?^```$)", text, flags=re.M | re.S)
    return "".join(piece if piece.startswith("```") else re.sub(r"\n{3,}", "\n\n", piece) for piece in pieces)


def _release_values(manifest: Manifest) -> dict[str, object]:
    """Return the values that several of the card's templates share."""
    loading, by_key = facts.configs_to_load(manifest), manifest.by_key()
    return {
        "loading": loading,
        "example": loading[0],
        # An unpublished release is loaded from the folder that one works in; `load_dataset(".")` fails (datasets 5.2).
        "unpublished": not manifest.version,
        "address": f'"{manifest.repository or "ORG/NAME"}"' if manifest.version else "str(Path.cwd())",
        "indexes": [f"{name}{INDEX_SUFFIX}" for name in sorted(manifest.configs)],
        "by_key": by_key,
        "by_table": any(entry.overlaps and entry.compared is None for entry in by_key.values()),
        "revision": f', revision="v{manifest.version}"' if manifest.version else "",
        # Drawn by keyed rank and not adopted from somebody's lists.
        "drawn": {key for key, split in by_key.items() if not any(part.adopted for part in split.parts)},
        "size": byte_text(sum(file.size for split in by_key.values() for file in split.files)),
        "pictures": {key: split.samples for key, split in by_key.items() if split.samples is not None},
    }


def _without_html(value: object) -> object:
    """Escape HTML in a text of the manifest."""
    return value.replace("<", "&lt;") if isinstance(value, str) else value


@functools.cache
def _template(name: str) -> jinja2.Template:
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("cards", ""),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        finalize=_without_html,
    )
    environment.filters["quantity"] = quantity
    return environment.get_template(name)
