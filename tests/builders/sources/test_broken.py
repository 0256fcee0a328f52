"""Images that are broken in their owner's archive: left out with a reason where they do not decode, else kept."""

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from builders.commands.summary import built_text
from builders.errors import BuildError
from builders.pipeline.shards import ShardTask
from builders.release.manifest import read_manifest
from builders.release.remarks import ImageRemarks
from builders.release.tables import read_excluded
from builders.sources.broken import RULE, known_broken
from builders.storage.byte_ranges import Reader
from hf_scripts import verify
from taxonomy import tables
from tests.builders.conftest import build_demo, complete
from tests.builders.sources.test_scene_sources import BENCHMARK
from tests.builders.trees import linked, replaced
from tests.sentences import stops

CHURCH = "c/church/outdoor/sun_bhenjvsvrtumjuri.jpg"
TRACK = "t/track/outdoor/sun_aophkoiosslinihb.jpg"
SPLIT = ("scenes/sun397",)


@pytest.fixture
def sun397(demo, tmp_path):
    """A demo of SUN397 and the two names that are broken in the archive: one cut short here, the other sound."""
    place = tmp_path / "sun397"
    linked(demo["sun397"], place)
    for image in (CHURCH, TRACK):
        path = place / "SUN397" / image
        data = sorted(path.parent.glob("sun_*.jpg"))[0].read_bytes()
        path.write_bytes(data[: len(data) // 2] if image == CHURCH else data)
    return place


def built(sun397, demo, out, **changes):
    """A release of all images, without --allow-partial: the copy is whole by its own counts."""
    benchmark = complete(BENCHMARK, {"sun397": sun397, "svhn_full": demo["svhn_full"]})
    values = {"benchmark": benchmark, "splits": SPLIT, "allow_partial": False} | changes
    return build_demo({"sun397": sun397}, out, **values)["configs"]["scenes"]["splits"]["sun397"]


def test_it_is_left_out_with_its_reason_and_nobody_is_asked_for_a_better_copy(sun397, demo, tmp_path, capsys):
    out = tmp_path / "out"
    entry = built(sun397, demo, out)
    (part,) = entry["parts"]
    assert (part["rows"], part["available"], part["excluded_by_rule"][RULE]) == (397 * 4 + 1, 397 * 4 + 2, 1)
    assert entry["shortfalls"] == []
    (line,) = [line for line in read_excluded(out / "excluded/scenes.csv") if line.rule == RULE]
    assert (line.image, line.class_id, line.images) == (CHURCH, "/c/church/outdoor", 1)
    assert "truncated" in line.evidence.lower()
    assert line.evidence.endswith(tables.broken_images()[f"sun397/{CHURCH}"])
    rows = datasets.load_dataset(str(out), "scenes", split="sun397", cache_dir=str(tmp_path / "cache"))
    assert TRACK in rows["source_id"][:]  # it decodes, so it stays
    assert CHURCH not in rows["source_id"][:]
    assert verify.main([str(out), "--workers", "1"]) == 0
    text = built_text(BENCHMARK, read_manifest(out), out, SPLIT)
    assert "scenes/sun397: 1 broken in the owner's archive and left out (excluded/scenes.csv, by the rule" in text
    capsys.readouterr()


def test_another_cut_image_still_stops_the_build(sun397, demo, tmp_path):
    other = sorted((sun397 / "SUN397/a/abbey").glob("sun_*.jpg"))[0]
    replaced(other, lambda data: data[:-40])
    with pytest.raises(BuildError, match=rf"^{other} cannot be used"):
        built(sun397, demo, tmp_path / "out")
    entry = built(sun397, demo, tmp_path / "partial", allow_partial=True)
    assert entry["parts"][0]["excluded_by_rule"] == {RULE: 1, "unreadable": 1}
    assert len(entry["shortfalls"]) == 1


def test_it_is_decoded_also_where_nothing_else_is(sun397, demo, tmp_path):
    """A file that looks whole: only decoding tells."""
    path = sun397 / "SUN397" / CHURCH
    sound = (sun397 / "SUN397" / TRACK).read_bytes()
    table = sound.index(b"\xff\xc4") + 5
    path.write_bytes(sound[:table] + b"\xff" * 16 + sound[table + 16 :])
    assert built(sun397, demo, tmp_path / "out")["parts"][0]["excluded_by_rule"][RULE] == 1


def test_a_published_row_is_compared_and_not_judged_again(tmp_path):
    """Whoever published it could read it; what they have is what a rebuild must have."""
    (tmp_path / "image").write_bytes(b"\xff\xd8 broken \xff\xd9")
    row = {"id": f"sun397/{CHURCH}", "source": "sun397", "source_id": CHURCH, "root": "s", "file": "image"}
    rows = pa.Table.from_pylist(
        [row | {"offset": 0, "size": 12, "expected_sha256": "0" * 64, "content_sha256": "", "unreadable": ""}]
    )
    assert known_broken(rows) == {0}
    with Reader() as reader, stops(BuildError):
        task = ShardTask(tmp_path, 0, 1, 12, {"s": str(tmp_path)}, None, tmp_path, None, False, False)
        list(task.groups(rows, reader, lambda *_: None, [], ImageRemarks()))


def test_the_table_names_images_of_the_source():
    names = {row.category for row in tables.sun397()}
    for image in tables.broken_images():
        source, _, source_id = image.partition("/")
        assert source == "sun397"
        assert "/" + source_id.rpartition("/")[0] in names
        assert source_id.endswith(".jpg")
    assert set(tables.broken_images()) == {f"sun397/{CHURCH}", f"sun397/{TRACK}"}


def test_the_demo_has_none_of_them(demo):
    assert not any((demo["sun397"] / "SUN397" / image).exists() for image in (CHURCH, TRACK))


def test_rows_that_are_left_out_are_in_no_index(sun397, demo, tmp_path):
    built(sun397, demo, tmp_path / "out", index_only=True)
    index = pq.read_table(tmp_path / "out/index/scenes/sun397.parquet")
    assert f"sun397/{CHURCH}" not in index["id"].to_pylist()
