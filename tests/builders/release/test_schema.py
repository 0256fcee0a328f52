"""The table of columns, from which schemas, plans, shards, the card and the metadata follow."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from builders.release.schema import Column

HERE = Path(__file__).parents[3]

PLANNED = (
    (
        "builders/release/schema.py",
        '    "id": CommonColumn(',
        '    "partition": CommonColumn("part of that dataset"),\n',
    ),
    (
        "builders/plan/planner.py",
        '            "id": row_ids(split, source_ids),\n',
        '            "partition": index.take(["partition"], rows)["partition"],\n',
    ),
)
READ = (
    (
        "builders/release/schema.py",
        '    "stored": CommonColumn(',
        '    "length": CommonColumn("bytes", "int64", True),\n',
    ),
    (
        "builders/pipeline/shards.py",
        '        values["stored"] = pa.array(group.stored, pa.string())\n',
        '        values["length"] = pa.array(np.diff(group.offsets), pa.int64())\n',
    ),
)
"""A new column that is planned and one that is read: its file, the line before which one is added, and that line."""


def built_with(added, tmp_path):
    """Build a split of the demo with some lines added to a copy of the packages; returns the rows of its files."""
    for package in ("builders", "cards", "hf_scripts", "taxonomy", "unknown_detection"):
        shutil.copytree(HERE / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
    for file, before, line in added:
        text = (tmp_path / file).read_text(encoding="utf-8")
        assert text.count(before) == 1, file
        (tmp_path / file).write_text(text.replace(before, line + before), encoding="utf-8")
    env = os.environ | {"PYTHONPATH": str(tmp_path)}
    split = ["--splits", "imagenet/far_ood_food32", "--limit-per-class", "1", "--workers", "1", "--quiet"]
    for command in (
        ["-m", "builders.imagenet_benchmark", "--demo", *split, "--out", str(tmp_path / "out")],
        ["-m", "hf_scripts.verify", str(tmp_path / "out")],
    ):
        subprocess.run([sys.executable, *command], cwd=tmp_path, env=env, check=True, capture_output=True)
    index = pq.read_table(tmp_path / "out/index/imagenet/far_ood_food32.parquet")
    (data,) = (tmp_path / "out/data/imagenet").glob("far_ood_food32-*.parquet")
    rows = pq.read_table(data)
    assert rows.drop_columns("image").equals(index)
    return rows, (tmp_path / "out/README.md").read_text(encoding="utf-8")


def test_a_column_is_one_line_in_the_table_and_one_where_its_value_is_made(tmp_path):
    """Files, index and card have it, and the release verifies."""
    rows, card = built_with([*PLANNED, *READ], tmp_path)
    for name, value in (("partition", lambda row: "images"), ("length", lambda row: len(row["image"]["bytes"]))):
        assert rows[name].to_pylist() == [value(row) for row in rows.to_pylist()]
        assert f"`{name}`" in card


def test_a_column_of_a_config_is_called_like_no_column_of_the_tables_in_use_during_a_build():
    for name in ("class_id", "expected_sha256", "root", "unreadable", "pixel_sha256", "input_sha256"):
        with pytest.raises(ValueError, match=f"{name} cannot name a column of a config"):
            Column(name, "string", "taken")
