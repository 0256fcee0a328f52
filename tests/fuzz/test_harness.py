import gzip
import sys
import tempfile
import zlib
from pathlib import Path

import pytest

from tests.fuzz import __main__, harness
from tests.fuzz.bombs import gzip_bomb, zlib_bomb
from tests.fuzz.faulty import FAULTS
from tests.fuzz.mutations import damaged

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits and memory are read from Linux's /proc")

FAULTY = "tests.fuzz.faulty:faulty"


@pytest.fixture(scope="module")
def outcomes():
    """What came of every reader with a fault, by its name."""
    elsewhere = Path(tempfile.gettempdir(), "unknown-detection-fuzz")
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(harness, "SECONDS", 0.5)  # by the clock, for a first try
            patch.setattr(harness, "_PATIENCE", 2.5)
            return harness.run_cases(FAULTY)
    finally:
        elsewhere.unlink(missing_ok=True)


@pytest.mark.parametrize("name", FAULTS)
def test_each_kind_of_fault_is_noticed(outcomes, name):
    assert outcomes[name].kind == name.split()[0]
    assert outcomes[name].sound == (name.split()[0] in ("value", "refused"))


def test_bombs_are_what_the_libraries_read():
    head, zeros = b"the head", bytes(3 << 20)
    assert zlib.decompress(zlib_bomb(head, 3)) == head + zeros
    assert gzip.decompress(gzip_bomb(head, 3)) == head + zeros
    assert gzip.decompress(gzip_bomb(head, 3, b"the tail")) == head + zeros + b"the tail"


def test_every_input_has_one_outcome_in_order(outcomes):
    assert list(outcomes) == list(FAULTS)


def test_a_fault_says_where_it_is(outcomes):
    assert "KeyError: 'key'" in outcomes["traceback exception"].message
    assert outcomes["signal"].message.startswith("SIGBUS\n")
    assert "faulty.py" in outcomes["signal"].message  # the line that ran
    assert "unknown-detection-fuzz" in outcomes["wrote elsewhere"].message
    assert outcomes["time waits"].message == "waits"
    # On a machine that others keep busy the clock may be first, which is as much of a fault.
    assert outcomes["time computes"].message in ("computes for more than two seconds", "waits")


def test_faults_are_described_and_their_inputs_kept(outcomes, tmp_path, monkeypatch):
    monkeypatch.setattr(harness, "FAULTS", tmp_path / "kept")
    text = harness.described(FAULTY, list(outcomes.values()))
    assert "input case signal, kept in" in text
    assert "case refused" not in text
    assert (tmp_path / "kept" / "faulty-case-signal").read_bytes() == b"signal"
    assert len(list((tmp_path / "kept").iterdir())) == sum(
        name.split()[0] not in ("value", "refused") for name in FAULTS
    )
    assert harness.described(FAULTY, [outcomes["value"]]) == ""


def test_damage_follows_from_name_and_number():
    good = [bytes(range(256)) * 8, b"digits 0000123 and more"]
    first = [damaged("x", number, good) for number in range(300)]
    assert first == [damaged("x", number, good) for number in range(300)]
    assert first != [damaged("y", number, good) for number in range(300)]
    inputs = {data for data, _ in first}
    assert len(inputs) > 250
    assert len(inputs & set(good)) < 10
    assert 100 < sum(repair for _, repair in first) < 200
    assert any(b"-" in data for data in inputs if data.startswith(b"digits"))


def test_the_command_counts_outcomes(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(harness, "FAULTS", tmp_path)
    monkeypatch.setattr(
        __main__, "all_targets", lambda: {"jpeg-structure": "tests.fuzz.targets.images:jpeg-structure"}
    )
    assert __main__.main(["--examples", "20"]) == 0
    assert capsys.readouterr().out.startswith("jpeg-structure: 20 value; 0 different messages; at most ")
    with pytest.raises(SystemExit) as ended:
        __main__.main(["nothing"])
    assert ended.value.code == 2
