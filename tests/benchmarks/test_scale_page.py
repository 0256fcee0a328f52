import pytest

from benchmarks.scale_page import BROAD_PAGE, Costs, Workload, broad_gpu_hours, made_up, tables, workloads


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


def test_hours_and_memory_by_hand():
    cost = Costs(3e-6, 100, 900, 100, 140, 190, 2.5, 0.01)
    hour = Workload("an hour", 5_000_000, 0, 0, 0, 3600e9 / 2.5, 0)
    assert cost.build_hours(hour.size) == pytest.approx(1)
    assert cost.plan_mb(hour.names) == pytest.approx(500)  # half of ten million: in the middle of 100 and 900
    assert "| building, minutes of a core | 60 |" in tables([hour], cost)["time"]
    assert "| planning, seconds of a core | 15.0 |" in tables([hour], cost)["time"]


def test_imagenet_lists_what_its_sources_hold():
    imagenet = workloads()[0]
    # ILSVRC2012's train and val, Food-101, Caltech-256, and Places365's train (1,803,460) and val (36,500).
    assert imagenet.names == 1_281_167 + 50_000 + 101_000 + 30_607 + 1_803_460 + 36_500
    # README: 10,000 x 4, 4,747, 10,000, 19,700, 248,758 and 483,969 rows.
    assert imagenet.rows == 5 * 10_000 + 4_747 + 19_700 + 248_758 + 483_969
