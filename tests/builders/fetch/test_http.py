"""One file over HTTP, from a server that cuts, refuses ranges and changes its mind."""

import asyncio
import gzip
import os
import random
import signal
import threading
import time

import pytest

from builders.errors import BuildError
from builders.fetch.http import WAITS, download_file, part_of
from builders.sources.obtain import OwnerFile
from tests.sentences import assert_sentence, stops

DATA = random.Random(0).randbytes(3_000_000)


@pytest.fixture
def fetch(site, waits, tmp_path):
    """Download `/x.bin`; the bytes that are there then, and what was counted and said meanwhile."""

    def run(size=3_000_000, have=b""):
        path = tmp_path / "x.bin"
        if have:
            part_of(path).write_bytes(have)
        counted, lines = [], []
        part = download_file(OwnerFile("x.bin", size, url=site.url("x.bin")), path, lines.append, counted.append)
        assert not path.exists()
        return part.read_bytes(), sum(counted) + len(have), lines

    site.files["x.bin"] = DATA
    return run


@pytest.fixture
def floor(monkeypatch):
    def at(size, seconds):
        monkeypatch.setattr("builders.fetch.http.FLOOR_BYTES", size)
        monkeypatch.setattr("builders.fetch.http.FLOOR_SECONDS", seconds)

    return at


def test_a_whole_file_is_asked_for_once(fetch, site, waits):
    assert fetch() == (DATA, len(DATA), [])
    assert (waits, site.asked()) == ([], [None])
    assert site.requests[0].headers["accept-encoding"] == "identity"


def test_a_notebook_downloads_too(fetch):
    async def cell():
        return fetch()

    assert asyncio.run(cell()) == (DATA, len(DATA), [])


@pytest.mark.timeout(30)
def test_ctrl_c_ends_a_transfer_and_its_thread(speaker, floor, tmp_path, request):
    """A real signal, sent once bytes have come; they come without an end, and fast enough for the floor."""
    # A shell starts what it runs in the background with the signal ignored.
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    request.addfinalizer(lambda: signal.signal(signal.SIGINT, handler))
    file = OwnerFile("x.bin", 200_000, url=speaker(HEAD, b"x", every=0.01))
    threads, came = threading.active_count(), []

    def advance(size):
        came.append(size)
        if len(came) == 20:
            os.kill(os.getpid(), signal.SIGINT)

    floor(1, 20)
    with pytest.raises(KeyboardInterrupt):
        download_file(file, tmp_path / "x.bin", print, advance)
    after = len(came)
    time.sleep(0.2)
    assert len(came) == after >= 20
    assert threading.active_count() <= threads + 1  # the server's for this connection


def test_a_cut_download_goes_on_where_it_was_cut(fetch, site, waits):
    site.faults.extend([1_000_000, "no answer", 503, 500_000])
    data, counted, lines = fetch()
    assert (data, counted) == (DATA, len(DATA))
    starts = [int(asked.removeprefix("bytes=").rstrip("-")) for asked in site.asked()[1:]]
    # Of a block that was cut in the middle nothing need have been written.
    assert 1_000_000 - (1 << 16) < starts[0] <= 1_000_000
    assert starts[0] == starts[1] == starts[2]
    assert starts[0] + 500_000 - (1 << 16) < starts[3] <= starts[0] + 500_000
    assert waits == [1, 2, 4, 1]  # each byte that comes starts the count again
    assert "x.bin: the connection was cut or refused; going on in 1 s" in lines
    assert "x.bin: the server answered 503; going on in 4 s" in lines


def test_what_an_earlier_run_left_is_used(fetch, site):
    assert fetch(have=DATA[:2_999_999])[:2] == (DATA, len(DATA))
    assert site.asked() == ["bytes=2999999-"]
    site.requests.clear()
    assert fetch(have=DATA)[0] == DATA
    assert site.requests == []


def test_without_ranges_it_begins_again_and_counts_no_byte_twice(fetch, site):
    site.ranges = False
    assert fetch(have=b"x" * 1000)[:2] == (DATA, len(DATA))


def test_a_part_that_is_longer_than_the_file_is_thrown_away(fetch, site):
    data, counted, lines = fetch(size=0, have=DATA + b"more")
    assert (data, counted) == (DATA, len(DATA))
    assert "thrown away" in lines[0]


@pytest.mark.parametrize("digits", ["", "9" * 5_000], ids=["another start", "a size of thousands of digits"])
def test_another_range_than_asked_for_is_never_written(fetch, site, waits, digits):
    if digits:
        site.headers = {"Content-Range": f"bytes 1000-{len(DATA) - 1}/{digits}"}
    else:
        site.shifted = 7
    with stops(BuildError):
        fetch(have=DATA[:1000])
    assert waits == list(WAITS)


def test_a_transfer_that_never_gets_on_keeps_what_there_is_and_says_so(fetch, site, tmp_path, waits):
    site.faults.extend([1_500_000, *["no answer"] * 6])
    with pytest.raises(BuildError) as caught:
        fetch()
    part = part_of(tmp_path / "x.bin").read_bytes()
    assert part == DATA[: len(part)]
    assert 0 < len(part) <= 1_500_000
    assert_sentence(str(caught.value), f"{len(part):,}", tmp_path / "x.bin.part")
    assert waits == list(WAITS)


def test_a_file_of_another_size_is_refused_before_a_byte_is_written(fetch, site, tmp_path):
    with stops(BuildError, "3,000,000", "2,999,999"):
        fetch(size=2_999_999)
    assert not part_of(tmp_path / "x.bin").exists()


def test_a_file_that_has_moved_is_one_sentence(fetch, site, waits):
    del site.files["x.bin"]
    with stops(BuildError, "404"):
        fetch()
    assert waits == []


def test_a_server_that_is_not_there_is_tried_a_few_times(site, waits, tmp_path):
    with stops(BuildError):
        download_file(OwnerFile("x.bin", 0, url="http://127.0.0.1:9/x.bin"), tmp_path / "x.bin", print, print)
    assert waits == list(WAITS)


def test_a_size_of_thousands_of_digits_is_refused(fetch, site):
    site.headers = {"Content-Length": "9" * 5_000}
    with stops(BuildError):
        fetch()


@pytest.mark.timeout(20)
def test_a_file_of_no_known_size_is_refused(speaker, tmp_path):
    """Neither its owner nor the server says one, and the body has no end."""
    file = OwnerFile("x.bin", 0, url=speaker(b"HTTP/1.0 200 OK\r\n\r\n", b"x" * 4096))
    with stops(BuildError):
        download_file(file, tmp_path / "x.bin", print, print)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.timeout(20)
def test_a_server_without_a_byte_behind_any_does_not_make_it_go_round(fetch, site, waits, tmp_path):
    site.refuses_ranges = True
    # Each second request begins again, and brings less or more than the last one, but never all.
    site.faults.extend(each for size in [900_000, 800_000] * 20 for each in (size, None))
    with pytest.raises(BuildError, match=r"Cannot download .* no byte behind those|after 8\d\d,\d\d\d of"):
        fetch()
    assert len(site.requests) <= 2 * len(WAITS) + 2


def test_what_the_server_packed_is_kept_as_it_came(fetch, site):
    # A mislabelled .gz, or a bomb: its bytes are the file.
    site.files["x.bin"] = packed = gzip.compress(bytes(1 << 20))
    site.headers["Content-Encoding"] = "gzip"
    assert fetch(size=len(packed))[0] == packed


def test_no_password_of_netrc_is_sent_also_after_a_redirect(fetch, site, tmp_path, monkeypatch):
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login somebody password secret\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    site.faults.append("/x.bin")
    assert fetch()[0] == DATA
    assert [request.status for request in site.requests] == [302, 200]
    assert not any("authorization" in request.headers for request in site.requests)


def test_redirects_have_an_end(fetch, site, waits):
    site.faults.extend(["/x.bin"] * 100)
    with stops(BuildError):
        fetch()


def test_a_listed_size_is_rounded_but_not_to_a_half(site, tmp_path):
    site.files["x.bin"] = DATA

    def got(size):
        file = OwnerFile("x.bin", size, url=site.url("x.bin"), rounded=True)
        return download_file(file, tmp_path / "x.bin", print, print).read_bytes()

    with stops(BuildError, "3,000,000", "2,800,000"):
        got(1_400_000)
    assert not part_of(tmp_path / "x.bin").exists()
    assert got(2_900_000) == DATA


@pytest.mark.timeout(20)
@pytest.mark.parametrize(("make", "words"), [(os.mkfifo, "a named pipe"), (None, "a link")], ids=["pipe", "link"])
def test_a_part_that_is_no_file_of_ours_is_not_opened(make, words, fetch, site, tmp_path):
    part = part_of(tmp_path / "x.bin")
    (tmp_path / "other").write_bytes(b"mine")
    make(part) if make else part.symlink_to("other")
    with pytest.raises(BuildError) as caught:
        fetch()
    assert_sentence(str(caught.value), f"{part} is {words}")
    assert (tmp_path / "other").read_bytes() == b"mine"
    assert site.requests == []


HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 200000\r\n\r\n"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.timeout(30)
@pytest.mark.parametrize(
    "first", [HEAD, b"HTTP/1.1 200 OK\r\nX: ", CHUNKED + b"5;"], ids=["body", "header", "line of a chunk"]
)
def test_a_byte_within_each_timeout_keeps_no_transfer_alive(first, speaker, floor, waits, tmp_path):
    file = OwnerFile("x.bin", 200_000, url=speaker(first, b"x", every=0.02))
    floor(10_000, 0.1)
    began = time.monotonic()
    with pytest.raises(BuildError, match=r"only \d+ bytes came in 0\.1 s\. \d+ bytes are kept") as caught:
        download_file(file, tmp_path / "x.bin", print, print)
    assert "it resumes" in str(caught.value)
    assert waits == list(WAITS)
    assert time.monotonic() - began < 15
    part = part_of(tmp_path / "x.bin")
    assert (part.read_bytes().strip(b"x") if part.exists() else b"") == b""


@pytest.mark.timeout(30)
@pytest.mark.parametrize("head", [CHUNKED, b"HTTP/1.0 200 OK\r\n\r\n"], ids=["chunked", "until it hangs up"])
def test_a_body_without_an_end_stops_at_the_published_size(head, speaker, tmp_path):
    block = b"x" * 4096
    file = OwnerFile("x.bin", 200_000, url=speaker(head, b"1000\r\n" + block + b"\r\n" if head is CHUNKED else block))
    counted = []
    with stops(BuildError, "200,000"):
        download_file(file, tmp_path / "x.bin", print, counted.append)
    assert sum(counted) == 0
    assert sum(size for size in counted if size > 0) <= 200_000
    assert not part_of(tmp_path / "x.bin").exists()


@pytest.mark.timeout(30)
def test_the_body_of_a_redirect_is_not_read(speaker, site, tmp_path):
    site.files["x.bin"] = DATA
    head = f"HTTP/1.1 302 Found\r\nLocation: {site.url('x.bin')}\r\n\r\n".encode()
    file = OwnerFile("x.bin", len(DATA), url=speaker(head, b"x" * 4096))
    assert download_file(file, tmp_path / "x.bin", print, print).read_bytes() == DATA
