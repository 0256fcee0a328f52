"""The list of docs/publishing.md that a person with data and a token goes through, run on the demo."""

import re
import shlex
import subprocess
import sys

from tests.test_docs import ROOT, blocks, run_here

PAGE = ROOT / "docs" / "publishing.md"
REPO = "org/shifted"


def steps(needed="the Hub"):
    """The commands of the section that need just this, each block as a list."""
    (section,) = re.findall(
        r"^## The first push, step by step\n(.*?)^## ", PAGE.read_text(encoding="utf-8"), re.M | re.S
    )
    return [lines for needs, lines in blocks(PAGE) if needs == needed and lines[0] in section]


def of_the_demo(demo, lines):
    """Lines about copies in /data, with the folders of the demo."""
    return [re.sub(r"/data/(\w+)", lambda match: str(demo[match[1]]), line) for line in lines]


def loaded(hub, line, folder, token):
    """Run a line of Python as somebody else, whose machine has nothing of the publisher's."""
    program, *words = shlex.split(line)
    assert program == "python"
    environment = hub.environment(folder, token=token)
    return subprocess.run([sys.executable, *words], env=environment, capture_output=True, text=True, check=False)


def test_the_list_of_a_first_push(demo, drawn_demo, hub, api, only_loopback, tmp_path, monkeypatch, capsys):
    publishes, (load, check) = steps()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    ((*asked,),), ((against,),) = steps("real data"), steps("the Hub and real data")
    for line in of_the_demo(demo, asked):
        assert run_here(line) == 1, "a demo has few of the owner's images"
        assert "is not complete and sound" in capsys.readouterr().out
    for line in publishes:
        assert run_here(line) == 0, (line, capsys.readouterr().err)
        if "--dry-run" in line:
            assert hub.repos == {}
    repository = hub.repos[REPO]
    assert (repository.private, repository.gated, list(hub.tags(REPO))) == (False, "manual", ["v1.0.0"])
    reader = hub.add_user("reader")
    before = loaded(hub, load, tmp_path / "before", reader)
    assert before.returncode != 0 and "gated" in before.stderr
    repository.accepted.add("reader")  # by the owner, on the repository's page
    after = loaded(hub, load, tmp_path / "after", reader)
    assert (after.returncode, "num_rows: 400" in after.stdout) == (0, True), after.stderr
    monkeypatch.setenv("HF_TOKEN", reader)
    assert run_here(check) == 0, capsys.readouterr().err
    (line,) = of_the_demo(demo, [against])
    assert run_here(line) == 0, capsys.readouterr()
    assert "as in org/shifted v1.0.0" in capsys.readouterr().out.splitlines()[-1]
