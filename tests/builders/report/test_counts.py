import re

import msgspec
import pytest

from builders.card.words import ROLE_NAMES
from builders.release.manifest import read_manifest
from builders.release.tables import read_excluded
from builders.report import counts
from builders.report.counts import filled, stacked
from taxonomy.decisions import RULES
from tests.builders.report.conftest import texts


def test_what_was_built_stands_beside_what_is_published(manifest):
    counts_of = {row[0]: (row[3], *row[5:]) for row in texts(counts.splits_table(manifest, "imagenet"))}
    assert counts_of["far_ood_caltech45"] == (180, 4747, 4792, 180 - 4792)  # the README's table of the same build
    assert set(counts_of) == set(manifest.configs["imagenet"].splits)


def test_a_persons_own_classes_are_compared_with_no_paper(manifest):
    uncited = {key: msgspec.structs.replace(benchmark, citation="") for key, benchmark in manifest.benchmarks.items()}
    of_own = msgspec.structs.replace(manifest, benchmarks=uncited)
    assert {tuple(row[6:8]) for row in texts(counts.splits_table(of_own, "imagenet"))} == {(None, None)}
    assert all(not reason.difference for reason in counts.reasons(of_own, "imagenet"))


def test_every_difference_has_a_reason_or_says_that_it_has_none(manifest, small):
    reason_of = {reason.split: reason for reason in counts.reasons(manifest, "imagenet")}
    split = manifest.configs["imagenet"].splits["far_ood_caltech45"]
    assert reason_of["far_ood_caltech45"].difference == "4,612 fewer than published"
    assert reason_of["far_ood_caltech45"].sentences == (split.parts[0].why, *split.shortfalls)

    plain = read_manifest(small)
    assert counts.reasons(plain, "bench") == []
    config = plain.configs["bench"]
    test = config.splits["test"]
    more = msgspec.structs.replace(test.parts[0], paper=3)
    splits = {**config.splits, "test": msgspec.structs.replace(test, parts=(more,))}
    changed = msgspec.structs.replace(plain, configs={"bench": msgspec.structs.replace(config, splits=splits)})
    assert counts.reasons(changed, "bench") == [
        counts.Reason("test", "1 more than published", ("the manifest gives no reason",))
    ]


def test_every_rule_of_a_release_is_explained(manifest):
    rows = texts(counts.rules_table(manifest))
    assert sum(row[2] for row in rows) == sum(split.excluded_by_rule.total() for _, _, split in manifest.splits())
    assert [row for row in rows if not row[3]] == []
    assert next(row[3] for row in rows if row[1] == "same_label") == RULES["same_label"]


def test_single_images_are_listed_up_to_a_limit(imagenet_release, monkeypatch):
    excluded = read_excluded(imagenet_release / "excluded/imagenet.csv")
    single = [line for line in excluded if line.image]
    assert [row[0] for row in texts(counts.images_table(excluded))] == [line.image for line in single]
    monkeypatch.setattr(counts, "MOST_IMAGES", 3)
    table = counts.images_table(excluded)
    assert len(table.rows) == 3
    assert table.note == f"The first 3 of {len(single):,}; excluded/ has all."


def test_digests_and_files_are_those_of_the_manifest(manifest):
    assert texts(counts.digests_table(manifest)) == [[key, s.rows, s.digest] for key, _, s in manifest.splits()]
    listed = sorted((file.path, file.size, file.sha256) for file in manifest.files_and_card())
    assert [tuple(row) for row in texts(counts.files_table(manifest))] == listed


def test_sources_have_the_rows_that_are_theirs(manifest):
    rows = {row[0]: row[4] for row in texts(counts.sources_table(manifest))}
    assert rows["Caltech-256"] == 180
    assert sum(rows.values()) == sum(split.rows for _, _, split in manifest.splits())


def test_bars_are_as_long_as_the_shares_that_they_stand_for():
    bar = stacked([("near_ood", "near-OoD", 1), ("far_ood", "<far>", 3)])
    assert re.findall(r'class="(\w+)" x="([\d.]+)" width="([\d.]+)"', bar) == [
        ("near_ood", "0.00", "50.00"),
        ("far_ood", "50.00", "150.00"),
    ]
    assert "<far>" not in bar
    for number, of, width in ((1, 4, "50.00"), (5, 4, "200.00"), (0, 0, "0.00")):
        assert f'class="done" width="{width}"' in filled(number, of)


@pytest.mark.parametrize("role", ROLE_NAMES)
def test_every_role_has_a_colour(role):
    from pathlib import Path

    import builders.report

    assert f".{role} {{ --role: light-dark(" in (Path(builders.report.__path__[0]) / "release.css").read_text()
