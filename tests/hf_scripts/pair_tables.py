"""Tables of duplicates for the releases of `samples`, which have none of their own."""

from builders.duplicates.table import complete, write_duplicates
from builders.release.duplicates import counted, read_pairs, write_pairs
from builders.release.layout import Layout
from builders.release.manifest import read_manifest
from tests.manifests import as_json, entry_of, manifest_of, save_manifest, write_json


def add_table(root, change=lambda pairs: pairs, **entry):
    """Give a release the table that belongs to it, or another."""
    layout = Layout(root)
    read = read_manifest(root)
    paths = {key: split.index.path for key, split in read.by_key().items()}
    table = write_duplicates(layout, read, complete(read, lambda key: root / paths[key]))
    pairs = change(read_pairs(layout.duplicates))
    write_pairs(layout.duplicates, pairs)
    listed = entry_of(root, layout.duplicates) | {"rows": len(pairs), "counts": as_json(counted(pairs))}
    save_manifest(root, manifest_of(root) | {"duplicates": as_json(table) | listed | as_json(entry)})
    return pairs


def replace_pairs(root, pairs):
    """Another table of duplicates, with the manifest's counts put right and its digest left."""
    path = Layout(root).duplicates
    path.unlink()
    write_pairs(path, pairs)
    manifest = manifest_of(root)
    manifest["duplicates"] |= {"rows": len(pairs), "counts": as_json(counted(pairs))}
    write_json(root, manifest)
