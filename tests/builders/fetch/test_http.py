"""One file over HTTP, from a server that cuts, refuses ranges and changes its mind."""

import random

import pytest

from builders.errors import BuildError
from builders.fetch.http import WAITS, download, part_of

DATA = random.Random(0).randbytes(3_000_000)


@pytest.fixture
def fetch(site, waits, tmp_path):
    """Download `/x.bin`; the bytes that are there then, and what was counted and said meanwhile."""

    def run(size=3_000_000, have=b""):
        path = tmp_path / "x.bin"
        if have:
            part_of(path).write_bytes(have)
        counted, said = [], []
        part = download(site.url("x.bin"), path, size, said.append, counted.append)
        assert not path.exists()
        return part.read_bytes(), sum(counted) + len(have), said

    site.files["x.bin"] = DATA
    return run


def test_a_whole_file_is_asked_for_once(fetch, site, waits):
    data, counted, said = fetch()
    assert data == DATA
    assert counted == len(DATA)
    assert (said, waits, site.asked()) == ([], [], [None])
    assert site.requests[0].headers["accept-encoding"] == "identity"


def test_a_cut_download_goes_on_where_it_was_cut(fetch, site, waits):
    site.faults.extend([1_000_000, "no answer", 503, 500_000])
    data, counted, said = fetch()
    assert data == DATA
    assert counted == len(DATA)
    at = [int(asked.removeprefix("bytes=").rstrip("-")) for asked in site.asked()[1:]]
    # Of a block of 64 KiB that was cut in the middle nothing was written.
    assert 1_000_000 - (1 << 16) < at[0] <= 1_000_000
    assert at[0] == at[1] == at[2]
    assert at[0] + 500_000 - (1 << 16) < at[3] <= at[0] + 500_000
    assert waits == [1, 2, 4, 1]  # each byte that comes starts the count again
    assert "x.bin: the connection was cut or refused; going on in 1 s" in said
    assert "x.bin: the server answered 503; going on in 4 s" in said


def test_what_an_earlier_run_left_is_used(fetch, site):
    data, counted, _ = fetch(have=DATA[:2_999_999])
    assert data == DATA
    assert counted == len(DATA)
    assert site.asked() == ["bytes=2999999-"]


def test_what_is_whole_already_is_not_asked_for(fetch, site):
    assert fetch(have=DATA)[0] == DATA
    assert site.requests == []


def test_without_ranges_it_begins_again_and_counts_no_byte_twice(fetch, site):
    site.ranges = False
    data, counted, _ = fetch(have=b"x" * 1000)
    assert data == DATA
    assert counted == len(DATA)


def test_a_part_that_is_longer_than_the_file_is_thrown_away(fetch, site):
    data, counted, said = fetch(size=0, have=DATA + b"more")
    assert data == DATA
    assert counted == len(DATA)
    assert "thrown away" in said[0]


def test_another_range_than_asked_for_is_never_written(fetch, site, waits):
    site.shifted = 7
    with pytest.raises(BuildError, match="another range than the one that was asked for"):
        fetch(have=DATA[:100])
    assert waits == list(WAITS)


def test_a_transfer_that_never_gets_on_keeps_what_there_is_and_says_so(fetch, site, tmp_path, waits):
    site.faults.extend([1_500_000, *["no answer"] * 6])
    with pytest.raises(BuildError) as caught:
        fetch()
    kept = part_of(tmp_path / "x.bin").read_bytes()
    assert kept == DATA[: len(kept)]
    assert 0 < len(kept) <= 1_500_000
    assert f"{len(kept):,} bytes are kept in {tmp_path / 'x.bin.part'}" in str(caught.value)
    assert str(caught.value).endswith("Run the same command again; it resumes.")
    assert waits == list(WAITS)


def test_a_file_of_another_size_is_refused_before_a_byte_is_written(fetch, site, tmp_path):
    with pytest.raises(BuildError, match=r"has 3,000,000 bytes, and the published file 2,999,999\."):
        fetch(size=2_999_999)
    assert not part_of(tmp_path / "x.bin").exists()


def test_a_file_that_has_moved_is_one_sentence(fetch, site, waits):
    del site.files["x.bin"]
    with pytest.raises(BuildError, match=r"answered 404 Not Found\. Look at the owner's page"):
        fetch()
    assert waits == []


def test_a_server_that_is_not_there_is_tried_a_few_times(site, waits, tmp_path):
    with pytest.raises(BuildError, match=r"the connection was cut or refused\. 0 bytes are kept"):
        download("http://127.0.0.1:9/x.bin", tmp_path / "x.bin", 0, lambda _: None, lambda _: None)
    assert waits == list(WAITS)


def test_a_size_of_thousands_of_digits_is_refused_at_once(fetch, site, waits):
    site.claims = {"Content-Length": "9" * 5_000}
    with pytest.raises(BuildError, match="says a size of 5,000 digits"):
        fetch()
    assert waits == []


def test_a_range_with_thousands_of_digits_is_another_than_asked_for(fetch, site, waits):
    site.claims = {"Content-Range": f"bytes 1000-{len(DATA) - 1}/{'9' * 5_000}"}
    with pytest.raises(BuildError, match="another range than the one that was asked for"):
        fetch(have=DATA[:1000])
    assert waits == list(WAITS)
