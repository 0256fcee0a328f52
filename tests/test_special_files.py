"""A named pipe in a release is named by every command that reads its rows, and hangs none."""

import os

import pytest

from builders.commands.audit import main as audit
from builders.commands.report import main as report
from hf_scripts.export import main as export
from hf_scripts.verify import main as verify
from tests.hf_scripts.samples import make_release
from tests.sentences import assert_sentence

SHARD = "data/bench/near_ood-00000-of-00001.parquet"
INDEX = "index/bench/near_ood.parquet"


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    ("main", "arguments", "path"),
    [
        (verify, "{release}", SHARD),
        (export, "{release} --format openood --out {out}", SHARD),
        (export, "{release} --format imagefolder --out {out} --dry-run", SHARD),
        (export, "{release} --format webdataset --out {out}", SHARD),
        (report, "{release} --out {out}", INDEX),
        (audit, "sheet {release} --out {out}.png", SHARD),
        (audit, "duplicates {release}", INDEX),
        (audit, "smoothness {release}", SHARD),
        (audit, "artifacts {release} --workers 1", SHARD),
    ],
)
def test_a_pipe_in_place_of_a_file_is_named(main, arguments, path, tmp_path, capsys):
    release = make_release(
        tmp_path / "release", {"bench/test": range(4), "bench/near_ood": range(4)}, publish="ids-only"
    )
    (release / path).unlink()
    os.mkfifo(release / path)
    code = main([part.format(release=release, out=tmp_path / "out") for part in arguments.split()])
    said = capsys.readouterr()
    if main is verify:
        assert (code, said.out.count(path), "is not a regular file" in said.out) == (1, 1, True)
    else:
        assert (code, said.out) == (2, "")
        assert_sentence(said.err, f"{release / path} is a named pipe")
    assert not [found for found in tmp_path.rglob("*") if found.name.startswith("out") and found.is_file()]
