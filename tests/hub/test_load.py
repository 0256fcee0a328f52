"""`datasets.load_dataset` and `HfFileSystem` read a published repository from the stand-in."""

import io
import subprocess
import sys
from pathlib import Path

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from datasets.exceptions import DatasetNotFoundError
from huggingface_hub import HfFileSystem

from tests.hub.client import in_process

REPO = "org/Some-Name"
SPLITS = {"alpha": ("train", "test"), "beta": ("test",)}


def rows(config, split):
    return [{"id": f"{config}-{split}-{number}", "label": number % 3} for number in range(10)]


def parquet(rows, **options):
    buffer = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), buffer, **options)
    return buffer.getvalue()


def card(splits):
    lines = ["---", "configs:"]
    for config, names in splits.items():
        lines += [f"- config_name: {config}", "  data_files:"]
        lines += [f"  - {{split: {name}, path: data/{config}/{name}-*.parquet}}" for name in names]
    return "\n".join([*lines, "---", "# Card", ""]).encode()


def release(splits=SPLITS):
    """A card with two configs and a Parquet file for each split, as `hf_scripts` lays a release out."""
    data = {
        f"data/{config}/{split}-00000-of-00001.parquet": parquet(rows(config, split))
        for config, names in splits.items()
        for split in names
    }
    return {"README.md": card(splits), "manifest.json": b"{}\n", **data}


@pytest.fixture
def published(hub):
    """A release tagged v1, and on main one with another split and no config beta."""
    hub.create(REPO)
    hub.commit(REPO, release())
    hub.tag(REPO, "v1")
    later = release({"alpha": ("train", "test", "more")})
    hub.commit(REPO, {**later, "data/beta/test-00000-of-00001.parquet": None})
    return REPO


@pytest.mark.parametrize("streaming", [False, True])
@pytest.mark.parametrize(("config", "split"), [(c, s) for c, names in SPLITS.items() for s in names])
def test_rows_of_a_tag(api, published, config, split, streaming):
    found = datasets.load_dataset(published, config, split=split, revision="v1", streaming=streaming)
    assert list(found) == rows(config, split)


def test_main_differs_from_the_tag(hub, api, published):
    assert list(datasets.load_dataset(published, "alpha", split="more")) == rows("alpha", "more")
    # Of main, and of no other revision, the dataset viewer is asked for what it knows.
    assert [request.status for request in hub.asked("dataset_viewer")] == [404]
    with pytest.raises(ValueError, match="more"):
        datasets.load_dataset(published, "alpha", split="more", revision="v1")
    assert datasets.get_dataset_config_names(published, revision="v1") == ["alpha", "beta"]


def test_a_commit_is_a_revision_too(hub, api, published):
    oldest = hub.commits(published)[1].id
    assert list(datasets.load_dataset(published, "beta", split="test", revision=oldest)) == rows("beta", "test")


def test_loading_fetches_every_split_of_a_config_and_nothing_of_others(hub, api, published):
    datasets.load_dataset(published, "alpha", split="test", revision="v1")
    fetched = {request.path.rpartition("/")[2] for request in hub.asked("cdn")}
    files = hub.files(published, "v1")
    assert fetched == {files[f"data/alpha/{split}-00000-of-00001.parquet"].sha256 for split in ("train", "test")}


def test_what_load_dataset_asks(hub, api, published):
    """The card at the revision given; all else at its commit: files that are mostly missing, folders, data files."""
    datasets.load_dataset(published, "beta", split="test", revision="v1")
    commit = hub.commits(published, "v1")[0].id
    assert {request.route for request in hub.requests} == {"resolve", "repo_info", "tree", "cdn"}
    assert not [request for request in hub.requests if request.method not in ("GET", "HEAD")]
    missing = {request.path.rpartition("/")[2] for request in hub.requests if request.status == 404}
    assert missing == {"Some-Name.py", ".huggingface.yaml", "dataset_infos.json"}
    by_tag = {request.path.rpartition("/")[2] for request in hub.asked("resolve") if "/v1/" in request.path}
    assert by_tag == {"README.md"}
    others = [*hub.asked("repo_info"), *hub.asked("tree")]
    assert all(commit in request.path for request in others)
    assert len(hub.asked("cdn")) == 1


def test_caches_stay_in_their_folder(hub, tmp_path):
    hub.create(REPO)
    hub.commit(REPO, release())
    with in_process(hub, tmp_path / "caches"):
        loaded = datasets.load_dataset(REPO, "beta", split="test")
    assert all(
        Path(file["filename"]).is_relative_to(tmp_path / "caches" / "hf-datasets") for file in loaded.cache_files
    )
    assert {path.name for path in (tmp_path / "caches").iterdir()} == {"hf-home", "hf-datasets"}


def test_a_private_repository_is_loaded_with_its_token_only(hub, tmp_path):
    hub.create(REPO, private=True)
    hub.commit(REPO, release())
    with in_process(hub, tmp_path / "owner"):
        assert list(datasets.load_dataset(REPO, "beta", split="test")) == rows("beta", "test")
    with in_process(hub, tmp_path / "nobody", anonymous=True), pytest.raises(DatasetNotFoundError):
        datasets.load_dataset(REPO, "beta", split="test")
    stranger = hub.add_user("stranger")
    with in_process(hub, tmp_path / "stranger", token=stranger), pytest.raises(DatasetNotFoundError):
        datasets.load_dataset(REPO, "beta", split="test")


def test_a_footer_is_read_by_ranges(hub, api):
    """A Parquet file of 2 MB whose metadata `HfFileSystem` reads without its rows."""
    table = [{"id": f"{number:08}", "noise": number * 2654435761 % 2**32} for number in range(100_000)]
    data = parquet(table, row_group_size=10_000)
    hub.create(REPO)
    hub.commit(REPO, {"data/a.parquet": data})
    hub.tag(REPO, "v1")
    with HfFileSystem().open(f"datasets/{REPO}@v1/data/a.parquet", block_size=2**16) as file:
        metadata = pq.ParquetFile(file).metadata
    assert (metadata.num_rows, metadata.num_row_groups) == (100_000, 10)
    answers = hub.asked("cdn")
    assert answers
    assert {answer.status for answer in answers} == {206}
    assert sum(answer.bytes_out for answer in answers) < len(data) / 10


LOAD = """
import sys
import datasets
revision = sys.argv[1] if len(sys.argv) > 1 else None
rows = datasets.load_dataset("org/Some-Name", "beta", split="test", revision=revision)
print(len(rows), rows[0]["id"])
"""


@pytest.mark.parametrize("revision", [[], ["v1"]], ids=["main", "tag"])
def test_a_subprocess_loads(hub, tmp_path, revision):
    hub.create(REPO)
    hub.commit(REPO, release())
    hub.tag(REPO, "v1")
    done = subprocess.run(
        [sys.executable, "-c", LOAD, *revision],
        env=hub.environment(tmp_path),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "10 beta-test-0\n"
