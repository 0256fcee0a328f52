"""What a manifest may say: releases read and written to the byte, and every way in which one can be none."""

import copy
import json
import os
import re

import msgspec
import pytest
from msgspec.structs import replace

from builders.card.card import write_card_and_manifest
from builders.errors import BuildError
from builders.release.entries import EMPTY, Manifest, SplitEntry, is_training, without_outdated_audits
from builders.release.layout import Layout
from builders.release.manifest import (
    MOST_BYTES,
    ManifestError,
    dump,
    parse,
    read_manifest,
    read_or_empty,
    write_manifest,
)
from builders.release.schema import OODNESS, Column
from tests import manifests
from tests.builders.conftest import files_of
from tests.hf_scripts.samples import make_release
from tests.manifests import as_json, file, manifest_of, write_json
from tests.sentences import stops


@pytest.fixture(params=["imagenet_release", "cifar_release", "facets_release"])
def built(request):
    return request.getfixturevalue(request.param)


def small():
    """A manifest with a split, a split that is joined, and a table of duplicates."""
    parts = [manifests.part(key=f"bench/mixed.{name}", rows=rows) for name, rows in (("one", 2), ("two", 3))]
    splits = {"test": manifests.split(), "mixed": manifests.split(*parts)}
    compared = [{"by": "bytes", "splits": ["bench/test"], "with": ["bench/mixed"]}]
    table = file("duplicates/pairs.parquet") | {"rows": 0, "compared": compared, "counts": []}
    return manifests.manifest({"bench": manifests.config(splits)}, duplicates=table)


def refused(manifest):
    """What is said of a manifest, as JSON or as text, that is refused."""
    data = manifest if isinstance(manifest, bytes) else json.dumps(manifest).encode()
    with pytest.raises(ManifestError) as caught:
        parse(data, "a/manifest.json")
    assert str(caught.value).startswith(f"Cannot use a/manifest.json: {caught.value.reason}. ")
    assert caught.value.reason.isprintable()
    return caught.value.reason


# Releases


def test_what_a_build_wrote_is_written_again_to_the_byte(built, tmp_path):
    manifest = read_manifest(built)
    assert dump(manifest).encode() == (built / "manifest.json").read_bytes()
    assert json.loads(dump(manifest)) == manifest_of(built)
    assert write_card_and_manifest(Layout(tmp_path), manifest) == manifest
    for name in ("README.md", "croissant.json", "LICENSE.md", "manifest.json"):
        assert (tmp_path / name).read_bytes() == (built / name).read_bytes()


def test_its_files_are_those_of_the_folder(built):
    manifest = read_manifest(built)
    sizes = {path: len(data) for path, data in files_of(built).items() if path != "manifest.json"}
    assert {file.path: file.size for file in manifest.files_and_card()} == sizes
    assert manifest.files()[-1] != manifest.card == manifest.files_and_card()[-1]


def test_a_folder_without_a_release_is_an_empty_one_to_a_build_alone(tmp_path):
    assert read_or_empty(tmp_path) == EMPTY
    with stops(BuildError, "manifest.json"):
        read_manifest(tmp_path)
    with stops(BuildError, "org/name", "v1"):
        read_manifest(tmp_path / "nowhere", "org/name at v1")
    (tmp_path / "manifest.json").mkdir()
    with stops(BuildError, "manifest.json"):
        read_manifest(tmp_path)


@pytest.mark.timeout(20)
@pytest.mark.parametrize("kind", ["fifo", "device"])
def test_only_a_regular_file_is_read(tmp_path, kind):
    path = tmp_path / "manifest.json"
    os.mkfifo(path) if kind == "fifo" else path.symlink_to("/dev/zero")
    with stops(BuildError, "manifest.json"):
        read_manifest(tmp_path)


def test_a_manifest_of_many_megabytes_is_not_read(tmp_path):
    with (tmp_path / "manifest.json").open("wb") as opened:
        opened.truncate(MOST_BYTES + 1)
    with stops(BuildError, "manifest.json", "64,000,000"):
        read_manifest(tmp_path)


def test_a_reason_is_short_whatever_it_repeats():
    manifest = small()
    manifest["configs"]["bench"]["splits"]["test"]["parts"][0]["role"] = "x" * 200_000
    assert len(refused(manifest)) < 400


# Splits


def test_a_split_has_the_roles_sources_and_counts_of_its_parts():
    parts = [
        manifests.part(key="x/y.a", role="far_ood", rows=2, expected=3, excluded_by_rule={"a": 1, "b": 2}),
        manifests.part(key="x/y.b", source="other", rows=5, paper=6, excluded_by_rule={"b": 3}),
        manifests.part(key="x/y.c", role="far_ood", expected=4),
    ]
    split = msgspec.convert(manifests.split(*parts), SplitEntry)
    assert (split.roles, split.sources) == (("far_ood", "near_ood"), ("source", "other"))
    assert (split.rows, split.expected, split.paper, split.excluded_by_rule) == (7, 7, 6, {"a": 1, "b": 5})


def test_only_known_images_alone_are_to_train_on():
    splits = {name: manifests.split(role="in_distribution") for name in ("train", "test")}
    parts = [manifests.part(key=f"a/mixed_train.{role}", role=role) for role in ("in_distribution", "near_ood")]
    splits["mixed_train"] = manifests.split(*parts)
    listed = manifests.typed(manifests.manifest({"a": manifests.config(splits)})).by_key()
    assert [key for key, split in listed.items() if is_training(key, split)] == ["a/train"]
    assert not is_training("a/train", listed["a/mixed_train"])


# What is none


def test_the_small_one_is_a_manifest():
    assert json.loads(dump(parse(json.dumps(small()).encode(), "x"))) == small()


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "it is not valid JSON (Expecting value"),
        (b"{", "it is not valid JSON"),
        (b"\xff\xfe\xff", "it is not valid JSON"),
        (b"[" * 100_000, "its JSON is nested too deeply"),
        (b'{"a":' * 100_000, "its JSON is nested too deeply"),
        (b"9" * 5_000, "it is not valid JSON (Exceeds the limit"),
        ("{}".encode("utf-16"), "it is not valid JSON ('utf-8' codec can't decode byte 0xff"),
        (b"\xef\xbb\xbf{}", "it is not valid JSON (Unexpected UTF-8 BOM"),
        (b"[]", "expected `object`, got `array`"),
        (b"3", "expected `object`, got `int`"),
        (b'{"format": 1}', "object missing required field `benchmarks`"),
        (b'{"format": 1, "format": 1}', "it is not valid JSON (the key 'format' is repeated in one object)"),
        (b'{"format": 1, "card": {"\\u001b[2J": 1, "\\u001b[2J": 2}}', "the key '\\x1b[2J' is repeated"),
        (b'{"format": 1, "\\ud800": 1}', "a key contains a lone surrogate"),
    ],
    ids=lambda value: None if isinstance(value, bytes) else value[:30],
)
def test_text_that_is_no_manifest(data, reason):
    assert reason in refused(data)


@pytest.mark.parametrize(
    "changes",
    [{"format": version} for version in (0, 2, -1, 10**400, True, None, "1", 1.0, float("nan"), [1])] + [None],
)
def test_another_format_is_left_to_the_version_that_wrote_it(changes):
    document = {} if changes is None else small() | changes
    sentence = r"^Cannot read x: its format is .{1,40}, and this version reads 1\. Use"
    with pytest.raises(BuildError, match=sentence) as caught:
        parse(json.dumps(document).encode(), "x")
    assert not isinstance(caught.value, ManifestError)


def column(**changes):
    return {"name": "epsilon", "type": "float64", "description": "the largest change of a sample"} | changes


TEST = "configs.bench.splits.test"
MIXED = "configs.bench.splits.mixed"


@pytest.mark.parametrize(
    ("place", "value", "reason"),
    [
        (f"{TEST}.parts[0].rows", "3", "expected `int`, got `str`"),
        (f"{TEST}.parts[0].rows", True, "expected `int`, got `bool`"),
        (f"{TEST}.parts[0].rows", float("nan"), "expected `int`, got `float`"),
        (f"{TEST}.parts[0].rows", -1, "expected `int` >= 0"),
        (f"{TEST}.index.bytes", 10**16, "expected `int` <= 1000000000000000"),
        (f"{TEST}.parts", [], "expected `array` of length >= 1"),
        (f"{TEST}.parts[0].excluded_by_rule.i", "1", "expected `int`, got `str`"),
        (f"{MIXED}.parts[1].excluded_by_rule.i", -1, "expected `int` >= 0"),
        (f"{TEST}.digest", "0" * 63, "expected a SHA-256 in lower-case hex"),
        (f"{TEST}.digest", "A" * 64, "expected a SHA-256 in lower-case hex"),
        (f"{TEST}.digest", "0" * 64 + "\n", "expected a SHA-256 in lower-case hex"),
        (f"{MIXED}.parts[0].role", "\x1b[31m", "invalid enum value '\\x1b[31m'"),
        ("benchmarks.bench.demo", 1, "expected `bool`, got `int`"),
        ("benchmarks.bench.seed", 2**63, "expected `int`"),
        ("duplicates.compared[0].by", "eye", "invalid enum value 'eye'"),
        ("configs.bench.columns", [{"name": "a", "type": "float16", "description": ""}], "invalid enum value"),
        # Text that would turn a terminal or a card around
        ("configs.bench.label_names[1]", "b\n", "expected one line of printable text"),
        ("configs.bench.label_names[1]", "\x1b]0;title\x07", "expected one line of printable text"),
        ("configs.bench.description", "a \u202e b", "expected printable text"),
        (f"{TEST}.shortfalls", ["\u2066"], "expected printable text"),
        (f"{TEST}.withdrawn", [{"id": "a\u200fb", "reason": ""}], "expected one line of printable text"),
        (f"{TEST}.withdrawn", [{"id": "a\ud800b", "reason": ""}], "expected one line of printable text"),
        (f"{TEST}.index.path", "index/a\r.parquet", "expected one line of printable text"),
        ("sources.source.licence.url", "https://example.org/\x00", "expected one line of printable text"),
        ("sources.source.title", "x" * 10_001, "expected `str` of length <= 10000"),
        # Generators
        (f"{TEST}.generator", {"parameters": {"by": [20]}}, "expected `bool | int | float | str`"),
        (f"{TEST}.generator", {"weights": {"w": "abc"}}, "expected a SHA-256 in lower-case hex"),
        (f"{TEST}.generator", {"reproducible": "perhaps"}, "invalid enum value 'perhaps'"),
        (f"{TEST}.generator", {"prepared": 1 << 16}, "expected `int` <= 65535"),
        (f"{TEST}.generator", {"sealed": {"resize": 0}}, "expected `int` >= 1"),
        # An original that is resized to more would take all memory.
        (f"{TEST}.generator", {"sealed": {"resize": 4097}}, "expected `int` <= 4096"),
        (f"{TEST}.generator", {"sealed": {"interpolation": "lanczos"}}, "invalid enum value 'lanczos'"),
    ],
)
def test_a_value_of_another_kind_is_named_with_its_place(place, value, reason):
    manifest = small()
    if place.endswith("generator"):
        value = generator(**value | ({"sealed": prepared(**value["sealed"])} if "sealed" in value else {}))
    set_at(manifest, place, value)
    assert (refusal := refused(manifest)).startswith(shown(place))
    assert f": {reason}" in refusal


def shown(place):
    """A place as msgspec has it: fields by name, keys and numbers of entries not."""
    return re.sub(r"\.(bench|source|test|mixed|i|x)\b", "[...]", place)


def set_at(manifest, place, value):
    *parents, last = place.replace("[", ".").replace("]", "").split(".")
    node = manifest
    for name in parents:
        node = node[int(name)] if isinstance(node, list) else node.setdefault(name, {})
    if isinstance(node, list):
        node[int(last)] = value
    else:
        node[last] = value


@pytest.mark.parametrize(
    "place",
    ["", "card.", "benchmarks.bench.", "sources.source.licence.", f"{TEST}.", f"{TEST}.data[0].", "duplicates."],
)
def test_a_key_that_nobody_knows(place):
    manifest = small()
    set_at(manifest, f"{place}colour", "red")
    reason = f"{shown(place[:-1])}: object" if place else "object"
    assert refused(manifest) == f"{reason} contains unknown field `colour`"


@pytest.mark.parametrize("place", [f"{TEST}.digest", "card.sha256", "sources.source.licence", "sources"])
def test_a_key_that_is_missing(place):
    manifest = small()
    parent, _, key = place.rpartition(".")
    node = manifest
    for name in parent.split(".") if parent else ():
        node = node[name]
    del node[key]
    assert refused(manifest) == f"{shown(parent)}{': ' if parent else ''}object missing required field `{key}`"


@pytest.mark.parametrize(
    "name", ["/tmp/victim", "../x", "", ".", "a/b", "A", "a b", "a\n", "-a", "a--b", "a\u202eb", "é"]
)
@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("configs", "a config's name (a-z, 0-9, hyphens between)"),
        ("configs.bench.splits", "a split's name (a-z, 0-9, underscores between, and not `all`)"),
        ("sources", "a name (a-z, 0-9, hyphens or underscores between)"),
        ("benchmarks", "a name (a-z, 0-9, hyphens or underscores between)"),
    ],
)
def test_names_that_are_no_names(place, words, name):
    manifest = small()
    node = manifest
    for step in place.split("."):
        node = node[step]
    node[name] = copy.deepcopy(next(iter(node.values())))
    assert refused(manifest) == f"key in {shown(place)}: expected {words}"


def test_a_split_named_all_would_not_load():
    """`datasets` (5.2) raises "`all` is a special split keyword" while it makes the split."""
    manifest = small()
    splits = manifest["configs"]["bench"]["splits"]
    splits["all"] = copy.deepcopy(next(iter(splits.values())))
    expected = "a split's name (a-z, 0-9, underscores between, and not `all`)"
    assert refused(manifest) == f"key in {shown('configs.bench.splits')}: expected {expected}"
    splits["all_of_them"] = splits.pop("all")
    assert "a split's name" not in refused(manifest)


def test_each_kind_of_name_has_its_own_separator():
    manifest = small()
    manifest["configs"]["a_b"] = manifest["configs"]["bench"]
    assert refused(manifest).startswith("key in configs: expected")
    manifest = small()
    manifest["configs"]["bench"]["splits"]["a-b"] = manifests.split()
    assert refused(manifest).startswith("key in configs[...].splits: expected")


@pytest.mark.parametrize("path", ["/etc/passwd", "../data/x", "data\\..\\x", ""])
@pytest.mark.parametrize(
    ("place", "of", "expected"),
    [
        (f"{TEST}.index", "the index of bench/test", "index/bench/test.parquet"),
        (f"{MIXED}.data[0]", "file 0 of bench/mixed", "data/bench/mixed-00000-of-00001.parquet"),
        ("configs.bench.excluded", "the exclusions of bench", "excluded/bench.csv"),
        ("duplicates", "the table of duplicates", "duplicates/pairs.parquet"),
    ],
)
def test_each_file_has_one_path(place, of, expected, path):
    manifest = small()
    set_at(manifest, f"{place}.path", path)
    assert refused(manifest) == f"{of} is {path}, not {expected}"


@pytest.mark.parametrize(
    "path", ["../CHANGELOG.md", "changes", "changes/a/b.csv", "data/x", "changes/..", "changes//x", "changes/a\\b"]
)
def test_a_changelog_elsewhere(path):
    published = {"version": "1.0.0", "previous": "", "changelog": [file("CHANGELOG.md"), file("changes/v1.csv")]}
    parse(json.dumps(small() | published).encode(), "x")
    published["changelog"].append(file(path))
    assert refused(small() | published) == f"the changelog's {path} is neither CHANGELOG.md nor in changes/"


@pytest.mark.parametrize("card", ["CARD.md", "data/README.md", "../README.md", "/README.md"])
def test_a_card_elsewhere(card):
    assert refused(small() | {"card": file(card)}) == f"its card is {card}, not README.md"


def generator(**changes):
    entry = {"name": "bright-224", "version": 1, "parameters": {"by": 20, "gain": 0.5, "on": True, "how": "all"}}
    return entry | {"weights": {"w": "0" * 64}, "reproducible": "exact"} | changes


def prepared(**changes):
    return {"size": 224, "resize": 256, "interpolation": "bilinear"} | changes


def with_sealed(manifest, *, columns=None, **changes):
    """A split with sealed residuals; `changes` are those of its generator."""
    digest = column(name="prepared_sha256", type="string")
    manifest["configs"]["bench"]["columns"] = [digest] if columns is None else columns
    made = {"prepared": 224, "sealed": prepared(), "reproducible": "recorded"} | changes
    split = manifest["configs"]["bench"]["splits"]["test"]
    split |= {"generator": generator(**made), "sealed": [file("sealed/bench/test-00000-of-00001.parquet")]}
    return manifest


def audit(key="bench/artifacts", **changes):
    entry = {"summary": "What was found.", "splits": {"bench/test": manifests.DIGEST}}
    return entry | {"table": file(f"audit/{key}.csv"), "chart": file(f"audit/{key}.png")} | changes


def test_sealed_splits_own_columns_and_audits_are_read_listed_and_written_as_they_are():
    manifest = with_sealed(small()) | {"audits": {"bench/artifacts": audit(), "overlap": audit("overlap")}}
    manifest["configs"]["bench"]["columns"] += [as_json(OODNESS), column()]
    del manifest["audits"]["overlap"]["chart"]
    read = parse(json.dumps(manifest).encode(), "x")
    assert json.loads(dump(read)) == manifest
    described = Column("epsilon", "float64", "the largest change of a sample")
    assert read.configs["bench"].columns[1:] == (OODNESS, described)
    # How an image is prepared and published does not change it.
    identity = generator(reproducible="recorded")
    assert read.by_key()["bench/test"].generator.identity() == identity
    paths = {entry.path for entry in read.files()}
    assert paths >= {"sealed/bench/test-00000-of-00001.parquet", "audit/bench/artifacts.csv"}
    assert "audit/overlap.csv" in paths and "audit/overlap.png" not in paths


@pytest.mark.parametrize(
    ("key", "entry", "reason"),
    [
        ("x", audit("y"), "the table of the audit x is audit/y.csv, not audit/x.csv"),
        ("../x", audit("../x"), "key in audits: expected the path of an audit below audit/"),
        ("x", audit("x", chart=file("data/x.png")), "the chart of the audit x is data/x.png, not audit/x.png"),
        ("bench/sheet", audit("bench/sheet"), "it lists audit/bench/sheet.png, a picture of images, which is never"),
        ("x", audit("x", splits={"bench/no": manifests.DIGEST}), "the audit x is of rows that bench/no does not have"),
        ("x", audit("x", splits={"bench/test": "1" * 64}), "the audit x is of rows that bench/test does not have"),
        ("x", audit("x", summary="a\u001b[2J"), "audits[...].summary: expected printable text"),
    ],
)
def test_an_audit_that_is_none_of_this_release(key, entry, reason):
    assert reason in refused(small() | {"audits": {key: entry}})


def test_audits_of_other_rows_are_left_out_when_a_manifest_is_written():
    manifest = small() | {"audits": {"a": audit("a"), "b": audit("b", splits={"bench/test": "1" * 64})}}
    read = without_outdated_audits(msgspec.convert(manifest, Manifest))
    assert list(read.audits) == ["a"]


def rename(manifest, name):
    manifest["configs"][name] = manifest["configs"].pop("bench")
    manifest["duplicates"]["compared"] = []


def with_parameter(manifest, value):
    manifest["configs"]["bench"]["splits"]["test"]["generator"] = generator(parameters={"by": value})


def with_columns(manifest, *columns):
    manifest["configs"]["bench"]["columns"] = list(columns)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda m: m["sources"].clear(), "bench/mixed has rows of the source source, which it does not describe"),
        (lambda m: m["benchmarks"].clear(), "bench belongs to the benchmark bench, which it does not describe"),
        (lambda m: m["configs"].clear(), "it has no config"),
        (lambda m: rename(m, "duplicates"), "duplicates cannot name a config: the card has one of that name for the"),
        (lambda m: rename(m, "bench-index"), "bench-index cannot name a config: the card has one of that name for an"),
        (lambda m: rename(m, "bench-sealed"), "bench-sealed cannot name a config: the card has one of that name for"),
        (lambda m: with_sealed(m, sealed=None), "bench/test has sealed residuals, but its generator does not say how"),
        (lambda m: with_sealed(m, prepared=0), "the generator of bench/test crops originals to 224 of 256 pixels,"),
        (lambda m: with_sealed(m, sealed=prepared(resize=223)), "crops originals to 224 of 223 pixels, for images of"),
        (lambda m: with_sealed(m, columns=[]), "sealed, but its config lacks the column prepared_sha256"),
        (lambda m: with_parameter(m, float("nan")), "the parameter by of the generator of bench/test is nan"),
        (lambda m: with_parameter(m, float("-inf")), "the parameter by of the generator of bench/test is -inf"),
        (lambda m: m["configs"]["bench"]["splits"].clear(), "bench has no split"),
        (lambda m: m.pop("card"), "it lists no README.md"),
        (lambda m: m["configs"]["bench"].update(label_names=[]), "label_names of bench are empty or repeat a name"),
        (lambda m: m["configs"]["bench"].update(label_names=["a", "a"]), "label_names of bench are empty or repeat"),
        (lambda m: with_columns(m, column(name="a b")), "'a b' cannot name a column"),
        (lambda m: with_columns(m, column(name="label")), "label cannot name a column"),
        (lambda m: with_columns(m, column(), column()), "columns of bench: a name is repeated"),
        (lambda m: with_columns(m, column(name="id_overlap")), "id_overlap is not the column that other releases"),
        (lambda m: with_columns(m, column(nullable=True)), "epsilon is not the column that other releases have"),
        (lambda m: m.update(version="1.0.0"), "it has some of version, previous and changelog, but not all"),
        (lambda m: m.update(version="1.0.0", previous="", changelog=[]), "it has some of version, previous and"),
    ],
)
def test_what_does_not_fit_together(change, reason):
    manifest = small()
    change(manifest)
    assert refused(manifest).find(reason) >= 0, refused(manifest)


@pytest.mark.parametrize(
    "keys",
    [
        ["bench/test", "bench/test"],
        ["bench/test.a", "bench/test.a"],
        ["bench/test.a", "bench/test"],
        ["bench/test."],
        ["bench/test.a b"],
        ["bench/test.a.b"],
        ["bench/test/a"],
        ["bench/test.../x"],
        ["bench/tests", "bench/test.a"],
        ["bench/mixed.one"],
        ["bench/test.a", "bench/mixed.one"],
        ["other/test"],
        [""],
    ],
    ids=str,
)
def test_parts_that_do_not_each_have_a_key_of_their_own(keys):
    manifest = small()
    manifest["configs"]["bench"]["splits"]["test"]["parts"] = [manifests.part(key=key) for key in keys]
    assert refused(manifest).startswith("the parts of bench/test do not each have a key of their own, bench/test.NAME")


def test_the_release_is_named_where_its_folder_says_nothing(tmp_path):
    write_json(tmp_path, [])
    with pytest.raises(ManifestError, match=r"^Cannot use the manifest\.json of org/name at v1: expected `object`"):
        read_manifest(tmp_path, "org/name at v1")


def test_what_nobody_could_read_is_not_written(tmp_path):
    root = make_release(tmp_path, {"bench/test": range(3)})
    before = (root / "manifest.json").read_bytes()
    manifest = read_manifest(root)
    split = replace(manifest.by_key()["bench/test"], shortfalls=("a\x1b[2Jb.png left out as unreadable",))
    configs = {"bench": replace(manifest.configs["bench"], splits={"test": split})}
    sentence = r"which would not be valid: .*\.shortfalls\[0]: expected printable text\. Change"
    with pytest.raises(BuildError, match=sentence):
        write_manifest(root, replace(manifest, configs=configs))
    assert (root / "manifest.json").read_bytes() == before
    card = (root / "README.md").read_bytes()
    with pytest.raises(BuildError, match=sentence):
        write_card_and_manifest(Layout(root), replace(manifest, configs=configs))
    assert (root / "README.md").read_bytes() == card
