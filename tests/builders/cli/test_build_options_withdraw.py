"""Withdrawn rows: left out with the reason, nothing else changes, and the release says so."""

import os

import pyarrow.parquet as pq
import pytest

from builders.cifar_benchmark import BENCHMARK, main
from builders.commands.build import read_withdrawn
from builders.errors import BuildError
from builders.release.manifest import read_manifest
from builders.release.tables import read_excluded
from tests.builders.conftest import build_demo
from tests.sentences import assert_sentence, stops

SPLITS = ("cifar/test", "cifar/far_ood_dtd")


def ids(root, split):
    return pq.read_table(root / "index" / "cifar" / f"{split}.parquet")["id"].to_pylist()


def test_withdrawn_rows_are_missing_and_all_others_stay_in_order(cifar_release, demo, tmp_path):
    gone = {ids(cifar_release, "test")[3]: "its owner asked", ids(cifar_release, "far_ood_dtd")[0]: "a person's face"}
    build_demo(demo, tmp_path, benchmark=BENCHMARK, splits=SPLITS, withdrawn=gone)
    for split in ("test", "far_ood_dtd"):
        assert ids(tmp_path, split) == [row for row in ids(cifar_release, split) if row not in gone]
    listed = [(split, row.id, row.reason) for split, row in read_manifest(tmp_path).withdrawn()]
    assert listed == sorted((split, *row) for split, row in zip(SPLITS, gone.items(), strict=True))
    lines = [line for line in read_excluded(tmp_path / "excluded" / "cifar.csv") if line.rule == "withdrawn"]
    assert {line.evidence for line in lines} == set(gone.values())
    card = (tmp_path / "README.md").read_text(encoding="utf-8")
    assert all(f"- `{row}`" in card for row in gone)


def test_a_withdrawn_training_image_does_not_bring_in_another(cifar_release, demo, tmp_path):
    gone = pq.read_table(cifar_release / "index" / "cifar" / "external_validation.parquet")["id"][0].as_py()
    splits = ("cifar/external_validation", "cifar-external/train")
    build_demo(demo, tmp_path, benchmark=BENCHMARK, splits=splits, withdrawn={gone: "asked"})
    train = tmp_path / "index" / "cifar-external" / "train.parquet"
    assert train.read_bytes() == (cifar_release / "index" / "cifar-external" / "train.parquet").read_bytes()


def test_the_command_line_reads_the_list(cifar_release, demo, tmp_path, capsys):
    gone = ids(cifar_release, "far_ood_dtd")[5]
    (tmp_path / "gone.csv").write_text(f"id,reason\n{gone},asked\ndtd/nowhere.jpg,asked\n", encoding="utf-8")
    sources = [text for key in ("cifar100", "dtd") for text in (f"--{key}", str(demo[key]))]
    flags = ["--splits", "cifar/far_ood_dtd", "--out", str(tmp_path / "out"), "--workers", "1"]
    assert main([*sources, *flags, "--quiet", "--withdraw", str(tmp_path / "gone.csv")]) == 0
    assert [row.id for _, row in read_manifest(tmp_path / "out").withdrawn()] == [gone]
    # The same folder cannot hold the rows without the withdrawal.
    assert_sentence(capsys.readouterr().err, "dtd/nowhere.jpg")
    assert main([*sources, *flags]) == 2
    assert_sentence(capsys.readouterr().err)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("row,why\na,b\n", r"lacks the columns id and reason \(found in line 1: row, why\)\. Give"),
        ("", r"lacks the columns id and reason \(found in line 1: nothing\)\. Give"),
        ("id,reason\na,b\nc,\n", r"Line 3 of .* lacks an id or a reason\. Add it"),
        ("id,reason\na,b\nc\n", r"Line 3 of .* lacks an id or a reason\. Add it"),
        ("id,reason\na,b\na,c\n", r"Line 3 of .* gives a a second reason\. Keep one"),
    ],
)
def test_a_list_with_a_mistake_gets_one_sentence(tmp_path, text, sentence):
    (tmp_path / "gone.csv").write_text(text, encoding="utf-8")
    with pytest.raises(BuildError, match=sentence):
        read_withdrawn(tmp_path / "gone.csv")


@pytest.mark.timeout(20)
def test_a_named_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "gone.csv")
    with stops(BuildError, "--withdraw", "CSV"):
        read_withdrawn(tmp_path / "gone.csv")
