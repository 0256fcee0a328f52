"""All declared benchmarks, by name.

Tested by `tests/test_architecture.py`.
"""

from __future__ import annotations

from collections.abc import Mapping

from builders import (
    broad_benchmark,
    cifar_benchmark,
    facets_benchmark,
    imagenet_benchmark,
    openood_benchmark,
    ssb_benchmark,
)
from builders.declare.benchmark import Benchmark

BENCHMARKS: Mapping[str, Benchmark] = {
    benchmark.name: benchmark
    for benchmark in (
        imagenet_benchmark.BENCHMARK,
        cifar_benchmark.BENCHMARK,
        facets_benchmark.BENCHMARK,
        broad_benchmark.BENCHMARK,
        openood_benchmark.BENCHMARK,
        ssb_benchmark.BENCHMARK,
    )
}
