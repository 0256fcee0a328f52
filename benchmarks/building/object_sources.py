"""Images per second and requests per image from sources in a store that answers after 30 milliseconds.

moto's S3 runs in one process, and in another a proxy on 127.0.0.1, which counts requests and lets each wait.
Images are random bytes of the mean size of ILSVRC2012's, as files and in one tar, read in a random order as a shard
has them: one by one, and announced to the reader, which fetches them ahead. Then the tar's headers are listed.

    python -m benchmarks.building.object_sources
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import io
import multiprocessing
import os
import random
import re
import resource
import socket
import tarfile
import time
from collections.abc import Callable, Iterator
from multiprocessing.sharedctypes import Synchronized
from typing import Any

from benchmarks.building.object_storage import running

_SIZE = 110_000
_FIRST_LINE = re.compile(rb"(?:GET|HEAD|PUT|POST|DELETE) \S+ HTTP/1\.1\r\n")
_BUCKET = "benchmark"

Read = tuple[str, int, int]


def _proxy(listening: Any, upstream: int, latency: float, count: Synchronized[int]) -> None:
    """Forward connections; each request waits and is counted. Clients send the next one only after an answer."""

    async def copied(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, requests: bool) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(1 << 18):
                if requests and _FIRST_LINE.match(data):
                    count.value += 1
                    await asyncio.sleep(latency)
                writer.write(data)
                await writer.drain()
        writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        from_store, to_store = await asyncio.open_connection("127.0.0.1", upstream)
        await asyncio.gather(copied(reader, to_store, requests=True), copied(from_store, writer, requests=False))

    async def main() -> None:
        server = await asyncio.start_server(serve, sock=listening)
        await server.serve_forever()

    asyncio.run(main())


@contextlib.contextmanager
def _store(latency: float) -> Iterator[Synchronized[int]]:
    """Run a store behind a proxy, name it in this process's environment, and yield the number of its requests."""
    with running() as store, socket.create_server(("127.0.0.1", 0)) as listening:
        count: Synchronized[int] = multiprocessing.Value("q", 0)
        arguments = (listening, store.port, latency, count)
        proxy = multiprocessing.get_context("fork").Process(target=_proxy, args=arguments, daemon=True)
        proxy.start()
        os.environ |= store.environment(f"http://127.0.0.1:{listening.getsockname()[1]}")
        try:
            yield count
        finally:
            proxy.terminate()


def _write(images: int) -> tuple[list[Read], list[Read]]:
    """Write the images as files and as a tar; returns the reads of each in a random order."""
    from builders.sources.readers.tars import members
    from builders.storage.paths import as_path
    from builders.storage.stores.path import filesystem_of

    root = f"s3://{_BUCKET}/copy"
    fs = filesystem_of(root)
    fs.mkdir(_BUCKET)
    draw, packed = random.Random(0), io.BytesIO()
    files: dict[str, bytes | None] = {}
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for number in range(images):
            data = draw.randbytes(_SIZE)
            files[f"{_BUCKET}/copy/{number}.jpg"] = data
            member = tarfile.TarInfo(f"{number}.jpg")
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    fs.pipe(files)
    fs.pipe_file(f"{_BUCKET}/copy/all.tar", packed.getvalue())
    tar = as_path(f"{root}/all.tar")
    alone = [(f"{root}/{number}.jpg", 0, _SIZE) for number in range(images)]
    inside = [(str(tar), member.start, member.size) for member in members(tar)]
    draw.shuffle(alone)
    draw.shuffle(inside)
    return alone, inside


def _measure(name: str, count: Synchronized[int], images: int, work: Callable[[], object]) -> float:
    """Time some work and print its figures; returns its images per second."""
    before, used, started = count.value, resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
    work()
    seconds = time.perf_counter() - started
    after = resource.getrusage(resource.RUSAGE_SELF)
    processor = after.ru_utime + after.ru_stime - used.ru_utime - used.ru_stime
    requests = count.value - before
    print(
        f"{name:34} {images / seconds:7.0f} images/s  {requests / images:6.3f} requests/image  "
        f"{processor / images * 1e3:5.2f} ms of processor time/image  ({images:,} images, {requests:,} requests)"
    )
    return images / seconds


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int, default=600)
    parser.add_argument("--latency", type=float, default=0.03, help="seconds before a request is passed on")
    args = parser.parse_args()
    from builders.sources.readers.tars import members
    from builders.storage.byte_ranges import Reader
    from builders.storage.paths import as_path

    with _store(args.latency) as count:
        alone, inside = _write(args.images)

        def read(reads: list[Read], *, announced: bool) -> None:
            with Reader() as reader:
                if announced:
                    reader.expect(reads)
                for path, offset, size in reads:
                    if len(reader.read(path, offset, size)) != _SIZE:
                        raise AssertionError(path)

        few = max(1, args.images // 10)
        for name, reads in (("files", alone), ("tar", inside)):
            slow = _measure(f"{name}, one by one", count, few, lambda r=reads: read(r[:few], announced=False))
            fast = _measure(f"{name}, fetched ahead", count, args.images, lambda r=reads: read(r, announced=True))
            print(f"{'':34} {fast / slow:.1f} times as many")
        _measure("headers of the tar", count, args.images, lambda: members(as_path(inside[0][0])))


if __name__ == "__main__":
    main()
