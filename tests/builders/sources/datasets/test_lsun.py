import lmdb
import numpy as np
import pytest

from builders.sources.formats import lmdb_pages
from builders.storage.files import open_regular
from tests.builders.cifar_layouts import lsun_entries
from tests.builders.trees import contents, link, opened, refusal, tree
from tests.fuzz.harness import run_cases
from tests.sentences import assert_sentence

DAMAGE = {
    "root is a meta page": "it refers to page 0, and the last one is",
    "root is itself the last": "page ",
    "root far beyond the end": "it refers to page 1,099,511,627,776",
    "a leaf twice": "has two places",
    "a branch below itself": "has two places",
    "a big value far away": "it refers to page",
    "a big value on a leaf": "is not the first of a value",
    "two big values on one page": "its values share bytes",
    "a key beyond its page": "has values that reach beyond it",
    "entries that share bytes": "share bytes",
    "more levels than the limit": "its tree has 40 levels",
    "no levels": "is not what it should be",
    "page of three bytes": "its first page is not that of a database",
    "more entries than said": "entries where it says",
}
WEBP = b"RIFF\x04\x00\x00\x00WEBPVP8 "
KEYS = [f"{number:040x}" for number in (1, 2, 0xABC << 140)]


def database(folder, entries):
    folder.mkdir(parents=True)
    with (
        lmdb.open(str(folder), map_size=1 << 24, sync=False) as environment,
        environment.begin(write=True) as transaction,
    ):
        for key, value in entries.items():
            transaction.put(key.encode(), value)
    return folder


def test_images_and_ids_are_those_of_lmdb(demo):
    images = contents(opened("lsun", demo["lsun"]))
    expected = {("test", "unlabelled", f"test/{key}.webp"): value for key, value in lsun_entries(demo["lsun"])}
    assert images == expected
    assert len(images) == 120


def test_rows_are_places_in_the_file(tmp_path):
    values = [WEBP, WEBP + bytes(9), WEBP + bytes(range(256)) * 20]  # the last is too big for a leaf page
    database(tmp_path / "test_lmdb", dict(reversed(list(zip(KEYS, values, strict=True)))))
    rows = opened("lsun", tmp_path).table.to_pylist()
    assert [row["source_id"] for row in rows] == [f"test/{key}.webp" for key in KEYS]
    assert {(row["how"], row["file"]) for row in rows} == {("span", "test_lmdb/data.mdb")}
    data = (tmp_path / "test_lmdb" / "data.mdb").read_bytes()
    assert [data[row["offset"] : row["offset"] + row["size"]] for row in rows] == values


def test_entries_are_those_of_lmdb_on_many_levels_and_after_changes(tmp_path):
    """Long keys make a tree of four levels; values of all sizes, some of which are removed and written anew."""
    random = np.random.default_rng(0)
    place = tmp_path / "test_lmdb"
    keys = [random.bytes(300).hex()[:500].encode() for _ in range(1500)]
    with lmdb.open(str(place.mkdir() or place), map_size=1 << 26, sync=False) as environment:
        for part in range(3):
            with environment.begin(write=True) as transaction:
                for key in keys[part * 500 : (part + 1) * 500]:
                    transaction.put(key, random.bytes(int(random.integers(3000)) if key[0] % 9 else 9000))
                for key in keys[part * 400 : part * 400 + 100]:
                    transaction.delete(key)
        with environment.begin() as transaction:
            expected = list(transaction.cursor())
            assert transaction.stat()["depth"] >= 4
    with open_regular(place / "data.mdb") as file:
        entries = lmdb_pages.list_entries(file)
    data = (place / "data.mdb").read_bytes()
    assert [(entry.key, data[entry.start : entry.start + entry.size]) for entry in entries] == expected


def test_an_empty_database_has_no_entries(tmp_path):
    place = database(tmp_path / "test_lmdb", {})
    with open_regular(place / "data.mdb") as file:
        assert lmdb_pages.list_entries(file) == []


def test_reading_writes_nothing(demo, tmp_path):
    data = (demo["lsun"] / "test_lmdb" / "data.mdb").read_bytes()
    tree(tmp_path, {"test_lmdb/data.mdb": data})
    (tmp_path / "test_lmdb" / "data.mdb").chmod(0o400)
    (tmp_path / "test_lmdb").chmod(0o500)
    try:
        contents(opened("lsun", tmp_path))
        assert [path.name for path in (tmp_path / "test_lmdb").iterdir()] == ["data.mdb"]  # no lock file
        assert (tmp_path / "test_lmdb" / "data.mdb").read_bytes() == data
    finally:
        (tmp_path / "test_lmdb").chmod(0o700)


@pytest.mark.parametrize("cut", [0, 100, 4096, 8192, 20_000, -4096, -1])
def test_a_database_cut_short(demo, tmp_path, cut):
    data = (demo["lsun"] / "test_lmdb" / "data.mdb").read_bytes()
    tree(tmp_path, {"test_lmdb/data.mdb": data[:cut]})
    message = refusal("lsun", tmp_path)
    assert "data.mdb is truncated" in message or "cannot be read as an LMDB database" in message
    assert_sentence(message, "test_lmdb.zip")
    if cut > 8192 or cut < 0:
        assert_sentence(message, f"{len(data):,}", f"{len(data[:cut]):,}")


def test_no_database_at_all(tmp_path):
    tree(tmp_path, {"test_lmdb/data.mdb": b"nothing" * 5000})
    message = refusal("lsun", tmp_path)
    assert_sentence(message, "LMDB")
    assert message.count(str(tmp_path)) == 1


@pytest.mark.parametrize(
    ("entries", "words"),
    [
        ({"0001": WEBP}, "the key '0001' of"),
        ({KEYS[0].upper().replace("0", "A"): WEBP}, "is not 40 hexadecimal digits. Give the folder"),
    ],
)
def test_another_database(tmp_path, entries, words):
    database(tmp_path / "test_lmdb", entries)
    assert words in refusal("lsun", tmp_path)


@pytest.mark.parametrize("name", ["bedroom_val_lmdb", "church_outdoor_train_lmdb"])
def test_another_set_of_lsun(tmp_path, name):
    database(tmp_path / name, {KEYS[0]: WEBP})
    for root in (tmp_path, tmp_path / name):
        message = refusal("lsun", root)
        assert_sentence(message, name, "test_lmdb")
    link(tmp_path / name, tmp_path / "linked")
    assert f"is the database {name}, not" in refusal("lsun", tmp_path / "linked")


def test_the_images_of_lsun_fix_are_another_set(tmp_path):
    message = refusal("lsun", tree(tmp_path, {f"correct_resize_{number}.png": "" for number in range(3)}))
    assert_sentence(message, "correct_resize_0.png", "correct_resize_1.png")


def test_images_saved_in_another_format_keep_their_ids_and_the_layout_says_so(tmp_path):
    a, b, c = KEYS
    index = opened("lsun", tree(tmp_path, {f"test/{a}.webp": "", f"test/{b}.jpg": "", f"test/{c}.png": ""}))
    assert index.layouts == {"test": "image files in test, some as jpg and png"}
    assert index.table["source_id"].to_pylist() == [f"test/{key}.webp" for key in KEYS]
    assert index.table["file"].to_pylist() == [f"test/{a}.webp", f"test/{b}.jpg", f"test/{c}.png"]


def test_each_damaged_field_ends_in_a_value_or_a_sentence():
    """In a child: four of sixty such changes used to kill it with a bus error (SIGBUS)."""
    outcomes = run_cases("tests.fuzz.targets.databases:lmdb")
    assert {outcome.kind for outcome in outcomes.values()} <= {"value", "refused"}
    for name, words in DAMAGE.items():
        assert words in outcomes[name].message, (name, outcomes[name])
    assert len(outcomes) > 200
    assert sum(outcome.kind == "refused" for outcome in outcomes.values()) > 150
