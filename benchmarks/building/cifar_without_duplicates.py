"""The CIFAR-scale builder without its search for near-duplicates, which its rivals do not make."""

from __future__ import annotations

import dataclasses
import sys

from builders.cifar_benchmark import BENCHMARK
from builders.commands.benchmark import run_command
from builders.executors.base import without_pandas

if __name__ == "__main__":
    without_pandas()
    configs = tuple(dataclasses.replace(config, duplicates_of="") for config in BENCHMARK.configs)
    sys.exit(run_command(dataclasses.replace(BENCHMARK, configs=configs), None))
