import os

import pytest

from builders.errors import BuildError
from builders.storage.byte_ranges import Reader
from tests.sentences import stops


def test_spans_of_several_files_in_turn(tmp_path):
    for name in "ab":
        (tmp_path / name).write_bytes(name.encode() * 4)
    target = bytearray(6)
    with Reader() as reader:
        for first, name in ((0, "a"), (2, "b"), (4, "a")):
            reader.read_into(memoryview(target)[first : first + 2], str(tmp_path / name), first // 2)
    assert bytes(target) == b"aabbaa"


@pytest.mark.parametrize("as_bytes", [True, False])
def test_what_cannot_be_read_is_named(tmp_path, as_bytes):
    path = tmp_path / "short"
    path.write_bytes(b"1234567")

    def read(path):
        with Reader() as reader:
            reader.read(str(path), 4, 4) if as_bytes else reader.read_into(memoryview(bytearray(4)), str(path), 4)

    with stops(BuildError):
        read(path)
    with stops(BuildError):
        read(tmp_path / "none")


@pytest.mark.timeout(20)
def test_a_named_pipe_or_device_in_place_of_an_image_is_not_read(tmp_path):
    os.mkfifo(tmp_path / "pipe.jpg")
    (tmp_path / "device.jpg").symlink_to("/dev/zero")
    with Reader() as reader:
        for name, kind in (("pipe.jpg", "a named pipe"), ("device.jpg", "a device")):
            with stops(BuildError, name, kind):
                reader.read(str(tmp_path / name), 0, 4)
            with stops(BuildError, name, kind):
                reader.read_into(memoryview(bytearray(4)), str(tmp_path / name), 0)
