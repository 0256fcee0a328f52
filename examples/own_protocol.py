"""A protocol of one's own: all unknown rows of a config in one set, each row counting once.

    unknown-detection evaluate report --scores scores.parquet --release DIR \
        --protocol examples/own_protocol.py:POOLED --out build/report

`shows` says by which figure detectors are ranked.
"""

import unknown_detection as ud


def figures(rows):
    """Compare the in-distribution rows of `test` with all near and far unknown rows."""
    unknown = ud.protocols.unknown_splits(rows, ("near_ood", "far_ood"))
    ranking = ud.protocols.against(ud.protocols.known_rows(rows), *unknown.values())
    named = {"setting": "pooled", "known": "test", "unknown": " + ".join(unknown)}
    return ud.protocols.measure(ranking, ["auroc", "fpr_at_95_tpr_known_positive"], **named)


POOLED = ud.protocols.Protocol(
    name="pooled",
    title="All unknowns together",
    paper="Ours",
    judge=figures,
    shows=[ud.protocols.Shown("", {"metric": name}) for name in ("auroc", "fpr_.*")],
)
