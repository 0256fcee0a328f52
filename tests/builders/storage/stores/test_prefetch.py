import random

import pytest

from builders.errors import BuildError
from builders.storage.byte_ranges import Reader, read_starts
from builders.storage.paths import as_path
from builders.storage.stores import prefetch
from tests.sentences import stops


@pytest.fixture
def images(store):
    """The addresses of 40 images of 100 to 139 bytes with their content, and of an archive of all of them."""
    bucket, draw = store.bucket(), random.Random(0)
    content = {f"{number}.jpg": draw.randbytes(100 + number) for number in range(40)}
    store.put(bucket, content | {"all.tar": b"".join(content.values())})
    return {f"s3://{bucket}/{name}": data for name, data in content.items()}


def archive(images):
    """The archive's address, and the offset and size of each image in it."""
    address = f"{bucket_of(images)}/all.tar"
    places, start = [], 0
    for data in images.values():
        places.append((address, start, len(data)))
        start += len(data)
    return address, places


def bucket_of(images):
    """The address of the images' bucket."""
    return next(iter(images)).rpartition("/")[0]


def read(reader, reads):
    contents = []
    for path, offset, size in reads:
        target = bytearray(size)
        reader.read_into(memoryview(target), path, offset)
        contents.append(bytes(target))
    return contents


def test_announced_images_are_one_request_each_and_those_of_an_archive_few(images, proxy):
    reads = [(address, 0, len(data)) for address, data in images.items()]
    random.Random(1).shuffle(reads)
    with Reader() as reader:
        reader.expect(reads)
        assert read(reader, reads) == [images[address] for address, _, _ in reads]
    assert proxy.kinds() == {"GetObject": 40}
    proxy.requests.clear()
    _, places = archive(images)
    random.Random(1).shuffle(places)
    joined = b"".join(images.values())
    with Reader() as reader:
        reader.expect(places)
        assert read(reader, places) == [joined[start : start + size] for _, start, size in places]
    assert proxy.kinds() == {"GetObject": 1}


def test_batches_are_fetched_one_ahead_of_what_is_read(images, proxy, monkeypatch):
    monkeypatch.setattr(prefetch, "BATCH_BYTES", 500)  # of four images
    reads = [(address, 0, len(data)) for address, data in images.items()]
    with Reader() as reader:
        reader.expect(reads)
        read(reader, reads[:1])
        reader._ranges()._next.result()
        assert len(proxy.requests) == 8
        assert read(reader, reads[1:] + reads[-1:]) == [images[path] for path, _, _ in reads[1:] + reads[-1:]]
    assert len(proxy.requests) == 40


def test_an_image_may_be_announced_twice(images, proxy, monkeypatch):
    monkeypatch.setattr(prefetch, "BATCH_BYTES", 500)
    reads = [(address, 0, len(data)) for address, data in images.items()]
    repeated = [*reads[:20], reads[0], *reads[20:]]
    with Reader() as reader:
        reader.expect(repeated)
        assert read(reader, repeated) == [images[path] for path, _, _ in repeated]
    assert len(proxy.requests) <= len(repeated) + 1  # what has passed is read by itself


def test_what_was_not_announced_is_read_too(images):
    address, places = archive(images)
    first, second, *_ = images.values()
    with Reader() as reader:
        reader.expect(places[1:2])
        assert read(reader, [places[0], places[1], places[0]]) == [first, second, first]
        assert reader.read(address, 100, 101) == second
        assert reader.read(address, 100, 0) == b""


@pytest.mark.parametrize(
    ("size", "sentence"),
    [(99, "expected 100 bytes, found 99"), (0, "found 0")],
)
def test_an_image_of_another_size_is_noticed(images, store, size, sentence):
    address = next(iter(images))
    store.client.pipe_file(address, b"x" * size)
    for announced in (True, False):
        with Reader() as reader:
            reader.expect([(address, 0, 100)] * announced)
            with pytest.raises(BuildError, match=f"0.jpg changed during the build: .*{sentence}"):
                reader.read(address, 0, 100)


def test_a_removed_image_is_told_as_on_this_machine(images, store):
    address = next(iter(images))
    store.client.rm_file(address)
    with Reader() as reader, stops(BuildError, "0.jpg"):
        reader.read(address, 0, 100)


def test_answers_that_are_cut_or_busy_are_asked_again(images, proxy):
    reads = [(address, 0, len(data)) for address, data in images.items()]
    struck = []

    def fault(request):
        struck.append(request.path)
        return {3: 503, 9: -1, 20: -2}.get(len(struck))

    proxy.fault = fault
    with Reader() as reader:
        reader.expect(reads)
        assert read(reader, reads) == list(images.values())
    assert len(struck) == 43


def test_a_store_that_goes_on_failing_is_a_sentence(images, proxy):
    proxy.fault = lambda request: 403
    with Reader() as reader, stops(BuildError, "s3://"):
        reader.read(next(iter(images)), 0, 100)


def test_the_starts_of_images_are_as_on_this_machine(images, tmp_path):
    root = as_path(bucket_of(images))
    for address, data in images.items():
        (tmp_path / address.rpartition("/")[2]).write_bytes(data)
    places = [("0.jpg", 0, 1_000), ("1.jpg", 5, 10), ("2.jpg", 0, 3)]
    assert list(read_starts(root, places)) == list(read_starts(tmp_path, places))


def test_a_block_ends_at_a_gap_or_when_it_is_large():
    def blocks(*places):
        reads = [prefetch.Read("s3://b/x.tar", start, size) for start, size in places]
        return [(block.start, block.stop, len(block.reads)) for block in prefetch._blocks(reads)]

    gap, most = prefetch._GAP, prefetch._BLOCK
    assert blocks((10, 5), (0, 5), (5, 5)) == [(0, 15, 3)]
    assert blocks((0, 5), (5 + gap, 5)) == [(0, 10 + gap, 2)]
    assert blocks((0, 5), (6 + gap, 5)) == [(0, 5, 1), (6 + gap, 11 + gap, 1)]
    assert blocks((0, most), (most, 1)) == [(0, most, 1), (most, most + 1, 1)]
    assert blocks((0, 5), (0, 5)) == [(0, 5, 1)]
