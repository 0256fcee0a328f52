"""Mutations of what lies between a release and its reader: footers, the cache of `datasets`, and the folder's path."""

import shutil

import datasets
import pyarrow as pa
import pyarrow.parquet as pq

from tests.hf_scripts.samples import linked_copy
from tests.hf_scripts.tampering import replace, write_shard
from tests.manifests import manifest_of
from tests.parquet_footers import ROWS, claim, numbers, rows_of, with_claims

# Footers


def change_footer(folder):
    """Other numbers in a footer: of its rows, of these in all places that are compared, or of anything."""
    change = folder.random.randrange(8)
    if change < 4:
        return shift_rows(folder)
    path = folder.pick(".parquet")
    data = path.read_bytes()
    if change == 4:
        places = [ROWS]
    elif change == 5:
        places = [ROWS, rows_of(0)]
    elif change == 6:
        places = [place for place in sorted(numbers(data)) if place[:2] == (4, 0) and place[-1] in (2, 3, 5, 6, 7)]
        places = [folder.random.choice(places)]
    else:
        places = [folder.random.choice(sorted(numbers(data)))]
    step = folder.random.choice([1, -1, 1, -1, 7])
    replace(path, with_claims(data, {place: claim(data, place) + step for place in places}))
    return None


def shift_rows(folder):
    """A row is there twice and another one is not, and footers claim the counts with which rows look right."""
    splits = [split for config in manifest_of(folder.root)["configs"].values() for split in config["splits"].values()]
    paths = [folder.root / file["path"] for file in folder.random.choice(splits)["data"]]
    first, second = (pq.read_table(path) for path in paths[:2])
    if folder.random.random() < 0.5:
        # The last row of the first shard comes again, and that of the second goes.
        moved = pa.concat_tables([first.slice(first.num_rows - 1), second.slice(0, second.num_rows - 1)])
        steps = (-1, 1)
    else:
        moved, steps = second.slice(1), (1, 0)
    write_shard(paths[1], moved)
    for path, step in zip(paths, steps, strict=False):
        data = path.read_bytes()
        replace(path, with_claims(data, {ROWS: claim(data, ROWS) + step}))


# The cache of `datasets`


def poison_cache(folder):
    """A damaged folder of this name and card is loaded first, and then repaired in place; or this one is another."""
    name = folder.random.choice([folder.root.name, folder.root.name, folder.root.name.upper()])
    twin = folder.root.parent / "before" / name
    linked_copy(folder.root, twin)
    reverse_rows(twin)
    if name == folder.root.name and folder.random.random() < 0.5:
        whole = folder.root.with_name("whole")
        folder.root.rename(whole)
        twin.rename(folder.root)
        load_all(folder.root, folder.cache)
        shutil.rmtree(folder.root)
        whole.rename(folder.root)
    else:
        load_all(twin, folder.cache)


def reverse_rows(root):
    """Put the rows of all tables in reverse, in files of other bytes and the same card."""
    for path in sorted(root.rglob("*.parquet")):
        table = pq.read_table(path)
        write_shard(path, table.take(pa.array(range(table.num_rows)[::-1], pa.int64())))


def load_all(root, cache):
    for config in datasets.get_dataset_config_names(str(root)):
        datasets.load_dataset(str(root), config, cache_dir=str(cache))


# Paths

NEIGHBOURS = {"rel[1]": "rel1", "a?b": "acb", "a*b": "accb", "[!a]el": "bel", "q::r": "q", "rel${NONE_SUCH}": "rel"}
"""Names of folders, and names that they match as patterns or as what else `load_dataset` takes them for."""

ODD = ["a b", "é", "a]b", "{a,b}", "a#b", "a%20b", "~x", "x.parquet", "csv", "-x", "a:b", "Release", "a$", "a\\b"]


def rename_folder(folder):
    """The folder gets another name, maybe beside one with the rows in another order; or the folder it is in does."""
    name = folder.random.choice(sorted(NEIGHBOURS) if folder.random.random() < 0.7 else ODD)
    inside = folder.random.random() < 0.3
    for named, target in ((NEIGHBOURS.get(name), linked_copy), (name, shutil.move)):
        if named:
            place = folder.root.parent / named / "release" if inside else folder.root.with_name(named)
            place.parent.mkdir(exist_ok=True)
            target(folder.root, place)
            if target == linked_copy:
                reverse_rows(place)
            else:
                folder.root = place
