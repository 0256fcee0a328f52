"""What the check of own images keeps: of which images, and what is left of it after a kill or a power cut."""

import hashlib
import io
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from PIL import Image

from builders.duplicates.checked import checked_images, image_check, remove_checked_pixels
from builders.release import images
from builders.release.layout import Layout
from builders.storage.byte_ranges import Reader

ROWS = 5


def encoded(number, kind="PNG"):
    pixels = np.random.default_rng(number).integers(0, 256, (48, 40, 3), dtype=np.uint8)
    data = io.BytesIO()
    Image.fromarray(pixels).save(data, kind)
    return data.getvalue()


def digest(data):
    return hashlib.sha256(data).hexdigest()


def shrunk(data):
    """By Pillow alone."""
    return np.asarray(Image.open(io.BytesIO(data)).convert("RGB").resize((32, 32), Image.Resampling.BOX))


def check(folder, some, **asked):
    with image_check(Layout(folder), **({"decode": False, "compared": True} | asked)) as checking:
        for data in some:
            checking(data, digest(data))


def found(folder, data, *, decoded=False):
    kept = checked_images(Layout(folder))
    with Reader() as reader:
        return None if kept is None else kept().find(digest(data), reader, decoded=decoded)


@pytest.fixture
def decoded(monkeypatch):
    seen, decode = [], images.decode
    monkeypatch.setattr(images, "decode", lambda data: seen.append(data) or decode(data))
    return seen


PNGS = [encoded(number) for number in range(ROWS)]


def test_what_was_decoded_is_known_by_its_bytes(tmp_path, decoded):
    jpeg = encoded(9, "JPEG")
    check(tmp_path, [*PNGS, jpeg])
    assert decoded == PNGS
    for data in PNGS:
        pixels, small = found(tmp_path, data)
        assert pixels == "" and np.array_equal(small, shrunk(data))
    assert found(tmp_path, jpeg) is None and found(tmp_path, b"another") is None
    assert found(tmp_path, PNGS[0], decoded=True) is None
    check(tmp_path, [*PNGS, jpeg], decode=True)
    assert decoded == [*PNGS, *PNGS, jpeg]  # for the digests of their pixels
    for data in (*PNGS, jpeg):
        pixels, small = found(tmp_path, data, decoded=True)
        header = hashlib.sha256(b"RGB 40 48\n" + Image.open(io.BytesIO(data)).tobytes()).hexdigest()
        assert pixels == header and np.array_equal(small, shrunk(data))
    decoded.clear()
    check(tmp_path, [*PNGS, jpeg], decode=True)
    check(tmp_path, [*PNGS, jpeg])
    assert decoded == []


def test_images_that_nobody_compares_take_no_room(tmp_path):
    check(tmp_path, PNGS, compared=False)
    assert found(tmp_path, PNGS[0]) == ("", None)
    assert sum(path.stat().st_size for path in (tmp_path / ".state/checked").iterdir()) < 100 * ROWS


def test_damaged_images_and_those_of_a_failed_check_leave_the_others(tmp_path, decoded):
    with pytest.raises(images.UnreadableImageError):
        check(tmp_path, [*PNGS[:2], PNGS[2][:-40], PNGS[3]])
    assert [found(tmp_path, data) is not None for data in PNGS] == [True, True, False, False, False]
    decoded.clear()
    check(tmp_path, PNGS)
    assert decoded == PNGS[2:]


def test_threads_check_as_one_does(tmp_path):
    many = [encoded(number) for number in range(60)] * 2
    with (
        image_check(Layout(tmp_path), decode=True, compared=True) as checking,
        ThreadPoolExecutor(8) as threads,
    ):
        list(threads.map(checking, many, map(digest, many)))
    for data in many:
        assert np.array_equal(found(tmp_path, data, decoded=True).small, shrunk(data))


def test_a_bit_that_changes_gives_no_image_other_pixels(tmp_path):
    check(tmp_path, PNGS, decode=True)
    known = [found(tmp_path, data, decoded=True) for data in PNGS]
    for path in sorted((tmp_path / ".state/checked").iterdir()):
        whole = path.read_bytes()
        for place in range(0, len(whole), 1 if len(whole) < 1000 else 97):
            path.write_bytes(whole[:place] + bytes([whole[place] ^ 4]) + whole[place + 1 :])
            for data, (pixels, small) in zip(PNGS, known, strict=True):
                now = found(tmp_path, data, decoded=True)
                assert now is None or now.pixels == pixels
                assert now is None or now.small is None or np.array_equal(now.small, small)
        path.write_bytes(whole)


@pytest.mark.parametrize("name", ["images", "pixels.rgb"])
def test_a_file_that_ends_anywhere_gives_no_image_the_pixels_of_another(tmp_path, name):
    """A kill cuts files, a power cut leaves zeros or nothing; afterwards a check goes on behind what is whole."""
    check(tmp_path, PNGS)
    path = tmp_path / ".state/checked" / name
    whole, other = path.read_bytes(), next(file for file in path.parent.iterdir() if file.name != name)
    others, row = other.read_bytes(), len(whole) // ROWS
    for left in (0, 1, row - 1, row, 2 * row + 7, len(whole) - 1):
        for data in (whole[:left], whole[:left] + bytes(len(whole) - left)):
            path.write_bytes(data)
            other.write_bytes(others)
            for again in (False, True):
                if again:
                    check(tmp_path, [encoded(100), *PNGS])
                for image in PNGS:
                    kept = found(tmp_path, image)
                    if kept is not None and kept.small is not None:
                        assert np.array_equal(kept.small, shrunk(image)), left
            assert np.array_equal(found(tmp_path, encoded(100)).small, shrunk(encoded(100)))


def test_without_its_pixels_an_image_is_still_known(tmp_path, decoded):
    check(tmp_path, PNGS)
    remove_checked_pixels(Layout(tmp_path))
    decoded.clear()
    check(tmp_path, [*PNGS, encoded(7)])
    assert len(decoded) == 1
    assert found(tmp_path, PNGS[0]) == ("", None)
    assert np.array_equal(found(tmp_path, encoded(7)).small, shrunk(encoded(7)))
