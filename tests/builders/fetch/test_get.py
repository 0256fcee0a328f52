"""From an owner's server to a folder that the builders read."""

import dataclasses
import hashlib
import io
import zipfile
from pathlib import Path

import pytest
from tqdm import tqdm

from builders.cli.source_flags import listed_sources
from builders.errors import BuildError
from builders.fetch.get import cautions, file_problem, get, needed_bytes, only_for, states, toml_line
from builders.sources.base import Expected
from builders.sources.obtain import OwnerFile
from builders.sources.opening import open_source, scan
from builders.sources.registry import SOURCES
from builders.storage.locks import file_lock
from tests.builders import layouts
from tests.builders.trees import contents, opened
from tests.power import Disk
from tests.sentences import stops

AS_DOWNLOADED = {
    key: convert
    for key, layouts_of in layouts.LAYOUTS.items()
    for convert in layouts_of
    if convert.__name__ in (f"{key}_archive", f"{key}_archives")
}
"""The layout that an owner's archives make, of sources whose demo is laid out otherwise."""

ZIPPED = {"lsun": ("test_lmdb",), "coco2017": ("train2017", "annotations")}
"""The folders of a demo that the owner zips."""


def offered(site, key, files, **changes):
    """A source whose files a site serves: as declared, but for their sizes and digests."""
    source = SOURCES[key]
    declared = {file.name: file for file in source.obtain.files}
    assert sorted(files) == sorted(declared)
    owner_files = []
    for name, data in files.items():
        path = f"{key}/{name}"
        site.files[path] = data
        sha256 = hashlib.sha256(data).hexdigest()
        ours = {"size": len(data), "url": site.url(path), "md5": "", "sha256": sha256, "rounded": False}
        owner_files.append(dataclasses.replace(declared[name], **{**ours, **changes}))
    return dataclasses.replace(source, obtain=dataclasses.replace(source.obtain, files=tuple(owner_files)))


def zips(root, folders, tmp_path):
    for folder in folders:
        path = tmp_path / "x.zip"
        with zipfile.ZipFile(path, "w") as archive:
            for file in sorted((root / folder).rglob("*")):
                archive.write(file, file.relative_to(root).as_posix())
        yield path.read_bytes()


def files_of(key, demo, laid_out, tmp_path):
    """What an owner would offer, made of the demo."""
    names = [file.name for file in SOURCES[key].obtain.files]
    if key in ZIPPED:
        return dict(zip(names, zips(demo[key], ZIPPED[key], tmp_path), strict=True))
    root = laid_out(key, AS_DOWNLOADED[key]) if key in AS_DOWNLOADED else demo[key]
    return {name: (root / name).read_bytes() for name in names}


def ran(*sources, into):
    lines = []
    return get(sources, into, lines.append, quiet=True), lines


@pytest.fixture
def lsun(site, demo, tmp_path):
    """The demo's LSUN, of which no digest is published."""
    return offered(site, "lsun", files_of("lsun", demo, None, tmp_path), sha256="")


SVHN_FILES = ("train_32x32.mat", "test_32x32.mat")


@pytest.fixture
def svhn(site, demo):
    return offered(site, "svhn", {name: (demo["svhn"] / name).read_bytes() for name in SVHN_FILES})


def names_in(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("key", [key for key, source in SOURCES.items() if source.obtain.is_plain])
def test_what_was_got_is_what_the_builders_read(key, site, demo, laid_out, tmp_path):
    source = offered(site, key, files_of(key, demo, laid_out, tmp_path))
    todo, _ = ran(source, into=tmp_path / "data")
    assert todo == []
    partitions = tuple(source.expected())
    assert contents(open_source(source, tmp_path / "data" / key, partitions)) == contents(opened(key, demo[key]))
    (tmp_path / "sources.toml").write_text(f"{toml_line(source, tmp_path / 'data')}\n")
    assert listed_sources(tmp_path / "sources.toml") == {key: tmp_path / "data" / key}
    before = len(site.requests)
    assert ran(source, into=tmp_path / "data")[0] == []
    assert len(site.requests) == before


DATA = b"the owner's bytes"
MD5, SHA256 = hashlib.md5(DATA).hexdigest(), hashlib.sha256(DATA).hexdigest()


@pytest.mark.parametrize(
    ("file", "wrong"),
    [
        (OwnerFile("x", 17, md5=MD5, sha256=SHA256), ""),
        (OwnerFile("x", 20, md5=MD5, rounded=True), ""),
        (OwnerFile("x", 0), ""),
        (OwnerFile("x", 18, md5=MD5), "it has 17 bytes, and the published file 18"),
        (OwnerFile("x", 17, md5=MD5[::-1]), f"its MD5 is {MD5}, and the published one {MD5[::-1]}"),
        # The stronger of two digests is compared.
        (OwnerFile("x", 17, md5=MD5, sha256=SHA256[::-1]), f"its SHA-256 is {SHA256}, and the published one"),
    ],
)
def test_a_file_is_compared_with_what_is_published(file, wrong, tmp_path):
    (tmp_path / "x").write_bytes(DATA)
    problem = file_problem(file, tmp_path / "x")
    assert problem.startswith(wrong)
    assert bool(problem) == bool(wrong)


def test_a_file_with_another_checksum_is_removed_and_never_has_its_own_name(svhn, site, tmp_path):
    site.files["svhn/test_32x32.mat"] = site.files["svhn/test_32x32.mat"][:-1] + b"\0"
    with stops(BuildError, "svhn/test_32x32.mat", "SHA-256"):
        ran(svhn, into=tmp_path)
    assert names_in(tmp_path / "svhn") == ["train_32x32.mat"]


def test_a_cut_run_leaves_a_part_that_the_next_one_goes_on_with(svhn, site, waits, tmp_path):
    site.faults.extend([70_000, *["no answer"] * 6])
    with stops(BuildError):
        ran(svhn, into=tmp_path)
    (name,) = names_in(tmp_path / "svhn")
    assert name == "train_32x32.mat.part"
    with stops(BuildError):
        scan(svhn, tmp_path / "svhn", ("train",))
    ran(svhn, into=tmp_path)
    assert site.asked()[-2].startswith("bytes=")
    assert [state.done for state in states(svhn, tmp_path)] == [True, True]


def test_a_part_that_a_power_cut_damaged_is_downloaded_again_by_the_same_command(svhn, site, tmp_path):
    (tmp_path / "svhn").mkdir()
    content = site.files["svhn/train_32x32.mat"]
    part = tmp_path / "svhn" / "train_32x32.mat.part"
    for damaged in (bytes(1000), bytes(len(content))):
        part.write_bytes(damaged)  # its length was written, and not its bytes
        _, lines = ran(svhn, into=tmp_path)
        assert (tmp_path / "svhn" / "train_32x32.mat").read_bytes() == content
        assert any("all of it is downloaded again" in line for line in lines)
        (tmp_path / "svhn" / "train_32x32.mat").unlink()


def test_after_every_power_cut_a_file_is_whole_or_has_no_name(svhn, tmp_path):
    (tmp_path / "data").mkdir()
    with (disk := Disk(tmp_path / "data")).watching():
        ran(svhn, into=tmp_path / "data")
    content = {path.name: path.read_bytes() for path in (tmp_path / "data" / "svhn").iterdir()}
    files = [(Path(path).name, data) for cut in disk.cuts for path, data in cut.files.items()]
    assert {name for name, _ in files} >= {*content, *(f"{name}.part" for name in content)}
    assert all(content[name] == data for name, data in files if name in content)


def test_a_file_that_somebody_else_put_there_is_checked(svhn, tmp_path):
    (tmp_path / "svhn").mkdir()
    path = tmp_path / "svhn" / "train_32x32.mat"
    path.write_bytes(b"short")
    with stops(BuildError, path):
        ran(svhn, into=tmp_path)
    assert path.read_bytes() == b"short"


def test_what_needs_an_account_is_told_with_files_and_checksums_and_checked_once_it_is_there(site, tmp_path):
    imagenet = SOURCES["imagenet"]
    (todo,), _ = ran(imagenet, into=tmp_path)
    assert "https://www.image-net.org/download.php" in todo
    assert f"into {tmp_path / 'imagenet'}" in todo
    assert "ILSVRC2012_img_val.tar (6,744,924,160 bytes, SHA-256 c7e06a6c" in todo
    assert "MD5 29b22e2961454d5413ddabcf34fc5622" in todo
    assert "--imagenet hf://datasets/ILSVRC/imagenet-1k, once your account has accepted its terms" in todo
    assert site.requests == []
    (tmp_path / "imagenet").mkdir()
    (tmp_path / "imagenet" / "ILSVRC2012_devkit_t12.tar.gz").write_bytes(b"other")
    with stops(BuildError, "ILSVRC2012_devkit_t12.tar.gz", "MD5"):
        ran(imagenet, into=tmp_path)


def test_a_full_disk_is_told_before_anything_is_downloaded(svhn, site, tmp_path, monkeypatch):
    needed = needed_bytes(states(svhn, tmp_path))
    assert needed == sum(len(data) for data in site.files.values())
    monkeypatch.setattr("builders.storage.files.free_bytes", lambda _: 10)
    with stops(BuildError, f"{needed:,}"):
        ran(svhn, into=tmp_path / "data")
    assert site.requests == []
    assert not (tmp_path / "data").exists()


def test_a_zip_takes_its_size_twice_and_is_gone_once_it_is_unpacked(site, demo, tmp_path):
    lsun = offered(site, "lsun", files_of("lsun", demo, None, tmp_path))
    size = lsun.obtain.files[0].size
    assert needed_bytes(states(lsun, tmp_path / "data")) == 2 * size
    ran(lsun, into=tmp_path / "data")
    assert names_in(tmp_path / "data" / "lsun") == ["test_lmdb"]
    assert needed_bytes(states(lsun, tmp_path / "data")) == 0


def test_two_runs_do_not_write_into_one_folder(svhn, tmp_path):
    with (
        file_lock(tmp_path / ".get.lock", "busy"),
        stops(BuildError),
    ):
        ran(svhn, into=tmp_path)


def test_no_name_of_a_file_leaves_the_folder(svhn, tmp_path):
    bad = dataclasses.replace(svhn, obtain=dataclasses.replace(svhn.obtain, files=(OwnerFile("../../x", 1),)))
    with stops(BuildError):
        states(bad, tmp_path / "data")


def with_images(source, count):
    (partition,) = source.expected()
    return dataclasses.replace(source, expected=lambda: {partition: Expected(count, {"unlabelled": count})})


def test_without_a_published_digest_the_number_of_images_is_checked(lsun, tmp_path):
    assert ran(with_images(lsun, 120), into=tmp_path / "data")[0] == []
    for _ in range(2):  # what is there already, too
        with stops(BuildError, "120", "10,000"):
            ran(lsun, into=tmp_path / "data")


def with_mirror(source, *mirrors):
    files = tuple(dataclasses.replace(file, mirrors=mirrors) for file in source.obtain.files)
    return dataclasses.replace(source, obtain=dataclasses.replace(source.obtain, files=files))


@pytest.mark.parametrize("owner", ["moved", "another file", "cut for good"])
def test_a_mirror_is_asked_where_the_owner_gives_nothing_or_something_else(owner, svhn, site, waits, tmp_path):
    """What the owner's address gave before it was cut is not asked for again."""
    data = site.files["svhn/test_32x32.mat"]
    site.files["mirror/test_32x32.mat"] = data
    svhn = with_mirror(only_for(svhn, "test"), site.url("mirror/test_32x32.mat"))
    if owner == "moved":
        del site.files["svhn/test_32x32.mat"]
    elif owner == "another file":
        site.files["svhn/test_32x32.mat"] = bytes(len(data))
    else:
        site.faults.extend([70_000, *["no answer"] * 5])
    todo, lines = ran(svhn, into=tmp_path)
    assert todo == []
    assert (tmp_path / "svhn" / "test_32x32.mat").read_bytes() == data
    assert sum(line.endswith("; trying a mirror") for line in lines) == 1
    asked = [request for request in site.requests if request.path.startswith("/mirror/")]
    assert ["range" in request.headers for request in asked] == [owner == "cut for good"]


def test_a_mirror_with_another_file_is_an_error_too(svhn, site, tmp_path):
    for name in ("svhn/test_32x32.mat", "mirror/x"):
        site.files[name] = bytes(len(site.files["svhn/test_32x32.mat"]))
    with pytest.raises(BuildError, match=r"mirror/x gave another file than the published one: its SHA-256"):
        ran(with_mirror(only_for(svhn, "test"), site.url("mirror/x")), into=tmp_path)
    assert names_in(tmp_path / "svhn") == []


def test_a_partition_needs_its_own_files_and_those_of_all():
    """Places365's 525 MB of validation images and the list, without the 26 GB of training images."""
    val, train = (only_for(SOURCES["places365"], name) for name in ("val", "train"))
    assert [file.name for file in val.obtain.files] == ["val_256.tar", "filelist_places365-standard.tar"]
    assert val.obtain.is_plain and not train.obtain.is_plain
    assert [*val.expected()] == ["val"]
    assert only_for(SOURCES["cifar100"], "test").obtain.files == SOURCES["cifar100"].obtain.files


def test_the_validation_images_of_places365_are_read_as_they_come(site, demo, laid_out, tmp_path):
    root = laid_out("places365", layouts.places365_packed)
    names = [file.name for file in SOURCES["places365"].obtain.files]
    contents_of = {name: (root / name).read_bytes() if (root / name).is_file() else b"none" for name in names}
    source = only_for(offered(site, "places365", contents_of), "val")
    (note,) = cautions(states(source, tmp_path / "data"))
    assert note.startswith("note: places365: the owner's page asks for access, and hands the data out for research.")
    assert ran(source, into=tmp_path / "data")[0] == []
    got = contents(open_source(source, tmp_path / "data" / "places365", ("val",)))
    assert got == contents(open_source(source, demo["places365"], ("val",)))
    assert cautions(states(source, tmp_path / "data")) == []


def test_one_bar_counts_all_bytes(svhn, lsun, site, tmp_path, monkeypatch):
    drawn = []

    class Bar(tqdm):
        def __init__(self, **options):
            super().__init__(**{**options, "file": io.StringIO()})
            drawn.append(self)

    monkeypatch.setattr("unknown_detection.terminal.progress.tqdm", Bar)
    size = sum(len(data) for data in site.files.values())
    (tmp_path / "svhn").mkdir()
    (tmp_path / "svhn" / "train_32x32.mat.part").write_bytes(site.files["svhn/train_32x32.mat"][:1000])
    get([with_images(lsun, 120), svhn], tmp_path, lambda _: None)
    assert [(shown.total, shown.initial, shown.n) for shown in drawn] == [(size, 1000, size)]
