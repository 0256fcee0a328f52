"""The roles of rows as the page writes them.

Tested by `tests/builders/report/test_page.py`.
"""

from __future__ import annotations

from collections.abc import Mapping

from builders.release.schema import Role

ROLE_NAMES: Mapping[Role, str] = {
    "in_distribution": "in-distribution",
    "near_ood": "near-OoD",
    "far_ood": "far-OoD",
    "external": "external",
    "novel_class": "novel class",
    "adversarial": "adversarial",
    "synthetic": "synthetic",
    "corruption": "corruption",
    "multi_label": "multi-label",
}
"""Roles as the page writes them."""
