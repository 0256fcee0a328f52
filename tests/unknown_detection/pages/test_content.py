from unknown_detection.pages.content import PageColumn, PageTable, anchor, display_text


def test_values_are_shown_as_people_read_them():
    assert [display_text(value) for value in (4041, 0.25, "a", None, True)] == ["4,041", "0.25", "a", "–", "True"]


def test_anchors_hold_no_character_that_an_id_may_not():
    assert anchor("cifar", "far_ood Lsun <fix>") == "cifar-far-ood-lsun-fix"


def test_neighbouring_columns_of_a_group_share_a_heading():
    columns = [
        PageColumn("m"),
        PageColumn("a", group="near"),
        PageColumn("b", group="near"),
        PageColumn("a", group="far"),
    ]
    assert PageTable("t", "T", columns, []).groups() == [("", 1), ("near", 2), ("far", 1)]
    assert PageTable("t", "T", columns[:1], []).groups() == []
