"""What a machine lacks is one sentence and exit code 2, at a command's imports and while it works."""

import os
import re
import subprocess
import sys

import click
import numpy as np
import pytest

from unknown_detection.terminal.command_line import run_command_line
from unknown_detection.terminal.shortages import shortage

LIMITED = """
import resource, sys
limit, number = sys.argv[1], int(sys.argv[2])
which = {"memory": resource.RLIMIT_AS, "files": resource.RLIMIT_NOFILE}[limit]
resource.setrlimit(which, (number, number))
import os
os.execv(sys.executable, [sys.executable, *sys.argv[3:]])
"""


def limited(limit, number, *words):
    """Run a command under a limit of the system; returns its exit code and what it says on stderr."""
    command = [sys.executable, "-c", LIMITED, limit, str(number), "-m", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200)
    return done.returncode, done.stderr.splitlines()


def flags(demo, out, workers):
    build = ["build", "imagenet", "--splits", "imagenet/far_ood_caltech45", "--allow-partial", "--quiet"]
    return [*build, "--caltech256", str(demo["caltech256"]), "--out", str(out), "--workers", str(workers)]


@pytest.mark.parametrize("mib", [100, 400, 500])
@pytest.mark.parametrize("module", ["unknown_detection", "builders.imagenet_benchmark"])
def test_too_little_memory_is_a_sentence(demo, tmp_path, mib, module):
    """At 100 MiB no library is mapped, at 500 MiB libraries are and threads or arrays are not."""
    words = flags(demo, tmp_path / "out", 1)
    code, said = limited("memory", mib << 20, module, *(words if module == "unknown_detection" else words[2:]))
    assert code == 2, said
    assert len(said) == 1 and re.match(
        "error: (The memory does not suffice|No further thread can be started)", said[0]
    )


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("mib", range(400, 1900, 100))
def test_under_any_limit_of_memory_a_build_is_whole_or_says_why_not(demo, tmp_path, mib, workers):
    code, said = limited("memory", mib << 20, "unknown_detection", *flags(demo, tmp_path / "out", workers))
    assert code in (0, 2), said
    assert not any("Traceback" in line for line in said)
    assert code == 0 or said[-1].startswith("error: ")


@pytest.mark.parametrize(("files", "workers"), [(16, 2), (32, 8)])
def test_too_few_files_for_workers_are_a_sentence(demo, tmp_path, files, workers):
    """The fork server isn't asked for workers that this process has no files for; it would die with a traceback."""
    code, said = limited("files", files, "unknown_detection", *flags(demo, tmp_path / "out", workers))
    assert code == 2
    assert len(said) == 1 and said[0].startswith("error: ") and "oo many open files" in said[0]


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (MemoryError(), "The memory does not suffice. Free some"),
        (RuntimeError("can't start new thread"), "No further thread can be started (can't start new thread). Allow"),
        (
            ImportError("libarrow.so: failed to map segment", name="pyarrow.lib"),
            "The memory does not suffice (lib",
        ),
        (ModuleNotFoundError("No module named 'numpy'", name="numpy"), "A package that is needed does not load (No"),
    ],
)
def test_a_command_says_what_is_short(capsys, error, sentence):
    @click.command("command")
    def command():
        try:
            raise error
        except MemoryError:
            raise ValueError("what a library makes of it") from error

    assert run_command_line(command, [], (), stopped="") == 2
    assert capsys.readouterr().err.startswith(f"error: {sentence}")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="/dev/full is a file of Linux")  # noqa: PTH110
@pytest.mark.parametrize("words", [["verify", "--workers=1", "--check=fast"], ["--version"], ["sources"]])
def test_an_output_that_takes_nothing_is_a_sentence(imagenet_release, words):
    """And not exit code 1, by which `verify` says that a release has problems."""
    with open("/dev/full", "w") as full:  # noqa: PTH123
        command = [sys.executable, "-m", "unknown_detection", *words]
        command += [str(imagenet_release)] if words[0] == "verify" else []
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=200)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr and done.stderr.startswith("error: ")


def test_numpy_says_how_much_it_wanted():
    with pytest.raises(MemoryError) as raised:
        np.empty(1 << 50)
    assert shortage(raised.value).startswith("The memory does not suffice (Unable to allocate 8.00 PiB for an array")


@pytest.mark.parametrize(
    "said",
    ["error return without exception set", "<function f at 0x7f> returned NULL without setting an exception"],
)
def test_a_library_in_c_that_has_no_memory_for_its_error_is_a_sentence(said):
    """Both were seen at the import of Pillow under 400 MiB, one run in ten."""
    assert shortage(SystemError(said)).startswith("The memory does not suffice (")


@pytest.mark.parametrize(
    "error",
    [
        ValueError("a defect"),
        ImportError("cannot import name 'x' from 'builders.errors'", name="builders.errors"),
        ModuleNotFoundError("No module named 'builders.absent'", name="builders.absent"),
        ImportError("cannot import name 'x' from 'numpy'", name="numpy"),
        ImportError("without a name"),
    ],
)
def test_defects_of_ours_keep_their_traceback(error):
    @click.command("command")
    def command():
        raise error

    with pytest.raises(type(error)):
        run_command_line(command, [], (), stopped="")


def test_a_package_that_does_not_load_is_a_sentence_at_the_imports_of_a_command(tmp_path):
    (tmp_path / "pyarrow").mkdir()
    (tmp_path / "pyarrow/__init__.py").write_text("import absent_part_of_pyarrow")
    done = subprocess.run(
        [sys.executable, "-m", "unknown_detection", "build", "imagenet", "--demo", "--out", str(tmp_path / "out")],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout) == (2, "")
    expected = (
        "error: A package that is needed does not load (No module named 'absent_part_of_pyarrow'). Install it again"
    )
    assert done.stderr.startswith(expected) and done.stderr.count("\n") == 1
