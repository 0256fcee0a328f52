"""Decisions by the class splits of the Semantic Shift Benchmark on CUB-200-2011 and FGVC-Aircraft.

Vaze et al. (2022), "Open-Set Recognition: a Good Closed-Set Classifier is All You Need?", chose them by attributes of
the birds and by the hierarchy of variant, family and maker of the aircraft. The tables have them as published
(`*_ssb_splits.json` of sgvaze/SSB, 615320be; sgvaze/osr_closed_set_all_you_need and Visual-AI/Dissect-OOD-OSR agree).

Tested by `tests/taxonomy/rules/test_ssb.py`.
"""

from taxonomy import tables
from taxonomy.decisions import Decision

KNOWN = "in_distribution"


def _decision(class_id: str, name: str, part: str, paired: str) -> Decision:
    if part == "known":
        return Decision(class_id, name, KNOWN, "ssb_known", "The split has it among its known classes.")
    nearest = f", most like the known {paired.replace(';', ',')}" if paired else ""
    evidence = f"The split has it among its {part} unknown classes{nearest}."
    return Decision(class_id, name, part, "ssb_unknown", evidence)


def cub() -> tuple[Decision, ...]:
    """Divide CUB's 200 classes: 100 in_distribution, 34 hard, 34 medium, 32 easy."""
    return tuple(
        _decision(row["class"], row["class"][4:].replace("_", " "), row["ssb"], row["paired"])
        for row in tables.read_csv_rows("cub200.csv")
    )


def aircraft() -> tuple[Decision, ...]:
    """Divide FGVC-Aircraft's 100 variants: 50 in_distribution, 13 hard, 17 medium, 20 easy."""
    return tuple(
        _decision(row["variant"], row["variant"], row["ssb"], row["paired"])
        for row in tables.read_csv_rows("fgvc_aircraft.csv")
    )
