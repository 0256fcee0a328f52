"""Builds from sources in object storage, over HTTP: the release is the local build's, also after faults."""

import json

import pytest

from builders import cifar_benchmark, folder_benchmark
from builders.cifar_benchmark import BENCHMARK
from builders.commands.sources import main as sources
from builders.storage.paths import as_path
from tests.builders import cifar_layouts, layouts
from tests.builders.conftest import build_demo, files_of
from tests.builders.trees import linked
from tests.conftest import made_once
from tests.manifests import rows_in
from tests.sentences import assert_sentence
from tests.store.fixtures import forget_clients
from tests.store.server import KEY, SECRET

CONVERTED = {
    "cifar100": cifar_layouts.cifar100_archive,
    "dtd": cifar_layouts.dtd_parquet,
    "imagenet": layouts.imagenet_archives,
    "lsun": None,
    "svhn": None,
}
"""A pickle in a tar.gz, a Parquet mirror, tars in a tar, a database and MATLAB files."""

SPLITS = (
    "cifar/test",
    "cifar/far_ood_svhn",
    "cifar/far_ood_lsun_fix",
    "cifar/far_ood_dtd",
    "cifar/external_validation",
)
ONE = "cifar/far_ood_dtd"
FLAGS = ("--workers", "1", "--quiet", "--allow-partial")


@pytest.fixture(scope="module")
def copies(demo, laid_out):
    return {key: demo[key] if how is None else laid_out(key, how) for key, how in CONVERTED.items()}


@pytest.fixture(scope="module")
def uploaded(store_server, copies):
    """The addresses of the same copies, each in a bucket of its own."""
    return {key: store_server.upload(root) for key, root in copies.items()}


@pytest.fixture(scope="module")
def expected(copies, tmp_path_factory):
    """The files of the release built from the local copies."""

    def make(folder):
        build_demo(copies, folder, benchmark=BENCHMARK, splits=SPLITS)

    return files_of(made_once(tmp_path_factory, "object-sources-local", make))


@pytest.fixture(scope="module")
def dtd(demo, tmp_path_factory):
    """The first ten class folders of DTD: each image is a request, which takes ten milliseconds."""
    root = tmp_path_factory.mktemp("few") / "dtd"
    for folder in sorted(path for path in (demo["dtd"] / "images").iterdir() if path.is_dir())[:10]:
        linked(folder, root / "images" / folder.name)
    return root


@pytest.fixture(scope="module")
def textures(store_server, dtd):
    """Their address."""
    return store_server.upload(dtd)


@pytest.fixture(scope="module")
def expected_textures(dtd, tmp_path_factory):
    """The files of the one split that is built of them, by the command line."""
    root = tmp_path_factory.mktemp("textures") / "release"
    assert built(dtd, root) == 0
    return files_of(root)


def built(dtd, out, *more):
    forget_clients()
    return cifar_benchmark.main([f"--dtd={dtd}", "--out", str(out), "--splits", ONE, *FLAGS, *more])


def test_a_release_built_from_a_store_is_the_local_one_and_says_nothing_of_the_store(
    uploaded, expected, store, proxy, tmp_path
):
    out = tmp_path / "out"
    build_demo({key: as_path(place) for key, place in uploaded.items()}, out, benchmark=BENCHMARK, splits=SPLITS)
    assert files_of(out) == expected  # its manifest and card, too, which so name no address
    buckets = [place.split("/")[2] for place in uploaded.values()]
    for path in out.rglob("*"):
        if path.is_file():
            data = path.read_bytes()
            secrets = [word for word in (KEY, SECRET, store.url, proxy.url, *buckets) if word.encode() in data]
            assert not secrets, f"{path.relative_to(out)} has {secrets}"
    # The headers of the tar and images that lie close together in it are read at once.
    splits = json.loads(expected["manifest.json"])["configs"]["cifar"]["splits"]
    rows = rows_in(splits["external_validation"])
    read = [request for request in proxy.requests if request.path.endswith("_train.tar") and request.method == "GET"]
    assert rows > 100
    assert len(read) < rows / 4


def test_a_release_is_built_from_one_store_into_another(textures, expected_textures, store, capsys):
    out = f"s3://{store.bucket()}/release"
    forget_clients()
    flags = [f"--dtd={textures}", "--out", out, "--splits", ONE, "--workers", "1", "--allow-partial"]
    assert cifar_benchmark.main(flags) == 0
    shown = capsys.readouterr()
    assert f"in {textures}" in shown.err  # where it was indexed
    assert not [word for word in (KEY, SECRET) if word in shown.out + shown.err]
    objects = store.files(out.removeprefix("s3://"))
    assert {name: data for name, data in objects.items() if not name.startswith(".state/")} == expected_textures


def test_a_dry_run_reads_no_image(textures, dtd, proxy, tmp_path, capsys):
    assert built(dtd, tmp_path / "out", "--dry-run", "--json") == 0
    local = json.loads(capsys.readouterr().out)
    assert built(textures, tmp_path / "out", "--dry-run", "--json") == 0
    assert json.loads(capsys.readouterr().out) == local
    assert not [request.path for request in proxy.requests if request.path.endswith(".jpg")]
    assert not (tmp_path / "out").exists()


def test_refused_credentials_end_the_run_in_a_sentence_and_the_same_command_goes_on(
    textures, expected_textures, dtd, proxy, tmp_path, capsys
):
    """Those of some images, since their requests arrive in any order; the first of them by name is named."""
    names = sorted(path.relative_to(dtd).as_posix() for path in dtd.rglob("*.jpg"))
    refused = tuple(names[len(names) // 2 :])
    proxy.fault = lambda request: 403 if request.path.endswith(refused) else None
    assert built(textures, tmp_path / "out") == 2
    error = capsys.readouterr().err
    assert_sentence(error, f"{textures}/{refused[0]}")
    assert "Traceback" not in error
    assert files_of(tmp_path / "out") == {}
    proxy.fault = None
    assert built(textures, tmp_path / "out") == 0
    assert files_of(tmp_path / "out") == expected_textures


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ({"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": ""}, "no credentials were found"),
        ({"AWS_ENDPOINT_URL": "http://127.0.0.1:9"}, "Could not connect to the endpoint URL"),
    ],
)
def test_what_is_wrong_with_the_store_is_told_before_anything_is_written(
    textures, store, monkeypatch, tmp_path, capsys, setting, said
):
    for name, value in setting.items():
        monkeypatch.setenv(name, value) if value else monkeypatch.delenv(name)
    monkeypatch.setattr("builders.storage.stores.path.ATTEMPTS", 1)  # a store that is away is not waited for here
    assert built(textures, tmp_path / "out") == 2
    shown = capsys.readouterr()
    assert said in shown.err
    assert shown.out == ""
    assert not (tmp_path / "out").exists()


def test_several_wrong_addresses_are_told_together(store, tmp_path, capsys):
    bucket = store.bucket()
    store.client.pipe_file(f"{bucket}/dtd", b"a file")
    flags = [f"--dtd=s3://{bucket}/dtd", f"--svhn=s3://{bucket}/svhn", "--splits", f"{ONE},cifar/far_ood_svhn"]
    assert cifar_benchmark.main([*flags, "--out", str(tmp_path / "out"), *FLAGS]) == 2
    error = capsys.readouterr().err
    assert_sentence(error, "--dtd", f"s3://{bucket}/dtd", "--svhn", f"s3://{bucket}/svhn")


def test_addresses_may_stand_in_the_sources_file_and_are_scanned(textures, store, proxy, tmp_path, capsys):
    listing = tmp_path / "sources.toml"
    listing.write_text(f'dtd = "{textures}"\n')
    assert sources(["--sources", str(listing), "--json"]) == 0
    (dtd,) = [source for source in json.loads(capsys.readouterr().out)["sources"] if source["source"] == "dtd"]
    assert (dtd["folder"], dtd["folder_exists"], dtd["partitions_found"]) == (textures, None, None)
    assert proxy.requests == []
    forget_clients()
    assert sources(["--sources", str(listing), "--scan", "--json"]) == 0
    (dtd,) = [source for source in json.loads(capsys.readouterr().out)["sources"] if source["source"] == "dtd"]
    assert dtd["folder_exists"] is True
    assert dtd["partitions_found"] == ["images"]


def test_lists_to_adopt_are_read_from_this_machine_alone(textures, tmp_path, capsys):
    assert built(textures, tmp_path / "out", "--adopt", "s3://bucket/lists") == 2
    assert_sentence(capsys.readouterr().err, "--adopt")


def test_a_folder_of_ones_own_may_be_an_address(demo, store, tmp_path):
    def run(known, unknown, out):
        forget_clients()
        flags = ["--in-distribution", str(known), "--unknown", f"far={unknown}", "--out", str(out)]
        return folder_benchmark.main([*flags, "--workers", "1", "--quiet"])

    known, unknown = tmp_path / "known", tmp_path / "unknown"
    names = sorted(path.name for path in (demo["food101"] / "images").iterdir())
    pictures = sorted((demo["caltech256"] / "256_ObjectCategories").glob("*/*.jpg"))
    for place, path in enumerate(pictures[:40]):
        target = known / names[place % 2] / f"{place}.jpg" if place < 30 else unknown / f"{place}.jpg"
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(path.read_bytes())
    assert run(known, unknown, tmp_path / "local") == 0
    assert run(store.upload(known), store.upload(unknown), tmp_path / "out") == 0
    assert files_of(tmp_path / "out") == files_of(tmp_path / "local")
