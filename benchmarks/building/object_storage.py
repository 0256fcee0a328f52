"""Building and verifying in object storage against this machine's disk, and the requests that the store gets.

`python -m benchmarks.building.object_storage --scratch DIR` writes JPEGs of about 85 KB into 1,000 class folders, and
builds all of them in one process, into a folder and in turn into moto's S3 in a process of its own, behind a proxy
that counts requests. Then both are verified (`--check fast`), which reads every byte. Prints medians of elapsed and
processor time of the command, and the requests of its first round.

The server, the proxy and the command share this machine, so elapsed times say what the protocol costs, and nothing of
a network: on one, add its way there and back for each request that waits for the one before.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from benchmarks.building.cost import measured
from benchmarks.building.release import write_tree
from tests.store.proxy import Proxy, proxied
from tests.store.server import Store


@contextlib.contextmanager
def running() -> Iterator[Store]:
    """Run moto's S3 in a process of its own inside the block."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            while True:
                with contextlib.suppress(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port)):
                    break
                time.sleep(0.1)
            yield Store(port)
        finally:
            process.terminate()


def result_line(name: str, rounds: Sequence[tuple[float, float]], requests: Mapping[str, int]) -> str:
    """Return the lines that describe a competitor's result."""
    processor, clock = (statistics.median(values) for values in zip(*rounds, strict=True))
    elapsed = " ".join(f"{seconds:.1f}" for _, seconds in rounds)
    line = f"{name:20} elapsed {clock:6.1f} s  processor {processor:6.1f} s  ({elapsed})"
    if requests:
        line += f"\n{'':20} {sum(requests.values())} requests: " + ", ".join(f"{n} {k}" for k, n in requests.items())
    return line


def take_counts(proxy: Proxy) -> dict[str, int]:
    """Return the numbers of requests since the last call, by operation."""
    counts = dict(sorted(proxy.kinds().items()))
    proxy.requests.clear()
    return counts


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scratch", type=Path, required=True, help="folder with 4 GB free")
    parser.add_argument("--per-class", type=int, default=14, help="JPEGs of each of 1,000 classes")
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    tree, out = args.scratch / "tree", args.scratch / "release"
    if not tree.exists():
        write_tree(tree, args.per_class)
    size = sum(path.stat().st_size for path in tree.rglob("*.JPEG"))
    with running() as store, proxied(store.port) as proxy:
        environment = {**os.environ, **store.environment(proxy.url)}
        rounds_of: dict[str, list[tuple[float, float]]] = {}
        requests: dict[str, dict[str, int]] = {}
        for _ in range(args.repeats):
            shutil.rmtree(out, ignore_errors=True)
            places = {"folder": str(out), "store": f"s3://{store.bucket()}/release"}
            for place, address in places.items():
                build = [sys.executable, "-m", "benchmarks.building.whole_source", str(tree), address, "--one-worker"]
                check = [sys.executable, "-m", "hf_scripts.verify", address, "--check", "fast", "--workers", "1"]
                for name, command in ((f"build, {place}", build), (f"verify, {place}", check)):
                    rounds_of.setdefault(name, []).append(measured(command, environment))
                    requests.setdefault(name, take_counts(proxy))
            shards = len(list(out.glob("data/*/*.parquet")))
            store.client.rm(places["store"], recursive=True)
    print(f"{size / 1e9:.2f} GB of JPEGs, {shards} shards")
    for name, rounds in rounds_of.items():
        print(result_line(name, rounds, requests[name]))
    shutil.rmtree(out, ignore_errors=True)


if __name__ == "__main__":
    main()
