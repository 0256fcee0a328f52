import gzip
import os
import re
import tarfile

import numpy as np
import pytest

from builders.errors import BuildError
from builders.sources.base import Home
from builders.sources.readers import tars, trees
from tests.builders.trees import add
from tests.fuzz.harness import run_cases
from tests.fuzz.targets.archives import CASES, with_checksums
from tests.sentences import stops

FILES = {"a.jpg": b"a" * 700, "empty.jpg": b"", "folder/b.jpg": b"b" * 512, "c.jpg": b"c"}


def packed(path, form=tarfile.USTAR_FORMAT, files=FILES, **fields):
    with tarfile.open(path, "w", format=form) as archive:
        folder = tarfile.TarInfo("folder")
        folder.type = tarfile.DIRTYPE
        archive.addfile(folder)
        for name, content in files.items():
            add(archive, name, content, **fields)
    return path


def read(path, members):
    data = path.read_bytes()
    return {member.name: data[member.start : member.start + member.size] for member in members}


@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
@pytest.mark.parametrize(
    ("extra", "fields"),
    [
        ({}, {}),
        ({"d/" * 80 + "long.jpg": b"long", "after.jpg": b"x"}, {}),
        ({"d/" * 40 + "/long.jpg": b"long"}, {"uname": "owner", "mode": 0o600}),
        ({"n" * 99: b"99", "m" * 100: b"100"}, {}),
        ({"é.jpg": b"e"}, {"mtime": 1.25, "uid": 1 << 40}),
    ],
)
def test_files_are_those_of_tarfile(tmp_path, form, extra, fields):
    if form == tarfile.USTAR_FORMAT:
        fields = {name: value for name, value in fields.items() if name not in ("uid", "mtime")}
    path = packed(tmp_path / "x.tar", form, FILES | extra, **fields)
    with tarfile.open(path) as archive:
        expected = [(info.name, info.offset_data, info.size) for info in archive if info.isreg()]
    members = tars.members(path)
    assert list(map(tuple, members)) == expected
    assert read(path, members) == FILES | extra


def test_a_size_in_two_to_the_eighth_is_read(tmp_path):
    """GNU writes sizes of 8 GB and more so; the same field may hold a small one."""
    data = bytearray(packed(tmp_path / "x.tar", files={"a.jpg": b"a" * 700}).read_bytes())
    data[512 + 124 : 512 + 136] = b"\x80" + (700).to_bytes(11, "big")
    path = tmp_path / "y.tar"
    path.write_bytes(with_checksums(bytes(data)))
    assert read(path, tars.members(path)) == {"a.jpg": b"a" * 700}
    with tarfile.open(path) as archive:
        assert archive.getmember("a.jpg").size == 700


def test_inner_tars_are_found_inside_the_outer_file(tmp_path):
    path = tmp_path / "outer.tar"
    with tarfile.open(path, "w") as archive:
        for name, form, fields in (("z", tarfile.USTAR_FORMAT, {}), ("a", tarfile.PAX_FORMAT, {"mtime": 0.5})):
            add(archive, f"{name}.tar", packed(tmp_path / "inner.tar", form, **fields).read_bytes())
        add(archive, "readme.txt", b"hello")
    contents = {name: read(path, members) for name, members in tars.nested_members(path)}
    assert contents == {"a.tar": FILES, "readme.txt": {}, "z.tar": FILES}
    assert list(contents) == ["a.tar", "readme.txt", "z.tar"]


def refused(path):
    with pytest.raises(BuildError) as caught:
        tars.members(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_compressed_archive_is_refused(tmp_path):
    with tarfile.open(tmp_path / "x.tar", "w:gz") as archive:
        add(archive, "a.jpg", b"a")
    assert "uncompressed" in refused(tmp_path / "x.tar")


def compressed(path, files=FILES):
    plain = packed(path.with_suffix(".plain"), files=files).read_bytes()
    path.write_bytes(gzip.compress(plain))
    return path


def test_a_compressed_archive_is_listed_by_number_and_unpacked_by_it(tmp_path):
    path = compressed(tmp_path / "x.tar.gz")
    members = tars.compressed_members(path)
    assert members == [("a.jpg", 0, 700), ("empty.jpg", 1, 0), ("folder/b.jpg", 2, 512), ("c.jpg", 3, 1)]
    assert [image for batch in tars.unpack_targz(path, np.arange(4)) for image in batch] == list(FILES.values())
    assert list(tars.unpack_targz(path, np.array([0, 2]))) == [[b"a" * 700], [b"b" * 512]]
    assert list(tars.unpack_targz(path, np.array([], dtype=np.int64))) == []


def damaged(content, cut=None, flip=None):
    changed = bytearray(content[:cut])
    if flip is not None:
        changed[flip] ^= 0xFF
    return bytes(changed)


@pytest.mark.parametrize(
    "change",
    [
        {"cut": 0},
        {"cut": 5},
        {"cut": 60},
        {"cut": -9},  # the check sum and one byte before it
        {"cut": -3},
        {"flip": 0},
        {"flip": 40},
        {"flip": -6},  # the check sum itself
    ],
)
def test_a_damaged_compressed_archive_is_refused(tmp_path, change):
    path = compressed(tmp_path / "x.tar.gz", {f"{number}.jpg": bytes([number]) * 900 for number in range(40)})
    path.write_bytes(damaged(path.read_bytes(), **change))
    with pytest.raises(BuildError, match=r"cannot be read as a tar\.gz .*\. Download it again") as caught:
        tars.compressed_members(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_compressed_archive_that_changed_since_it_was_listed(tmp_path):
    path = compressed(tmp_path / "x.tar.gz")
    with stops(BuildError, "x.tar.gz"):
        list(tars.unpack_targz(path, np.array([1, 7])))
    path.write_bytes(path.read_bytes()[:80])
    with stops(BuildError, "tar.gz"):
        list(tars.unpack_targz(path, np.array([1, 3])))


CUT, NO_HEADER, NUMBER = "is cut short", "the check sum there is wrong", "a number there is"
WORDS = {
    "negative size": f"has no header at byte 1,024: {NUMBER} -0000001000",
    "negative size with other members before it": f"has no header at byte 40,960: {NUMBER} -0000120000",
    "negative size in base 256": NUMBER,
    "huge size in base 256": f"{CUT}: x.jpg at byte 1,536 has",
    "wrong check sum": f"has no header at byte 1,024: {NO_HEADER}",
    "no check sum": NO_HEADER,
    "one changed bit in a name": f"has no header at byte 0: {NO_HEADER}",
    "larger than the archive": f"{CUT}: x.jpg at byte 1,536 has 5,000 bytes, more than are left",
    "size with an underscore": NUMBER,
    "size with a prefix": NUMBER,
    "size with a nine": NUMBER,
    "zeros in the middle": "goes on after its end mark at byte 1,024",
    "other bytes after the end": "goes on after its end mark at byte 1,024",
    "many zeros after the end": "goes on after its end mark",
    "no end": f"{CUT}: it has neither an end mark nor 512 more bytes at byte 1,024",
    "half a header": CUT,
    "hard link": "has b.jpg at byte 1,024, which is a link",
    "symbolic link": "is a link",
    "character device": "is a device",
    "block device": "is a device",
    "named pipe": "is a named pipe",
    "sparse, GNU": "is in pieces",
    "sparse, pax": "has a member in pieces at byte 0",
    "pax size below zero": "has a size of -512 at byte 0",
    "pax size above the archive": f"{CUT}: a.jpg at byte 1,536 has 1,152,921,504,606,846,976 bytes",
    "pax size of 4000 digits": "has a size of 9999",
    "pax of two gigabytes": "has a name or other fields of 2,147,483,648 bytes",
    "pax records without end": "are no list of names and values",
    "pax record of no length": "are no list of names and values",
    "pax record of 4000 digits": "are no list of names and values",
    "global size": "gives one name or size to all its members",
    "long name of two gigabytes": "has a name or other fields of 2,147,483,648 bytes",
    "name with control characters": r"\x1b[2J\n.jpg at byte 1,536 has 9,999 bytes, more than are left",
    "html": "has no header at byte 0",
    "nothing": CUT,
}
READ = {"long name without a member", "a thousand long names", "absolute name", "name that goes up"}
ONLY_PACKED = {
    "bomb": f"{CUT}: x.jpg at byte 512 has 314,572,800 bytes, more than are left",
    "bomb after the end": "goes on after its end mark",
    "cut in two": "cannot be read as a tar.gz (Compressed file ended before",
    "other bytes at the end": "cannot be read as a tar.gz (Not a gzipped file",
}


@pytest.mark.parametrize(
    ("target", "words", "read"),
    [
        ("tar", WORDS, READ),
        ("nested-tar", WORDS, READ),
        ("tar.gz", WORDS | ONLY_PACKED, READ | {"in a hundred pieces"}),
    ],
)
def test_hostile_archives_are_refused_in_time_and_memory(target, words, read):
    """In a child with limits: the first of these used to be read for ever."""
    outcomes = run_cases(f"tests.fuzz.targets.archives:{target}")
    assert {name for name, outcome in outcomes.items() if outcome.kind == "value"} == read
    assert set(outcomes) == read | set(words)
    for name, reason in words.items():
        assert outcomes[name].kind == "refused", (name, outcomes[name])
        message = outcomes[name].message
        if target == "nested-tar":  # all places are one header further on
            reason, message = re.sub(r"byte [0-9,]+", "", reason), re.sub(r"byte [0-9,]+", "", message)
        # Compressed, what is missing is found where the next header should be.
        assert reason in message or (target == "tar.gz" and CUT in message), (name, message)


def test_names_in_an_archive_are_no_places(tmp_path):
    for name in ("absolute name", "name that goes up"):
        (tmp_path / "x.tar").write_bytes(CASES[name])
        (name,) = [member.name for member in tars.members(tmp_path / "x.tar")]
        assert name in ("/etc/unknown-detection.jpg", "../../unknown-detection.jpg")
    assert [path.name for path in tmp_path.iterdir()] == ["x.tar"]


def test_a_named_pipe_in_place_of_an_archive_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "x.tar")
    with stops(BuildError, "x.tar"):
        tars.members(tmp_path / "x.tar")
    assert trees.in_archive(Home(None, tmp_path, tmp_path, "images"), "x") is None
