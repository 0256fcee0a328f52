"""Releases to publish, a stand-in to publish them to, and the command in this process."""

import functools
import ssl
from dataclasses import dataclass

import pytest

from builders.sources import registry
from builders.sources.base import Licence
from hf_scripts import push as push_command
from tests.hf_scripts.samples import REPO, SOURCES, SPLITS, TERMS, declaration, linked_copy, make_release
from tests.hub.fixtures import api, hub, naps, waits
from tests.hub.guard import only_loopback

__all__ = ["api", "hub", "naps", "only_loopback", "waits"]


@dataclass(frozen=True)
class Ran:
    """How a command ended and what it said."""

    code: int
    out: list[str]
    err: list[str]

    @property
    def error(self):
        """The one sentence of a failure."""
        assert self.code == 2, self
        assert self.err[-1].startswith("error: "), self
        assert not any(line.startswith("Traceback") for line in self.err)
        return self.err[-1].removeprefix("error: ")


@pytest.fixture(scope="session", autouse=True)
def declared():
    """The sources of the releases that tests make, as if they were declared."""
    declarations = {
        key: declaration(key, "The Source", Licence("Its Licence", TERMS, publish, "Do as you are told."))
        for publish, key in SOURCES.items()
    }
    with pytest.MonkeyPatch.context() as patch:
        known = registry.declared_source
        patch.setattr("hf_scripts.publish.licences.declared_source", lambda key: declarations.get(key) or known(key))
        yield


@pytest.fixture(scope="session", autouse=True)
def one_ssl_context():
    """Each command makes a client, whose certificates take a tenth of its time; the stand-in speaks plain HTTP."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ssl, "create_default_context", functools.cache(ssl.create_default_context))
        yield


@pytest.fixture
def push(hub, api, only_loopback, tmp_path, monkeypatch, capsys):
    """Run the command on a folder of `tmp_path`, named as from there."""
    monkeypatch.chdir(tmp_path)

    def run(folder, *flags, tag="v1.0.0", repo=REPO):
        arguments = [folder, "--repo", repo, "--tag", tag, "--workers", "1", *flags]
        code = push_command.main(arguments)
        printed = capsys.readouterr()
        for text in (printed.out, printed.err):
            assert hub.token not in text
            assert str(tmp_path) not in text
            assert "/tmp/" not in text
        return Ran(code, printed.out.splitlines(), printed.err.splitlines())

    return run


@pytest.fixture(scope="session")
def sample(tmp_path_factory):
    """A release of three splits. Read only."""
    return make_release(tmp_path_factory.mktemp("sample") / "release", SPLITS)


@pytest.fixture
def more(tmp_path):
    """A release of one split that joins it, under the name `more`."""
    return make_release(tmp_path / "more", {"bench/far_ood": range(4)})


@pytest.fixture
def release(sample, tmp_path):
    """A linked copy of it under the name `release`."""
    return linked_copy(sample, tmp_path / "release")
