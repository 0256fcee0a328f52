"""Sentences that people read where something is refused: tests assert what is relied on, one file has the words.

A test names the kind of error and the file, flag or row that it is about, with `stops` or `assert_sentence`. The whole
sentence stands in `sentences.txt` beside the test's name, so that a reworded one changes that file only:

    pytest --renew-sentences [tests/FILE.py] [-k NAME]    # then look at the diff

Entries of tests that ran and passed are renewed; those of tests that are no more go with a run of the file.
"""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FILE = Path(__file__).with_name("sentences.txt")
NEXT, MORE = "  - ", "    "  # starts of a sentence's first line and of its others


def read(path: Path) -> dict[str, list[str]]:
    """The sentences of each test, in the order in which it meets them."""
    found: dict[str, list[str]] = {}
    sentences: list[str] = []
    for line in path.read_text(encoding="utf-8").split("\n")[:-1]:
        if line.startswith(NEXT):
            sentences.append(line.removeprefix(NEXT))
        elif line.startswith(MORE):
            sentences[-1] += f"\n{line.removeprefix(MORE)}"
        else:
            sentences = found.setdefault(line, [])
    return found


def write(path: Path, entries: dict[str, list[str]]) -> None:
    """Write what `read` reads, sorted by tests; those without a sentence are left out."""
    lines = [
        line
        for test, sentences in sorted(entries.items())
        if sentences
        for line in (test, *(NEXT + sentence.replace("\n", f"\n{MORE}") for sentence in sentences))
    ]
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


class Sentences:
    """What the tests of one process say, and what the file has; workers hand theirs to the process that writes."""

    def __init__(self, config: pytest.Config, file: Path) -> None:
        self.config, self.file = config, file
        self.recorded = read(file)
        self.said: dict[str, list[str]] = {}
        self.gone: list[str] = []
        self.item: pytest.Item | None = None
        self.now: list[str] = []

    @pytest.hookimpl(tryfirst=True)  # before some are left out: these are no less there
    def pytest_collection_modifyitems(self, items):
        tests = {item.nodeid for item in items}
        files = {test.partition("::")[0] for test in tests} if "::" not in "".join(self.config.args) else set()
        self.gone = [
            test
            for test in sorted(self.recorded.keys() - tests)
            if (file := test.partition("::")[0]) in files or not (self.config.rootpath / file).is_file()
        ]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item):
        self.item, self.now = item, []
        try:
            done = yield
        finally:
            self.item = None
        self.said[item.nodeid] = self.now
        had = self.recorded.get(item.nodeid, [])
        if not self.config.option.renew_sentences and len(had) > len(self.now):
            pytest.fail(f"{item.nodeid} says no more: {had[len(self.now)]}\n{how_to_renew(item)}", pytrace=False)
        return done

    def hear(self, text: str) -> None:
        """Take the next sentence of the test that runs; fails where the file has another."""
        __tracebackhide__ = True
        assert self.item is not None, "only a test says sentences, neither a fixture nor a module"
        sentence = neutral(text, self.item)
        had = self.recorded.get(self.item.nodeid, [])[len(self.now) :]
        self.now.append(sentence)
        if not self.config.option.renew_sentences and had[:1] != [sentence]:
            pytest.fail(f"says: {sentence}\nhad:  {had[0] if had else 'nothing'}\n{how_to_renew(self.item)}")

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self):
        if hasattr(self.config, "workeroutput"):
            self.config.workeroutput["sentences"] = [self.said, self.gone]
        elif self.config.option.renew_sentences:
            kept = {test: sentences for test, sentences in self.recorded.items() if test not in self.gone}
            write(self.file, kept | self.said)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node):
        said, self.gone = getattr(node, "workeroutput", {}).get("sentences", [{}, self.gone])
        self.said |= said

    def pytest_terminal_summary(self, terminalreporter):
        for test in self.gone:
            done = "removed" if self.config.option.renew_sentences else "removed by --renew-sentences"
            terminalreporter.write_line(f"{self.file.name}: {test} is no more ({done})")


def how_to_renew(item: pytest.Item) -> str:
    """What to do where a sentence has changed and is right."""
    return f"If that is right: pytest -n 0 --renew-sentences {item.nodeid.partition('::')[0]}"


def neutral(text: str, item: pytest.Item) -> str:
    """A sentence without what differs between runs, machines and versions of libraries: places, ports and digests."""
    base = item.config._tmp_path_factory.getbasetemp()
    run = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    if "tmp_path" in item.funcargs:
        text = text.replace(str(item.funcargs["tmp_path"]), "TMP")
    text = re.sub(rf"{re.escape(str(run))}(?:/popen-gw\d+)?/([\w-]+?)\d*\b", r"RUN/\1", text)
    text = re.sub(r"\b(\d+(?:\.\d+){3}|localhost):\d+", "HOST:PORT", text.replace(str(ROOT), "CHECKOUT"))
    text = re.sub(r"\b(?=[a-f]*\d)[0-9a-f]{12,}\b", "DIGEST", re.sub(r"\bbucket-\d+", "BUCKET", text))
    return text.encode("utf-8", "backslashreplace").decode()


def assert_sentence(text: str, *named: object) -> None:
    """Check that a sentence names what a person looks for, and that it's the one of `sentences.txt`.

    Of what a command writes to stderr, that is its error, if there is one.
    """
    __tracebackhide__ = True
    text = f"\n{text}".rpartition("\nerror: ")[2].strip("\n")
    missing = [str(name) for name in named if str(name) not in text]
    assert not missing, f"{missing} not named in: {text}"
    _HEARING[0].hear(text)


@contextmanager
def stops(kind: type[BaseException], *named: object) -> Iterator[pytest.ExceptionInfo]:
    """Check that an error of a kind is raised whose sentence is as `assert_sentence` says; gives the error."""
    __tracebackhide__ = True
    with pytest.raises(kind) as caught:
        yield caught
    assert_sentence(str(caught.value), *named)


_HEARING: list[Sentences] = []  # one, of this process


def add_option(parser: pytest.Parser) -> None:
    """Add the option that renews the file."""
    parser.addoption("--renew-sentences", action="store_true", help=f"write what tests say into {FILE.name}")


def register(config: pytest.Config, file: Path = FILE) -> None:
    """Have a run hear the sentences of its tests."""
    _HEARING[:] = [Sentences(config, file)]
    config.pluginmanager.register(*_HEARING)
