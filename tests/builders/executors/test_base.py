import subprocess
import sys
from pathlib import Path

from builders.executors import base
from builders.executors.base import once_per_worker

ROOT = Path(__file__).parents[3]


def test_the_last_thing_set_up_is_let_go_before_another_is_made(monkeypatch):
    monkeypatch.setattr(base, "_worker_values", {})
    kept_while_making = []

    def one():
        kept_while_making.append(list(base._worker_values))
        return "one"

    def two():
        kept_while_making.append(list(base._worker_values))
        return "two"

    assert [once_per_worker(make) for make in (one, one, two, two, one)] == ["one", "one", "two", "two", "one"]
    assert kept_while_making == [[], [], []]
    assert list(base._worker_values) == [one]


def run(script):
    process = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    return process.stdout.split()


def test_arrow_works_without_importing_pandas_which_can_still_be_imported():
    script = (
        "import sys\nfrom builders.executors.base import without_pandas\nwithout_pandas()\nimport pyarrow as pa\n"
        "print(pa.array(['a', 'b']).to_pylist() == ['a', 'b'], 'pandas' in sys.modules)\n"
        "import pandas\nprint(pandas.__name__)\n"
    )
    assert run(script) == ["True", "False", "pandas"]


def test_what_workers_import_makes_no_array_before_that():
    modules = "builders.generate.task, builders.pipeline.run, builders.pipeline.shards"
    assert run(f"import sys, {modules}\nprint('pandas' in sys.modules)\n") == ["False"]
