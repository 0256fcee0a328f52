from pathlib import Path

import pytest

from benchmarks import scale_page
from benchmarks.scale_page import BROAD_PAGE, Workload, broad_gpu_hours, made_up, tables, workloads

DOCS = Path(__file__).parents[2] / "docs"


def test_the_page_quotes_what_is_printed():
    page = (DOCS / "scale.md").read_text(encoding="utf-8")
    printed = tables(workloads())
    assert set(printed) == {"bytes", "requests", "time", "money", "growth", "prices"}
    for name, text in printed.items():
        assert f"\n\n{text}\n\n" in page, f"{name}: run python -m benchmarks.scale_page"


def test_measured_figures_are_those_of_the_page_on_performance():
    page = (DOCS / "performance.md").read_text(encoding="utf-8")
    assert f"{scale_page.OWN_MB:,} MB" in page
    assert f"{scale_page.WORKER_MB} MB a process" in page
    assert f"{scale_page.PLAN_SECONDS * 1e6:.2f} µs" in page
    assert f"| {scale_page.BUILD_SECONDS} s; " in page
    assert f"| {scale_page.NEW_VERSION:.1%} |".replace("%", " %") in page


def test_hours_are_the_sum_of_what_broads_page_says_of_one_device():
    # Its column "1 device", from passes that it rounds to two digits.
    hours = broad_gpu_hours(BROAD_PAGE.read_text(encoding="utf-8"))
    assert hours == pytest.approx(3 / 60 + 5.4 + 0.4 + 40.2 + 1 / 60 + 25.9 + 0.4, rel=0.01)


def test_tables_that_name_different_work_are_refused():
    page = BROAD_PAGE.read_text(encoding="utf-8")
    with pytest.raises(ValueError, match="different work"):
        broad_gpu_hours(page.replace("| PGD, ResNet-50 | 0.0", "| PGD, ResNet-51 | 0.0"))


def test_a_made_up_benchmark_by_hand():
    million = made_up(1_000_000, 10, 2)
    # Two partitions of ten classes of 50,000 names: fifty answers of a thousand each.
    assert million.lists == 2 * 10 * 50
    assert million.names == million.rows == million.reads == 1_000_000
    # ILSVRC2012: 147,897,477,120 and 6,744,924,160 bytes for 1,281,167 and 50,000 images.
    assert million.size == pytest.approx(1e6 * (147_897_477_120 + 6_744_924_160) / 1_331_167)


def test_shards_and_requests_by_hand():
    one = Workload("one", 1, 1, 1, 1, 512 * 2**20, 1)
    assert (one.shards, one.puts) == (1, 34)  # 32 parts of 16 MiB, one request before and one behind
    more = Workload("more", 1, 1, 1, 1, 512 * 2**20 + 1, 1)
    assert more.shards == 2
    hour = Workload("an hour", 0, 0, 0, 0, 3600e9 / 2.77, 0)
    assert hour.build_hours == pytest.approx(1)
    assert "| building, minutes of a core | 60 |" in tables([hour])["time"]


def test_imagenet_lists_what_its_sources_hold():
    imagenet = workloads()[0]
    # ILSVRC2012's train and val, Food-101, Caltech-256, and Places365's train (1,803,460) and val (36,500).
    assert imagenet.names == 1_281_167 + 50_000 + 101_000 + 30_607 + 1_803_460 + 36_500
    # README: 10,000 x 4, 4,747, 10,000, 19,700, 248,758 and 483,969 rows.
    assert imagenet.rows == 5 * 10_000 + 4_747 + 19_700 + 248_758 + 483_969
