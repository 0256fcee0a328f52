import base64
import shlex

import msgspec

from builders.commands.audit import main
from builders.errors import BuildError
from builders.release.entries import AuditEntry
from builders.release.layout import Layout
from builders.release.manifest import file_entry, read_manifest
from builders.report import audits
from tests.builders.report.conftest import texts
from tests.sentences import stops

OVERLAP = """split,known_class,unknown_class,unknown_class_name,rows,rows_of_split
bench/near_ood,n01,unknown,a class,3,4
bench/near_ood,n02,x,x,many,4
"""
ARTIFACTS = """split,role,number,auroc,direction,flagged,images,known_images
bench/near_ood,near_ood,width,0.9876,larger,yes,4,4
bench/near_ood,near_ood,jpeg_quality,,none,no,4,4
bench/test,a role,width,1e9,larger,no,4,4
"""


def with_audit(root, key, text):
    """The manifest of a release that lists an audit with this table."""
    path = Layout(root).inside(f"audit/{key}.csv")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    manifest = read_manifest(root)
    entry = AuditEntry(summary="**What** was `found`.", splits={}, table=file_entry(Layout(root), path))
    return msgspec.structs.replace(manifest, audits={**manifest.audits, key: entry})


def test_an_audit_that_was_not_run_gives_its_command(small, tmp_path):
    manifest = read_manifest(small)
    folder = tmp_path / "with a space"
    assert shlex.split(audits.audit(folder, manifest, "overlap").command)[3:] == ["overlap", str(folder)]
    words = shlex.split(audits.audit(folder, manifest, "artifacts", "bench").command)
    assert words[3:] == ["artifacts", str(folder), "--splits", "bench"]


def test_the_table_of_an_audit_is_shown_with_its_numbers(small):
    audit = audits.audit(small, with_audit(small, "overlap", OVERLAP), "overlap")
    assert (audit.command, audit.summary, audit.chart) == ("", "What was found.", "")
    assert [column.title for column in audit.table.columns][-2:] == ["known class", "rows"]
    assert texts(audit.table) == [
        ["bench/near_ood", "unknown", "a class", "n01", 3],
        ["bench/near_ood", "x", "x", "n02", "many"],
    ]
    audit = audits.audit(small, with_audit(small, "bench/artifacts", ARTIFACTS), "artifacts", "bench")
    assert [row[3:] for row in texts(audit.table)] == [
        [0.9876, "larger", "yes"],
        [None, "none", "no"],
        ["1e9", "larger", "no"],
    ]


def test_the_chart_of_an_audit_is_on_the_page(small):
    assert main(["artifacts", str(small), "--workers", "1"]) == 0
    audit = audits.audit(small, read_manifest(small), "artifacts", "bench")
    assert base64.b64decode(audit.chart.partition(",")[2]) == (small / "audit/bench/artifacts.png").read_bytes()


def test_a_table_that_is_none_is_refused(small):
    with stops(BuildError, "artifacts.csv"):
        audits.audit(small, with_audit(small, "bench/artifacts", "a,b\n"), "artifacts", "bench")


def test_other_audits_are_named(small):
    manifest = with_audit(small, "bench/sheet", "split,row,id\n")
    assert [key for key, _ in audits.other_audits(manifest)] == ["bench/sheet"]
    assert audits.other_audits(with_audit(small, "overlap", OVERLAP)) == []


def test_duplicates_are_counted_from_their_table(imagenet_release, manifest):
    table, known_and_unknown = audits.duplicates_table(imagenet_release, manifest)
    # The README's lines of verify, of the same build.
    assert ["imagenet/near_ood", "imagenet/test", 1, 1, 1] in texts(table)
    assert sum(row[2] for row in texts(table)) == 6
    assert known_and_unknown == 4
    assert audits.duplicates_table(imagenet_release, msgspec.structs.replace(manifest, duplicates=None)) is None
    assert {by for by, _ in audits.compared(manifest)} == {"bytes"}


def test_overlapping_rows_are_counted_by_kind_where_a_config_says_it(openood_release):
    """The demo has one image of each class of SSB-hard and ImageNet-OOD, and four of each texture.

    WordNet's kin are counted from its hypernyms alone in tests/taxonomy/rules/test_openood.py; ViM's authors ruled out
    four textures.
    """
    table = audits.overlapping_rows(openood_release, read_manifest(openood_release))
    titles = [column.title for column in table.columns]
    pairs = {row[0]: zip(titles[1:], row[1:], strict=True) for row in texts(table)}
    cells = {key: {title: cell for title, cell in row if cell is not None} for key, row in pairs.items()}
    assert titles[:5] == ["split", "overlapping", "same", "descendant", "ancestor"]
    assert cells["openood-imagenet1k/ssb_hard"] == {"overlapping": 192, "descendant": 160, "ancestor": 32, "rows": 980}
    assert cells["imagenet-ood/imagenet_ood"] == {"overlapping": 3, "descendant": 1, "ancestor": 2, "rows": 637}
    assert cells["mos/textures"] == {"overlapping": 16, "scene holds object": 16, "rows": 188}
