"""What one sees of commands on a terminal: labelled bars that fill up, each on a line of its own, then the results."""

import re

from tests.unknown_detection.terminal.running import WIDTH, interrupted, screen_of

BAR = re.compile(r"[a-z][\w /=.-]*: 100%\|[^|]*\| [\w.,/]+ \[[^\]]*\]")


def check(lines, results):
    """Bars are labelled and full, and below the last one stands, line by line, what the command prints on stdout."""
    bars = [number for number, line in enumerate(lines) if "%|" in line or "|█" in line]
    assert bars
    for number in bars:
        assert BAR.fullmatch(lines[number]), lines[number]
    wrapped = [line[at : at + WIDTH] for line in results for at in range(0, len(line) or 1, WIDTH)]
    wrapped = [line.rstrip() for line in wrapped]
    assert lines[-len(wrapped) :] == wrapped
    assert max(bars) < len(lines) - len(wrapped)
    return [lines[number].partition(":")[0] for number in bars]


def piped(module, *arguments):
    """The lines that the same command prints on stdout."""
    done = interrupted(module, *arguments, at="")
    assert done.returncode == 0, done.stderr
    assert "%|" not in done.stderr
    return done.stdout.splitlines()


def test_a_build(built):
    again = piped(*built.arguments, "--out", built.folder)  # which finds its work done, and prints the same
    assert check(built.lines, again) == ["finding", "writing", "finishing"]


def test_verify(built):
    command = ("hf_scripts.verify", built.folder, "--check", "fast", "--workers", "1")
    code, lines = screen_of(*command)
    assert code == 0, lines
    assert check(lines, piped(*command)) == ["checking"]
