"""Tables of duplicates for the releases of `samples`, which have none of their own."""

import json

from builders.duplicates.table import complete, write_table
from builders.release.card import seal
from builders.release.duplicates import counted, read_pairs, write_pairs
from builders.release.layout import Layout
from builders.release.manifest import file_entry


def add_table(root, change=lambda pairs: pairs, **entry):
    """Give a release the table that belongs to it, or another."""
    layout = Layout(root)
    manifest = json.loads((root / "manifest.json").read_text(encoding="utf-8"))
    paths = {f"{c}/{s}": e["index"]["path"] for c, v in manifest["configs"].items() for s, e in v["splits"].items()}
    manifest["duplicates"] = write_table(layout, complete(manifest, lambda key: root / paths[key]))
    pairs = change(read_pairs(layout.duplicates))
    write_pairs(layout.duplicates, pairs)
    listed = file_entry(layout, layout.duplicates) | {"rows": len(pairs), "counts": counted(pairs)}
    manifest["duplicates"] |= listed | entry
    seal(layout, manifest)
    return pairs
