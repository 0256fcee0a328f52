"""Where copies are: all wrong folders at once, a demo that takes none, and a build straight from the Hub."""

import json
from pathlib import Path

import pytest

from builders.cifar_benchmark import main
from builders.cli.source_flags import (
    default_cache,
    listed_sources,
    parse_source_place,
    refuse_wrong_folders,
)
from builders.errors import BuildError
from builders.hub.place import HubPlace
from builders.release.manifest import read_manifest
from builders.storage.object_path import ObjectPath
from tests.builders import cifar_layouts
from tests.hub.fixtures import api, hub, waits
from tests.hub.guard import only_loopback
from tests.sentences import assert_sentence, stops

__all__ = ["api", "hub", "only_loopback", "waits"]

REPO = "org/cifar"


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def build(*argv):
        code = main(["--quiet", "--workers=1", "--out=out", *map(str, argv)])
        printed = capsys.readouterr()
        assert "Traceback" not in printed.err
        return code, printed.out, printed.err

    return build


def test_a_place_is_a_folder_or_on_the_hub(monkeypatch, tmp_path):
    assert parse_source_place("/data/x") == Path("/data/x")
    assert parse_source_place("hf:/datasets/x") == Path("hf:/datasets/x")
    assert parse_source_place("hf://datasets/org/name@v1") == HubPlace("org/name", "v1")
    (tmp_path / "mine.toml").write_text('dtd = "hf://datasets/org/name/dtd"\nsvhn = "svhn"\n')
    listed = {"dtd": HubPlace("org/name", "main", "dtd"), "svhn": tmp_path / "svhn"}
    assert listed_sources(tmp_path / "mine.toml") == listed
    (tmp_path / "mine.toml").write_text('dtd = "hf://org/name"\n')
    with stops(BuildError, "hf://org/name"):
        listed_sources(tmp_path / "mine.toml")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_cache() == tmp_path / "unknown-detection"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")  # which the specification says to ignore
    assert default_cache() == Path.home() / ".cache" / "unknown-detection"


def test_all_wrong_folders_are_named_at_once(tmp_path, run):
    (tmp_path / "file").write_text("")
    places = {"dtd": tmp_path / "no", "svhn": tmp_path, "lsun": tmp_path / "file"}
    with pytest.raises(BuildError) as caught:
        refuse_wrong_folders(places)
    assert str(caught.value).splitlines() == [
        "2 sources have no folder where they are said to be:",
        f"--dtd {tmp_path / 'no'} does not exist",
        f"--lsun {tmp_path / 'file'} is a file, not a folder",
        "Give the right ones by these flags or in the sources file.",
    ]
    # Before anything is indexed, also of a source that the split does not need, and before anything is downloaded.
    code, _, err = run("--splits=cifar/test", "--cifar100=hf://datasets/org/x", "--imagenet=nowhere", "--dtd=nor-here")
    assert code == 2
    assert_sentence(err, "--imagenet", "--dtd")


@pytest.mark.parametrize("given", ["--imagenet=x", "--cifar100=hf://datasets/org/x", "--sources=mine.toml"])
def test_a_demo_refuses_to_be_given_sources(given, run, tmp_path):
    (tmp_path / "mine.toml").write_text('imagenet = "x"\n')
    code, out, err = run("--demo", given)
    assert (code, out) == (2, "")
    flag = given.partition("=")[0]
    assert err.startswith(f"error: --demo makes up all sources, so {flag} cannot be given with it. Leave out --demo ")
    assert not (tmp_path / "out").exists()


def test_a_demo_names_the_flag_whose_folder_was_given(run):
    """As it was typed: it said `--lsun_fix`, which nobody had given."""
    code, _, err = run("--demo", "--published-lsun-fix=x")
    assert code == 2
    assert_sentence(err, "a folder for --published-lsun-fix")


def test_a_demo_says_that_it_does_not_read_the_file_beside_it(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sources.toml").write_text("this is not even TOML")
    assert main(["--demo", "--dry-run", "--splits=cifar/far_ood_gaussian", "--out=out"]) == 0
    assert "--demo makes up all sources; sources.toml is not read" in capsys.readouterr().err


def test_a_build_from_the_hub_has_the_rows_of_one_from_folders(
    run, hub, api, only_loopback, laid_out, cifar_release, tmp_path
):
    root = laid_out("cifar100", cifar_layouts.cifar100_parquet)
    hub.create(REPO)
    hub.commit(REPO, {p.relative_to(root).as_posix(): p.read_bytes() for p in sorted(root.rglob("*.parquet"))})
    argv = (
        "--splits=cifar/test,cifar/near_ood",
        f"--cifar100=hf://datasets/{REPO}",
        "--allow-partial",
        "--cache=kept",
    )
    code, _, err = run(*argv, "--dry-run")
    assert code == 2
    assert_sentence(err, "cifar100")
    assert list(tmp_path.iterdir()) == []
    code, _, err = run(*argv)
    assert code == 0, err
    built, published = (read_manifest(path).configs["cifar"].splits for path in (Path("out"), cifar_release))
    assert {name: split.digest for name, split in built.items()} == {
        name: published[name].digest for name in ("near_ood", "test")
    }
    cached = [path.name for path in Path("kept").rglob("*.parquet")]
    assert [name.partition("-")[0] for name in cached] == ["test"]  # training images are not needed
    everything = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert not any(hub.token.encode() in path.read_bytes() for path in everything)
    assert hub.token not in err
    assert "hf://" not in json.dumps(json.loads(Path("out/manifest.json").read_text()))
    before = len(hub.asked("cdn"))
    assert run(*argv, "--dry-run")[0] == 0
    assert len(hub.asked("cdn")) == before


def test_addresses_in_stores_are_places():
    pytest.importorskip("upath")
    place = parse_source_place("s3://bucket/imagenet/")
    assert str(place) == "s3://bucket/imagenet" and isinstance(place, ObjectPath)
    with stops(BuildError):
        parse_source_place("s3://key:secret@bucket/imagenet")
