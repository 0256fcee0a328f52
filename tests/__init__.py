"""Tests. They mirror the tree, and run with one BLAS thread in each process.

Workers of pytest-xdist have the cores already. With a thread for each core in each of them, threads wait for one
another: a build that searches 28,000 images for near-duplicates took 59 s of processor time on two busy cores,
and 12 s with one thread.
"""

import os
import sys

# Some thousand processes start: they read compiled modules, and do not compile each of them again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")  # before anything imports numpy
