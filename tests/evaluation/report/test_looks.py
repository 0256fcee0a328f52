"""The rows that a detector takes for what they are not: which they are, and their pixels."""

import base64
import io
import shutil

import numpy as np
import pyarrow.parquet as pq
from PIL import Image

import unknown_detection as ud
from tests.evaluation.report.as_text import page_of
from tests.evaluation.samples import CONFIG, picture
from unknown_detection.evaluation.frame import join
from unknown_detection.evaluation.report.looks import SHOWN, confused_rows, look_at
from unknown_detection.evaluation.report.names import set_name


def scored(release):
    """Made-up scores, by which the last unknown rows look most known."""
    index = ud.load(release).index([CONFIG])
    scores = np.where(index["known"], np.arange(len(index)), -np.arange(len(index)))
    return dict(zip(index["id"], scores.tolist(), strict=True))


def test_the_rows_are_the_extremes_and_their_pictures_are_those_of_the_release(release):
    opened = ud.load(release)
    frame = join(opened.index([CONFIG]), scored(release))["scores"]
    unknown, known = confused_rows(frame).values()
    assert len(unknown) == len(known) == SHOWN
    judged = frame[~frame["known"] & frame["split"].isin(["near_ood", "far_ood_noise"])]
    assert unknown["score"].tolist() == sorted(judged["score"])[:SHOWN]
    assert {*known["split"]} == {"test"}
    for look, (_, row) in zip(look_at(opened, unknown), unknown.iterrows(), strict=True):
        shown = Image.open(io.BytesIO(base64.b64decode(look.source.partition(",")[2])))
        stored = Image.open(io.BytesIO(picture(f"{row['split']}/{row['id'].rpartition('/')[2]}")))
        assert np.array_equal(np.asarray(shown.resize((8, 8), Image.Resampling.NEAREST)), np.asarray(stored))
        assert f", {set_name(row['split'])}, score " in look.caption


def test_the_page_shows_them_and_says_nothing_without_pixels(release, tmp_path):
    ud.report(scored(release), release, tmp_path / "report", plots=False)
    assert "Unknown rows that look most known" in page_of(tmp_path / "report")
    assert (tmp_path / "report" / "report.html").read_text().count("data:image/png;base64") == 2 * SHOWN


def test_a_picture_that_is_another_one_is_not_shown(release, tmp_path):
    """The rows of a shard stand in the opposite order."""
    damaged = shutil.copytree(release, tmp_path / "damaged")
    shard = damaged / "data" / CONFIG / "test-00000-of-00001.parquet"
    rows = pq.read_table(shard)
    pq.write_table(rows.take([*range(len(rows))][::-1]), shard)
    ud.report(scored(damaged), damaged, tmp_path / "report", plots=False)
    page = page_of(tmp_path / "report")
    assert "no pictures of rows are shown: The image of row" in page and "is another one" in page
