"""A metric of one's own: a function of a ranking, which `evaluate` and reports then show beside the others.

    unknown-detection evaluate report --scores scores.parquet --release DIR \
        --metrics examples/own_metric.py:fpr_at_90 --out build/report

In Python, `ud.evaluate(scores, release, metrics=["auroc", fpr_at_90])`.
"""

import unknown_detection as ud


@ud.metric("FPR@90%TPR", "lower")
def fpr_at_90(ranking):
    first = (ranking.known >= 0.9 * ranking.known[-1]).argmax()
    return float(ranking.unknown[first] / ranking.unknown[-1])
