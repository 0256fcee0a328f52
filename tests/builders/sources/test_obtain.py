"""Declarations of how sources are got: complete, of one form, and what readers look for."""

import re

import pytest

from builders.hub.place import parse_place
from builders.sources.registry import SOURCES

FILES = [(key, file) for key, source in SOURCES.items() for file in source.obtain.files]


@pytest.mark.parametrize(("key", "file"), FILES, ids=lambda value: getattr(value, "name", value))
def test_a_file_can_be_checked(key, file):
    assert re.fullmatch(r"[0-9a-f]{32}|", file.md5)
    assert re.fullmatch(r"[0-9a-f]{64}|", file.sha256)
    # Of LSUN no checksum is published, but its zip has its own.
    assert file.md5 or file.sha256 or (key == "lsun" and file.unpacked)
    assert not file.url or file.url.endswith(f"/{file.name}")
    assert file.size >= 0
    assert not file.unpacked or file.name.endswith(".zip")
    # A person who gets it by hand is told its name, and a reader knows it or what is unpacked of it.
    assert any(file.name in text for text in (SOURCES[key].obtain.steps, *SOURCES[key].layouts))


def test_a_file_with_a_mirror_has_a_digest_and_files_name_partitions():
    for source in SOURCES.values():
        for file in source.obtain.files:
            assert not file.mirrors or (file.url and file.has_digest), file.name
            assert set(file.partitions) <= set(source.expected()), file.name


@pytest.mark.parametrize("key", [key for key, source in SOURCES.items() if source.obtain.mirror])
def test_a_mirror_has_every_partition(key):
    mirror = SOURCES[key].obtain.mirror
    assert set(mirror.splits) == set(SOURCES[key].expected())
    assert all(splits for alternatives in mirror.splits.values() for splits in alternatives)
    assert not mirror.at or str(parse_place(mirror.at)) == mirror.at
