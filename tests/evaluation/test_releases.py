"""Opening releases: their digests, rows and images, and what is refused. Expected digests come from `builders`."""

import hashlib
import io
import json
import os
import re
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from tests import manifests
from tests.builders.conftest import files_of
from tests.evaluation.refusals import refusal
from tests.hf_scripts.samples import REPO, change_files, make_release, png, with_column
from tests.manifests import manifest_of
from tests.sentences import assert_sentence
from unknown_detection.evaluation import releases
from unknown_detection.evaluation.releases import Release, choose_splits, load

SPLITS = {"bench/test": range(6), "bench/near_ood": range(4), "bench-train/train": range(100, 104)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A release of three splits. Read only."""
    return make_release(tmp_path_factory.mktemp("release") / "release", SPLITS)


@pytest.fixture
def copy(folder, tmp_path):
    """A copy to spoil."""
    return shutil.copytree(folder, tmp_path / "copy")


def test_the_digest_is_over_all_split_digests(folder):
    """Written out by hand from the manifest: keys sorted, no spaces."""
    configs = manifest_of(folder)["configs"]
    text = ",".join(
        f'"{key}":"{configs[key.split("/")[0]]["splits"][key.split("/")[1]]["digest"]}"' for key in sorted(SPLITS)
    )
    assert load(str(folder)).digest == hashlib.sha256(f"{{{text}}}".encode()).hexdigest()


def test_rows_are_all_columns_but_the_image_in_order(folder):
    rows = load(str(folder)).rows("bench", "test")
    assert rows["id"].to_pylist() == [f"source/test/{number}.png" for number in range(6)]
    assert rows["label"].to_pylist() == [0, 1, 0, 1, 0, 1]
    assert "image" not in rows.column_names


@pytest.mark.parametrize(
    ("where", "revision"),
    [("nowhere", None), ("empty/file", None), ("folder", "v1.0.0"), ("empty", None), ("s3://bucket/release", None),
     (Path("empty/unknwon"), None)],
)  # fmt: skip
def test_what_is_no_release(folder, tmp_path, monkeypatch, where, revision):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "file").touch()
    (tmp_path / "folder").symlink_to(folder)
    assert_sentence(refusal(load, where, revision), where)


def test_a_mistyped_folder_is_missing_and_not_looked_for_on_the_hub(folder, tmp_path, monkeypatch):
    """It has the form ORG/NAME; a folder that cannot be there, or a revision, is of the Hub."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "build").mkdir()
    (tmp_path / "build" / "unknown-detection").symlink_to(folder)
    requests = []
    monkeypatch.setattr(releases, "_download", lambda name, revision, *_: requests.append((name, revision)) or 1 / 0)
    for mistyped in ("build/unknown-detecton", "build/unknwon"):
        message = f"There is no folder {mistyped} (did you mean build/unknown-detection?). Check the path"
        assert message in refusal(load, mistyped)
    assert "no folder build/other. Check the path, or name a revision" in refusal(load, "build/other")
    assert requests == []
    for where, revision in (("org/other", None), ("build/other", "v1.0.0")):
        with pytest.raises(ZeroDivisionError):
            load(where, revision)
    assert requests == [("org/other", None), ("build/other", "v1.0.0")]


def test_an_unknown_config_or_split_names_the_nearest(folder):
    release = load(str(folder))
    assert_sentence(refusal(release.splits, "bensch"), "bench")
    assert_sentence(refusal(release.rows, "bench", "near_od"), "near_ood")
    assert_sentence(refusal(release.label_names, "bench-index"), "bench-index")


def test_images_of_other_rows_than_the_index_are_refused(copy):
    """One fewer here; `features/test_content.py` has another image."""
    path = copy / "data" / "bench" / "test-00000-of-00001.parquet"
    pq.write_table(pq.read_table(path).slice(1), path)
    message = refusal(load(str(copy)).images, "bench", "test")
    assert_sentence(message, "bench/test", copy)


@pytest.mark.parametrize("image", [None, {"path": "x.png"}, {"bytes": "x"}], ids=["none", "a path", "a text"])
def test_shards_without_encoded_images(copy, image):
    path = copy / "data" / "bench" / "test-00000-of-00001.parquet"
    table = pq.read_table(path).drop_columns("image")
    pq.write_table(table if image is None else table.append_column("image", [[image] * len(table)]), path)
    assert_sentence(refusal(load(str(copy)).images, "bench", "test"), path)


def test_rows_lie_in_several_shards_and_row_groups(folder, tmp_path):
    """Read forwards, backwards and by several threads, against the pictures themselves."""
    root = make_release(tmp_path / "release", {"bench/test": range(40)}, shards=3)
    for path in sorted((root / "data" / "bench").glob("*.parquet")):
        pq.write_table(pq.read_table(path), path, row_group_size=4)
    images = load(str(root)).images("bench", "test")
    expected = [Image.open(io.BytesIO(png(f"test/{number}.png"))).tobytes() for number in range(40)]
    assert [row["image"].tobytes() for row in images] == expected
    assert [images[-number]["image"].tobytes() for number in range(1, 41)] == expected[::-1]
    with ThreadPoolExecutor(8) as threads:
        assert [image.tobytes() for image in threads.map(images.image, range(40))] == expected


def test_a_split_without_images(copy):
    spoil(copy, lambda manifest: manifest["configs"]["bench"]["splits"]["test"].update(data=[]))
    message = refusal(load(str(copy)).images, "bench", "test")
    assert_sentence(message, "bench/test")


@pytest.fixture
def published(folder, hub, api, only_loopback):
    """The release on the stand-in, tagged v1.0.0."""
    hub.create(REPO)
    hub.commit(REPO, files_of(folder))
    hub.tag(REPO, "v1.0.0")
    return hub


def test_a_tag_on_the_hub_is_resolved_to_its_commit(folder, published):
    """Also once the branch has moved on."""
    commit = published.tags(REPO)["v1.0.0"]
    published.commit(REPO, {"manifest.json": b"{}"})
    release = load(REPO, "v1.0.0")
    assert release.revision == commit
    assert release.name == f"{REPO} at commit {commit[:12]}"
    local = load(str(folder))
    assert release.digest == local.digest
    assert release.rows("bench", "test").equals(local.rows("bench", "test"))
    assert release.images("bench", "test")[3]["image"].tobytes() == local.images("bench", "test")[3]["image"].tobytes()


@pytest.mark.parametrize(("name", "revision"), [("org/other", None), (REPO, "v9"), (REPO, "0" * 40)])
def test_what_the_hub_does_not_have(published, waits, name, revision):
    assert_sentence(refusal(load, name, revision), name, *[revision, "v1.0.0"] * bool(revision))


def test_a_hub_that_falls_silent_is_asked_again(published, monkeypatch, waits):
    monkeypatch.setattr("builders.hub.repository.LOOKUP_TIMEOUT", 0.5)
    monkeypatch.setattr("builders.hub.retry.sleep", waits.append)
    published.slow("repo_info", 3600)
    assert load(REPO, "v1.0.0").revision == published.tags(REPO)["v1.0.0"]
    assert waits == [1]


def test_a_repository_that_is_no_release_and_a_hub_that_does_not_answer(published, monkeypatch, waits):
    published.commit(REPO, {"manifest.json": None})
    assert_sentence(refusal(load, REPO), "manifest.json")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    assert_sentence(refusal(load, REPO), "org/name")


def test_a_notebook_shows_splits_by_role_and_rows(folder):
    """Counted from the manifest: no index is read."""

    def split(key, **roles):
        parts = [manifests.part(key=f"{key}.{role}", role=role, rows=rows) for role, rows in roles.items()]
        return {key.partition("/")[2]: manifests.split(*parts)}

    a = manifests.config(split("a/test", in_distribution=1200) | split("a/mixed", near_ood=5, far_ood=7))
    described = {"a": a, "b": manifests.config(split("b/test", in_distribution=3))}
    release = Release("<it>", None, manifests.typed(manifests.manifest(described)))
    shown = release._repr_html_()
    assert shown.startswith("<p>Release &lt;it&gt;</p>")
    cells = re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", shown)
    assert cells == [
        *("", "role", "near_ood", "far_ood", "in_distribution", "config", "split", "", "", ""),
        *("a", "mixed", "5", "7", "", "test", "", "", "1,200", "b", "test", "", "", "3"),
    ]


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("near_ood", [("b", "near_ood")]),
        ("b", [("b", "near_ood"), ("b", "test")]),
        (None, [("a", "test"), ("b", "near_ood"), ("b", "test")]),
        ("b/test,a", [("b", "test"), ("a", "test")]),
        (("b", "near_ood"), [("b", "near_ood")]),
        (("b", "a"), [("b", "near_ood"), ("b", "test"), ("a", "test")]),
        (["a,near_ood", ("b", "test"), "a/test"], [("a", "test"), ("b", "near_ood"), ("b", "test")]),
        *((wrong, None) for wrong in ("near_od", "test", "c", "a,c/test", "b/near_od", ",")),
    ],
)
def test_a_split_is_found_by_its_name_alone_where_one_config_has_it(asked, found):
    arguments = {"a": ("test",), "b": ("near_ood", "test")}, asked, "it"
    if found:
        assert choose_splits(*arguments) == found
    else:
        assert_sentence(refusal(choose_splits, *arguments))


def spoil(root, change):
    """Change a manifest as JSON."""
    manifest = manifest_of(root)
    change(manifest)
    (root / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")


def test_a_manifest_that_verify_refuses_is_refused(copy):
    """By the same reader: `tests/builders/release/test_manifest.py` has what it refuses."""
    for change, reason in (
        (
            lambda manifest: manifest["configs"].update({"../outside": manifest["configs"]["bench"]}),
            "key in configs: expected",
        ),
        (lambda manifest: manifest["configs"]["bench"].update(label_names=["x\n"]), "label_names"),
        (lambda manifest: manifest.update(format=7), "its format is 7, and this version reads 1"),
    ):
        before = (copy / "manifest.json").read_bytes()
        spoil(copy, change)
        message = refusal(load, str(copy))
        assert f"the manifest.json of {copy}" in message and reason in message
        (copy / "manifest.json").write_bytes(before)
    (copy / "manifest.json").unlink()
    with (copy / "manifest.json").open("wb") as file:
        file.truncate(2**40)  # a hole: no byte of it is on disk
    assert "it has more than 64,000,000 bytes" in refusal(load, str(copy))


@pytest.mark.timeout(60)
def test_a_named_pipe_is_never_opened(copy):
    """Refused in place of a file of the release; one that the manifest does not list is not looked at."""
    index, shard = copy / "index" / "bench" / "test.parquet", copy / "data" / "bench" / "test-00000-of-00001.parquet"
    os.mkfifo(copy / "index" / "bench" / "test-00001-of-00002.parquet")
    assert len(load(str(copy)).images("bench", "test")) == 6
    for path, read in ((shard, Release.images), (index, Release.rows)):
        path.unlink()
        os.mkfifo(path)
        assert_sentence(refusal(read, load(str(copy)), "bench", "test"), path, "named pipe")


def other_role(table):
    words = pa.array(["x"] * len(table))
    return table.set_column(table.column_names.index("role"), "role", words).replace_schema_metadata(None)


@pytest.mark.parametrize(
    "change",
    [
        lambda table: with_column(table, "content_sha256", ["0" * 64] * len(table)),
        lambda table: table.drop_columns(["content_sha256"]),
        lambda table: table.drop_columns(["class_id"]),
        lambda table: with_column(table, "id", [None] * len(table)),
        other_role,
        lambda table: with_column(table, "role", [99] * len(table)),
        lambda table: table.slice(0, 0),
    ],
    ids=["other digests", "no digest", "no class", "empty ids", "role as text", "no role", "no rows"],
)
def test_rows_with_other_columns(copy, change):
    """Whoever writes the index may write its digest, too."""
    change_files(copy, "bench/test", change, files=("index",))
    assert "The rows of bench/test differ from the digest" in refusal(load(str(copy)).rows, "bench", "test")
