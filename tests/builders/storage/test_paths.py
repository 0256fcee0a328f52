import subprocess
import sys
from pathlib import Path

import pytest

from builders.errors import BuildError
from builders.storage.paths import as_path


def test_paths_of_this_machine_stay_paths():
    for text in ("build/out", "/srv/x", "s3:/no/address", "C:\\release", "a:b", "~/x", "--out"):
        assert as_path(text) == Path(text)
        assert type(as_path(text)) is type(Path())


def test_local_builds_import_nothing_of_stores():
    code = (
        "import sys; from builders.commands import build; from builders.storage.paths import as_path; "
        "from hf_scripts import verify, push, export; as_path('/x'); "
        "print(sorted({'fsspec', 'upath', 's3fs', 'gcsfs', 'aiohttp', 'botocore'} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize(
    ("address", "sentence"),
    [
        ("s3://AKIA:s3cr3t@bucket/x", "has a user, a password or a signature in it"),
        ("s3://bucket/x?X-Amz-Signature=s3cr3t&X-Amz-Expires=9", "has a user, a password or a signature in it"),
        ("gs://s3cr3t@bucket", "has a user, a password or a signature in it"),
        ("s3://bucket/../s3x", "a part that is empty, . or .."),
        ("s3://bucket//x", "a part that is empty, . or .."),
        ("s3://", "a part that is empty, . or .."),
        ("s3://bucket/\x1b[2J", "is no plain address"),
        ("zip://x::s3://bucket/a.zip", "is no plain address"),
        ("s3://bucket/x#s3cr3t", "is no plain address"),
        ("s3://bucket/x::s3cr3t", "is no plain address"),
        ("s3://bucket/s3cr3t\x07", "is no plain address"),
        ("github://a/b", "github:// cannot be used here: its filesystem takes more than an address"),
        ("reference://x", "reference:// cannot be used here: its filesystem takes more than an address"),
        ("dir://x", "dir:// cannot be used here: its filesystem takes more than an address"),
        ("generic://x", "generic:// cannot be used here: its filesystem takes more than an address"),
        ("data://x", "data:// cannot be used here: its filesystem takes more than an address, or has no folders"),
        ("hf://datasets/a/b", "the Hub is no object storage"),
        ("memory://x", "live in one process"),
        ("nosuch://x/y", "nosuch"),
    ],
)
def test_an_address_that_cannot_be_used_is_refused_in_a_sentence_without_its_secrets(address, sentence):
    with pytest.raises(BuildError) as raised:
        as_path(address)
    assert sentence in str(raised.value)
    assert "s3cr3t" not in str(raised.value)
    assert str(raised.value).isprintable()


def test_a_package_that_is_not_installed_is_named_with_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "upath.extensions", None)
    monkeypatch.delitem(sys.modules, "builders.storage.stores.path", raising=False)
    with pytest.raises(BuildError, match=r"a package for it is not installed .*unknown-detection\[objects\]"):
        as_path("s3://bucket/x")
