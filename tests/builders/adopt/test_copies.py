import json
import os
import shutil

import pyarrow.parquet as pq
import pytest

from builders.adopt.copies import adopt, adoption_digest
from builders.adopt.folders import list_images
from builders.errors import BuildError
from builders.imagenet_benchmark import BENCHMARK, main
from builders.pipeline.from_sources import prepare
from builders.plan.candidates import Adopted
from builders.release.manifest import read_manifest
from builders.sources.opening import open_source
from tests.builders.conftest import build_demo
from tests.builders.layouts import food101_parquet, imagenet_archives, imagenet_parquet, link, tree
from tests.builders.planning import planning_request
from tests.builders.trees import linked, replaced

DECLARED = BENCHMARK.parts
SPLITS = tuple(DECLARED)
EVALUATION = ("imagenet/validation", "imagenet/test", "imagenet/near_ood")
KNOWN = BENCHMARK.configs[0].labels.drawn(0)
NEAR = "imagenet/near_ood"
NEAR_SET = "test/near-imagenet200"
NEAR_CLASSES = ("n01440764", "n01530575", "n01532829")


def paths_by_id(demo):
    """Where each image of the demo is, by source and source_id."""
    places = {}
    for key, source in {s.key: s for s in BENCHMARK.sources()}.items():
        index = open_source(source, demo[key], tuple(source.expected()))
        columns = (index.table[name].to_pylist() for name in ("source_id", "file"))
        places |= {(key, source_id): demo[key] / file for source_id, file in zip(*columns, strict=True)}
    return places


def rows_of(release, key):
    return pq.read_table(release / "index" / f"{key}.parquet").to_pylist()


def published_name(split, row, number):
    """Where the authors' archive would have a row: known classes labelled, unknown ones not, every third renamed."""
    name = row["source_id"].rpartition("/")[2]
    if split.source.key != "imagenet":
        name = f"{number:08d}.jpg"  # far unknowns are renumbered, and such names exist in Food and Places too
    elif number % 3 == 0:
        name = f"image {number}.JPEG"
    if split.published.startswith("train/"):
        return f"{row['class_id']}/{name}"
    return f"labels/{row['class_id']}/{name}" if split.role == "in_distribution" else f"no-labels/all/{name}"


@pytest.fixture(scope="module")
def places(demo):
    return paths_by_id(demo)


@pytest.fixture(scope="module")
def published(release, places, tmp_path_factory):
    """The release as the authors would have packed it. Read only."""
    root = tmp_path_factory.mktemp("published") / "imagenet-bench"
    for key, split in DECLARED.items():
        for number, row in enumerate(rows_of(release, key)):
            place = root / split.published / published_name(split, row, number)
            place.parent.mkdir(parents=True, exist_ok=True)
            os.link(places[row["source"], row["source_id"]], place)
    return root


@pytest.fixture(scope="module")
def indexes(demo):
    return {
        source.key: open_source(source, demo[source.key], tuple(source.expected())) for source in BENCHMARK.sources()
    }


def planned(roots, copy, splits=SPLITS, notes=None, **changes):
    """Plan with an adopted copy; returns the planned splits by name."""
    planned = planning_request(
        BENCHMARK, copy.parent / "unused", notes, roots=roots, adopt=copy, splits=splits, **changes
    )
    return {split.key: split for split in prepare(*planned).planned}


def ids(split):
    return split.table["source_id"].to_pylist()


def adopted(copy, indexes, *splits):
    """Adopt some splits; returns them and the notes."""
    notes = []
    return adopt(BENCHMARK, splits, copy, indexes, notes.append, seed=0), notes


def images(demo, class_id, folder="val"):
    return sorted((demo["imagenet"] / folder / class_id).iterdir())


def near_copy(root, demo, class_ids=NEAR_CLASSES):
    """A copy with the validation images of some classes as its near unknowns."""
    for class_id in class_ids:
        for path in images(demo, class_id):
            tree(root, {f"{NEAR_SET}/labels/{class_id}/{path.name}": path.read_bytes()})
    return root


def test_a_picture_of_two_classes_is_taken_as_the_one_that_the_set_can_have(demo, indexes, tmp_path):
    """Tub, near-OoD, and bathtub, in-distribution, share a picture in the demo's validation; the file says neither."""
    tub, bathtub = "val/ILSVRC2012_val_00000751.JPEG", "val/ILSVRC2012_val_00000207.JPEG"
    content = (demo["imagenet"] / "val" / "n04493381" / tub.removeprefix("val/")).read_bytes()
    assert (demo["imagenet"] / "val" / "n02808440" / bathtub.removeprefix("val/")).read_bytes() == content
    sets = (NEAR_SET, "test/imagenet200")
    tree(tmp_path, {f"{name}/no-labels/all/picture.JPEG": content for name in sets})
    choice, notes = adopted(tmp_path, indexes, NEAR, "imagenet/test")
    assert {key: (split.class_ids, split.source_ids) for key, split in choice.items()} == {
        NEAR: (("n04493381",), (tub,)),
        "imagenet/test": (("n02808440",), (bathtub,)),
    }
    assert not [note for note in notes if "occur several times" in note]


def accounts(split):
    return len(split.rows) + sum(e.images for e in split.excluded) == split.available


def test_an_adopted_release_has_its_digests_under_its_seed(demo, release, published, tmp_path):
    built = build_demo(demo, tmp_path / "out", adopt=published, index_only=True)
    before = json.loads((release / "manifest.json").read_text())
    for config, entry in before["configs"].items():
        for name, split in entry["splits"].items():
            assert built["configs"][config]["splits"][name]["digest"] == split["digest"], (config, name)


def test_the_command_line_adopts_and_says_so(demo, release, published, tmp_path, capsys):
    out = tmp_path / "out"
    flags = ["--imagenet", str(demo["imagenet"]), "--splits", ",".join(EVALUATION), "--out", str(out)]
    flags += ["--allow-partial", "--index-only", "--workers", "1", "--seed", "7"]
    assert main([*flags, "--adopt", str(published.parent)]) == 0
    assert "imagenet/near_ood: adopted 200 classes, 400 images (the paper: 10,000)" in capsys.readouterr().err
    for key in EVALUATION:
        built, expected = ([(r["id"], r["content_sha256"]) for r in rows_of(root, key)] for root in (out, release))
        assert sorted(built) == sorted(expected), key
        assert built != expected, key  # the order is keyed by the seed
    assert read_manifest(out).by_key()["imagenet/near_ood"].parts[0].adopted
    other = tmp_path / "empty"
    other.mkdir()
    assert main([*flags, "--adopt", str(other)]) == 2
    assert f"{other} is not a copy of the published benchmark" in capsys.readouterr().err


@pytest.fixture(scope="module")
def archives(demo, tmp_path_factory):
    return imagenet_archives(demo["imagenet"], tmp_path_factory.mktemp("archives"))


@pytest.fixture(scope="module")
def mirror(demo, tmp_path_factory):
    return imagenet_parquet(demo["imagenet"], tmp_path_factory.mktemp("mirror"))


@pytest.mark.parametrize("layout", ["archives", "mirror"])
def test_names_are_enough_for_archives_and_parquet(layout, release, request, tmp_path):
    copy = tmp_path / "imagenet-bench"
    for key in EVALUATION:
        for row in rows_of(release, key):
            # Empty files: nothing but the names can be used.
            tree(
                copy / DECLARED[key].published,
                {f"labels/{row['class_id']}/{row['source_id'].split('/')[-1]}": b""},
            )
    plans = planned({"imagenet": request.getfixturevalue(layout)}, copy, EVALUATION, seed=3)
    for key in EVALUATION:
        assert set(ids(plans[key])) == {row["source_id"] for row in rows_of(release, key)}


def test_renamed_images_are_found_inside_archives(demo, archives, tmp_path):
    path = images(demo, NEAR_CLASSES[0])[1]
    copy = tree(tmp_path / "copy", {f"{NEAR_SET}/no-labels/x/0.jpg": path.read_bytes()})
    assert ids(planned({"imagenet": archives}, copy, (NEAR,))[NEAR]) == [f"val/{path.name}"]


def test_renamed_images_of_a_parquet_source_are_refused(demo, mirror, tmp_path):
    copy = tree(tmp_path / "copy", {f"{NEAR_SET}/no-labels/x/a.jpg": images(demo, NEAR_CLASSES[0])[0].read_bytes()})
    sentence = rf"1 files such as .*a\.jpg can only be identified by content, .* the Parquet files in {mirror}\. Give"
    with pytest.raises(BuildError, match=sentence):
        planned({"imagenet": mirror}, copy, (NEAR,))


def test_numbers_as_names_are_trusted_only_where_content_cannot_be_compared(demo, tmp_path):
    first, second = sorted((demo["food101"] / "images" / "apple_pie").glob("[0-9]*.jpg"))[:2]
    key = "imagenet/far_ood_food32"
    copy = tree(tmp_path / "copy", {f"test/food101/labels/apple_pie/{first.name}": second.read_bytes()})
    assert ids(planned({"food101": demo["food101"]}, copy, (key,))[key]) == [f"apple_pie/{second.name}"]
    mirror = food101_parquet(demo["food101"], tmp_path / "mirror")
    assert ids(planned({"food101": mirror}, copy, (key,))[key]) == [f"apple_pie/{first.name}"]


def test_all_images_that_match_nothing_are_listed(demo, tmp_path):
    copy = near_copy(tmp_path / "copy", demo)
    tree(copy, {f"{NEAR_SET}/no-labels/x/strange {n}.jpg": b"\xff\xd8\xff" + bytes([n]) for n in range(5)})
    notes = []
    sentence = r"lacks 5 of the \d+ images of .*near-imagenet200, .* \(no-labels/x/strange 0\.jpg, .* and 2 more\)"
    with pytest.raises(BuildError, match=sentence):
        planned(demo, copy, (NEAR,), notes=notes)
    assert sum(note.startswith("no image of ImageNet-1k") for note in notes) == 5


def write_csv(path, *lines, columns="split,class"):
    path.write_text("\n".join([columns, *lines, ""]), encoding="utf-8")
    return path


def class_folders(root, class_ids):
    for class_id in class_ids:
        (root / NEAR_SET / "labels" / class_id).mkdir(parents=True)
        (root / NEAR_SET / "labels" / class_id / ".DS_Store").write_bytes(b"x")
    return root


@pytest.mark.parametrize(
    "make",
    [
        lambda root: write_csv(root / "list.csv", *(f"near-imagenet200,{c}" for c in NEAR_CLASSES)),
        lambda root: write_csv(root / "list.csv", *(f"imagenet/near_ood,{c}" for c in NEAR_CLASSES * 2)),
        lambda root: write_csv(
            root / "l.csv", *(f"x,test/near-imagenet200,{c}" for c in NEAR_CLASSES), columns="n,split,class"
        ),
        lambda root: write_csv(
            root / "l.csv", f"{NEAR_SET},tench", f"{NEAR_SET},n01530575", f"{NEAR_SET},House_Finch"
        ),
        lambda root: class_folders(root / "imagenet-bench", NEAR_CLASSES).parent,
        lambda root: class_folders(root, ("Tench", "n01530575", "house finch")),
    ],
    ids=["set", "split", "path", "names", "folders", "folders named as people do"],
)
def test_class_lists_make_exactly_their_validation_images(make, demo, tmp_path):
    split = planned(demo, make(tmp_path), (NEAR,), seed=4)[NEAR]
    expected = {f"val/{path.name}" for class_id in NEAR_CLASSES for path in images(demo, class_id)}
    assert set(ids(split)) == expected and len(expected) == 6
    assert accounts(split)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("split,wnid\n", r"list\.csv lacks the columns split and class \(found in line 1: split, wnid\)\. Give"),
        ("", r"list\.csv lacks the columns split and class \(found in line 1: nothing\)"),
        ("split,class\n", r"list\.csv has no set of .*\. Build those splits without --adopt"),
        (f"split,class\n{NEAR_SET},n01440764\nfar,n01440764\n", r"'far' in line 3 of .*list\.csv is neither"),
        (f"split,class\n{NEAR_SET}\n", r"No class is given in line 2 of .*list\.csv\. Add it"),
        (f"split,class\n\n{NEAR_SET},tensch\n", r"has no class 'tensch' \(line 3 of .*list\.csv\)\. Name"),
        (f"split,class\n{NEAR_SET},crane\n", r"'crane' means several .*, n02012849 and n03126707 \(line 2 of"),
        (f"split,class\n{NEAR_SET},{KNOWN[0]}\n", rf"the class {KNOWN[0]}, which is in-distribution \(line 2 of"),
        ("split,class\nimagenet200,n01440764\n", r"not have the class n01440764, which is not in-.* \(line 2 of"),
        (f"split,class\n{NEAR_SET},caf\xe9\n".encode("latin-1"), r"^Line 2 of .*list\.csv is not UTF-8 .* Give a CSV"),
        (f"split,class\n{NEAR_SET},{'c' * 10_000}\n", r"has no class 'c{299}\.\.\. \(line 2 of"),
        (f"split,class\n{'s' * 10_000},n01440764\n", r"^'s{299}\.\.\. in line 2 of .* is neither"),
    ],
)
def test_a_wrong_class_list_is_refused_with_its_line(text, sentence, indexes, tmp_path):
    path = tmp_path / "list.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(BuildError, match=sentence):
        adopted(path, indexes, *SPLITS)


def in_set(folder, *names, content=b""):
    return lambda root: tree(root / folder, dict.fromkeys(names, content))


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda root: root.mkdir(), r"copy is not a copy of .* such as valid/imagenet200 or .*\. Give the folder"),
        (lambda root: (root / NEAR_SET).mkdir(parents=True), r"has neither images nor class folders\. Complete"),
        (in_set(NEAR_SET, "no-labels/a/README", ".DS_Store"), r"has neither images nor class folders\. Complete"),
        (lambda root: (root / NEAR_SET / "labels/dragon").mkdir(parents=True), r"no class 'dragon' \(.*dragon\)"),
        (
            lambda root: [(root / f"{name}/{NEAR_SET}").mkdir(parents=True) for name in ("a", "b")],
            r"copy holds several copies of the published benchmark: a and b\. Give one of them",
        ),
        (
            in_set("test/imagenet200", "labels/n01440764/ILSVRC2012_val_00000001.JPEG"),
            r"in the folder of class n01440764, but is val/ILSVRC2012_val_00000001\.JPEG of class n01443537\. Move it",
        ),
        (
            in_set(NEAR_SET, "no-labels/x/ILSVRC2012_val_00000001.JPEG"),
            rf"{NEAR_SET} must not have the class n01443537, which is in-distribution \(.*00000001\.JPEG\)\. Check",
        ),
    ],
)
def test_a_wrong_copy_is_refused_with_its_place(make, sentence, indexes, tmp_path):
    make(tmp_path / "copy")
    with pytest.raises(BuildError, match=sentence):
        adopted(tmp_path / "copy", indexes, *SPLITS)


def test_a_class_that_is_not_one_of_the_200_is_refused_where_known_ones_are_expected(demo, indexes, tmp_path):
    path = images(demo, "n01440764")[0]
    for name in (path.name, "renamed.JPEG"):
        copy = tree(tmp_path / name, {f"test/imagenet200/labels/n01440764/{name}": path.read_bytes()})
        with pytest.raises(BuildError, match=r"the class n01440764, which is not in-distribution \(.*J.*\)\. Check"):
            adopted(copy, indexes, "imagenet/test")


def test_images_of_another_partition_are_refused(demo, indexes, tmp_path):
    path = images(demo, KNOWN[0], "train")[2]
    place = f"test/imagenet200/labels/{KNOWN[0]}/{path.name}"
    copy = tree(tmp_path, {place: path.read_bytes()})
    sentence = rf"{copy / place} is .* of the partition train, but this set takes images of val only"
    with pytest.raises(BuildError, match=sentence):
        adopted(copy, indexes, "imagenet/test")
    # Where the other partition was not asked for it is not indexed, and the image is in no partition that is.
    with pytest.raises(BuildError, match=r"\(partition val\) lacks 1 of the .* images of .*, by name and by content"):
        planned(demo, copy, ("imagenet/test",))


def test_what_is_no_image_is_left_out_with_a_note(demo, indexes, tmp_path):
    copy = near_copy(tmp_path / "copy", demo)
    first = images(demo, NEAR_CLASSES[0])[0]
    strays = {
        "README.txt": b"JPEG",
        "labels/.DS_Store": b"x",
        f"labels/{NEAR_CLASSES[0]}/._{first.name}": b"x",
        f"labels/.cache/{first.name}": first.read_bytes(),
    }
    tree(copy / NEAR_SET, strays)
    (copy / NEAR_SET / "labels" / "n01440764" / "none").symlink_to("nowhere")
    (copy / "test" / "lsun").mkdir()
    choice, notes = adopted(copy, indexes, NEAR)
    assert len(choice[NEAR].source_ids) == 6
    (left_out,) = [note for note in notes if "are not images" in note]
    assert "left out 5 entries that are not images (README.txt, .DS_Store, .cache and 2 more)" in left_out
    assert f"{copy}/test/lsun: not a set of this benchmark, so it is not used" in notes


def test_an_image_named_twice_is_taken_once(demo, indexes, tmp_path):
    copy = near_copy(tmp_path / "copy", demo)
    path = images(demo, NEAR_CLASSES[0])[0]
    repeated = {f"{NEAR_SET}/no-labels/x/{name}": path.read_bytes() for name in (path.name, "again.JPEG")}
    tree(copy, repeated)
    choice, notes = adopted(copy, indexes, NEAR)
    assert len(choice[NEAR].source_ids) == 6
    assert f"{NEAR_SET}: 2 files repeat an image, which is taken once" in notes


@pytest.fixture
def twins(demo, tmp_path):
    """A source in which images of two classes, two of the one and one of the other, have the same bytes."""
    imagenet = tmp_path / "imagenet"
    linked(demo["imagenet"] / "val", imagenet / "val")
    paths = [*images({"imagenet": imagenet}, NEAR_CLASSES[0]), images({"imagenet": imagenet}, NEAR_CLASSES[1])[0]]
    data = paths[0].read_bytes()
    for path in paths:
        replaced(path, lambda _: data)
    source = BENCHMARK.sources()[0]
    return {"imagenet": open_source(source, imagenet, ("val",))}, [f"val/{path.name}" for path in paths], data


def test_equal_contents_are_told_apart_by_class_and_each_given_once(twins, tmp_path):
    indexes, (first, second, other), data = twins
    folder = f"{NEAR_SET}/labels"
    copy = tree(tmp_path / "a", {f"{folder}/{NEAR_CLASSES[1]}/x.jpg": data})
    assert adopted(copy, indexes, NEAR)[0][NEAR].source_ids == (other,)
    tree(copy, {f"{folder}/{NEAR_CLASSES[0]}/{name}.jpg": data for name in "ab"})
    choice, notes = adopted(copy, indexes, NEAR)
    assert choice[NEAR].source_ids == tuple(sorted((first, second, other)))
    assert not any("occur several times" in note for note in notes)


def test_a_choice_between_equal_contents_is_the_first_by_id_and_is_said(twins, tmp_path):
    indexes, equal_ids, data = twins
    copy = tree(tmp_path / "copy", {f"{NEAR_SET}/no-labels/x/a.jpg": data})
    choice, notes = adopted(copy, indexes, NEAR)
    assert choice[NEAR].source_ids == (min(equal_ids),)
    assert any("1 images occur several times in the source and less often" in note for note in notes)
    # An image whose name tells is not given away to a file of the same bytes.
    tree(copy, {f"{NEAR_SET}/no-labels/x/{min(equal_ids)[4:]}": data})
    assert adopted(copy, indexes, NEAR)[0][NEAR].source_ids == tuple(sorted(equal_ids)[:2])


def test_linked_folders_are_followed_once(demo, indexes, tmp_path):
    original = near_copy(tmp_path / "kept", demo)
    copy = tmp_path / "imagenet-bench"
    link(original / NEAR_SET / "labels", copy / NEAR_SET / "labels")
    link(copy / NEAR_SET, copy / NEAR_SET / "labels" / "loop")
    link(original / NEAR_SET / "labels" / NEAR_CLASSES[0], copy / NEAR_SET / "no-labels" / "again")
    choice, _ = adopted(tmp_path / "imagenet-bench", indexes, NEAR)
    assert choice[NEAR].class_ids == NEAR_CLASSES
    assert len(choice[NEAR].source_ids) == 6


def test_names_that_are_not_ascii_or_not_text_are_read(demo, indexes, tmp_path):
    first, second = images(demo, NEAR_CLASSES[0])
    folder = tmp_path / "Käse und 雷" / NEAR_SET / "no-labels" / "crème"
    folder.mkdir(parents=True)
    (folder / "relámpago 雷.jpg").write_bytes(first.read_bytes())
    try:
        (folder / os.fsdecode(b"\xff\xfe.jpg")).write_bytes(second.read_bytes())
    except OSError:
        pytest.skip("the file system takes only names that are text")
    choice, _ = adopted(tmp_path / "Käse und 雷", indexes, NEAR)
    assert choice[NEAR].source_ids == (f"val/{first.name}", f"val/{second.name}")
    (folder / "relámpago 雷.jpg").write_bytes(b"\xff\xd8\xff other")
    with pytest.raises(BuildError, match=r"\(no-labels/crème/relámpago 雷\.jpg\)"):
        adopted(tmp_path / "Käse und 雷", indexes, NEAR)


def test_caltech_and_places_classes_are_known_in_the_spellings_of_copies(indexes, tmp_path):
    caltech, places = "imagenet/far_ood_caltech45", "imagenet/far_ood_places82"
    for name in ("caltech256/labels/lightning", "places365/labels/a/airfield", "places365/airplane_cabin"):
        (tmp_path / "test" / name).mkdir(parents=True)
    choice, notes = adopted(tmp_path, indexes, caltech, places)
    assert choice == {caltech: Adopted(("133.lightning",)), places: Adopted(("/a/airfield", "/a/airplane_cabin"))}
    assert f"{places}: adopted 2 classes (1 of them not by our rule), their images drawn by rule" in notes


def some_sets(published, root, *sets):
    for name in sets:
        link(published / name, root / name)
    return root


def test_training_images_stay_apart_from_an_adopted_validation_set(demo, release, published, tmp_path):
    copy = some_sets(published, tmp_path / "copy", "valid/imagenet200")
    pair = ("imagenet/validation", "imagenet-train/train")
    plans = planned(demo, copy, pair, seed=5)
    validation, train = (set(ids(plans[key])) for key in pair)
    assert validation == {row["source_id"] for row in rows_of(release, pair[0])}
    assert not validation & train
    assert all(accounts(plan) for plan in plans.values())
    # Also where the validation set is in another run.
    assert set(ids(planned(demo, copy, pair[1:], seed=5)[pair[1]])) == train


def test_a_training_set_without_its_validation_set_is_refused(demo, published, tmp_path):
    copy = some_sets(published, tmp_path / "copy", "train/imagenet200")
    with pytest.raises(BuildError, match=r"has train/imagenet200 but not valid/imagenet200, and"):
        planned(demo, copy, ("imagenet/validation", "imagenet-train/train"))
    train = planned(demo, copy, ("imagenet-train/train",), seed=9)["imagenet-train/train"]
    names = [path.name for path in (copy / "train/imagenet200").glob("*/*")]
    assert len(train.rows) == len(names)


def test_splits_that_the_copy_does_not_have_are_refused_when_none_is_left(demo, published, tmp_path):
    copy = some_sets(published, tmp_path / "copy", "test/food101")
    with pytest.raises(BuildError, match=r"copy has no set of imagenet/near_ood\. Build those splits without"):
        planned(demo, copy, (NEAR,))
    notes = []
    plans = planned(demo, copy, (NEAR, "imagenet/far_ood_food32"), notes=notes)
    assert f"{NEAR}: not in the adopted copy, so it is drawn by rule" in notes
    assert ids(plans[NEAR]) == ids(planned(demo, published, (NEAR,))[NEAR])  # the release's own draw


def test_the_digest_knows_what_was_adopted_and_not_from_where(demo, indexes, archives, tmp_path):
    first = near_copy(tmp_path / "one", demo)
    second = near_copy(tmp_path / "elsewhere" / "imagenet-bench", demo, NEAR_CLASSES[::-1])
    for number, path in enumerate(sorted((second / NEAR_SET / "labels").glob("*/*"))):
        path.rename(path.with_name(f"{number}.jpg"))
    archive_indexes = {"imagenet": open_source(BENCHMARK.sources()[0], archives, ("val",))}
    copies = ((first, indexes), (second, indexes), (second.parent, archive_indexes))
    choices = [adopted(copy, of, NEAR)[0] for copy, of in copies]
    assert len({adoption_digest(choice[NEAR]) for choice in choices}) == 1
    next((second / NEAR_SET / "labels").glob("*/*")).unlink()
    assert adoption_digest(adopted(second, indexes, NEAR)[0][NEAR]) != adoption_digest(choices[0][NEAR])


def test_a_copy_that_cannot_be_read_is_refused_in_one_sentence(demo, indexes, tmp_path):
    copy = near_copy(tmp_path / "copy", demo)
    (copy / NEAR_SET / "labels" / NEAR_CLASSES[0] / "gone.JPEG").symlink_to(tmp_path / "nowhere")
    with pytest.raises(BuildError, match=r"Cannot read .*gone\.JPEG: No such file or directory\. Restore it"):
        adopted(copy, indexes, NEAR)


def test_a_split_and_its_rest_come_from_the_same_lists(demo, published, tmp_path):
    out = tmp_path / "out"
    build_demo(demo, out, splits=("imagenet/validation",), adopt=published)
    for _ in range(2):  # with its state, and without
        with pytest.raises(BuildError, match="validation was built from another adopted copy, or without one, in"):
            build_demo(demo, out, splits=("imagenet-train/train",))
        shutil.rmtree(out / ".state")


def test_what_a_class_list_leaves_out_of_its_own_classes_was_not_drawn(demo, tmp_path):
    path = tmp_path / "classes.csv"
    path.write_text("split,class\n" + "".join(f"imagenet/validation,{wnid}\n" for wnid in KNOWN))
    (split,) = planned(demo, path, ("imagenet/validation",)).values()
    rules = {(e.class_id in KNOWN, e.rule) for e in split.excluded if e.rule != "stray"}
    assert rules == {(True, "image-not-drawn"), (False, "not-adopted")}


def test_images_of_every_ending_are_listed(tmp_path):
    """By their names alone; what they hold is not looked at."""
    endings = ("bmp", "gif", "jpeg", "jpg", "JPEG", "pgm", "png", "ppm", "tif", "tiff", "webp")
    tree(tmp_path, {f"{number}.{ending}": b"no signature" for number, ending in enumerate((*endings, "txt"))})
    listing = list_images(tmp_path)
    names = {listing.path(file).name for file in range(len(listing))}
    assert names == {f"{number}.{ending}" for number, ending in enumerate(endings)}
    assert listing.ignored == (f"{len(endings)}.txt",)
