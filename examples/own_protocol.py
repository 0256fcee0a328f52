"""A protocol of one's own: all unknown rows of a config in one set, each row counting once.

    unknown-detection evaluate report --scores scores.parquet --release DIR \
        --protocol examples/own_protocol.py:POOLED --out build/report

Its tables are laid out by config, since it does not say how; `summary` says by which figure detectors are ranked.
"""

from unknown_detection.evaluation.protocols import Figure, Protocol, Shown, measure
from unknown_detection.evaluation.scoring.rows import Rows

NAME = "pooled"


def figures(rows: Rows) -> list[Figure]:
    """Compare the in-distribution rows of `test` with all near and far unknown rows."""
    unknown = rows.unknown_splits(("near_ood", "far_ood"))
    ranking = rows.known_rows("test").against(*unknown.values())
    named = {"protocol": NAME, "config": str(rows.config[0]), "setting": "pooled"}
    return measure(
        ranking, ["auroc", "fpr_at_95_tpr_known_positive"], **named, known="test", unknown=" + ".join(unknown)
    )


POOLED = Protocol(
    name=NAME,
    title="All unknowns together",
    paper="Ours",
    settings={"pooled": "Pooled"},
    judge=figures,
    summary=(Shown("", {"metric": "auroc"}), Shown("", {"metric": "fpr_.*"})),
)
