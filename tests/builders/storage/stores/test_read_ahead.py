import random
import threading

import pytest

pytest.importorskip("fsspec")

from builders.storage.stores.file import GrowingReadAhead

LIMIT = 9
"""Requests for the first megabytes of a run: the read-ahead doubles from 64 KB to 32 MB, which takes nine of them."""


class Counted:
    """A file whose byte i is i modulo 251, which counts how it is read."""

    def __init__(self, size):
        self.size, self.ranges, self.lock = size, [], threading.Lock()
        self.data = (bytes(range(251)) * (size // 251 + 1))[:size] if size < 1 << 20 else None

    def fetch(self, start, stop):
        assert 0 <= start < stop <= self.size
        with self.lock:
            self.ranges.append((start, stop))
        return bytes(stop - start) if self.data is None else self.data[start:stop]


@pytest.mark.parametrize("together", [1, 8])
def test_any_reads_give_the_bytes_of_the_file(together):
    file = Counted(300_000)
    cache = GrowingReadAhead(0, file.fetch, file.size, together)
    draw = random.Random(0)
    for _ in range(300):
        start = draw.randrange(file.size + 10)
        stop = start + draw.randrange(5_000)
        assert cache._fetch(start, stop) == file.data[start:stop]
    assert cache._fetch(None, None) == file.data


@pytest.mark.parametrize("spacing", [10_000, 110_000, 1_000_000])
def test_headers_between_images_take_few_requests_and_each_byte_is_read_once(spacing):
    size = 200_000_000
    file = Counted(size)
    cache = GrowingReadAhead(0, file.fetch, size)
    headers = range(0, size - 512, spacing)
    for start in headers:
        assert len(cache._fetch(start, start + 512)) == 512
    # What is skipped is read in requests of 4 MB: of 1.3 million images of 110 KB in one tar that is one for 36.
    assert len(file.ranges) <= size / (4 << 20) + 2 * LIMIT
    assert sum(stop - start for start, stop in file.ranges) <= size


def test_headers_far_apart_take_a_small_request_each():
    size = 10_000_000_000
    file = Counted(size)
    cache = GrowingReadAhead(0, file.fetch, size)
    for start in range(0, size, 140_000_000):  # as far apart as the tars of classes in ILSVRC2012_img_train.tar
        cache._fetch(start, start + 512)
    assert len(file.ranges) == 72
    assert max(stop - start for start, stop in file.ranges) < 150_000
