from unknown_detection.pages.content import Column, Table, anchor, shown


def test_values_are_shown_as_people_read_them():
    assert [shown(value) for value in (4041, 0.25, "a", None, True)] == ["4,041", "0.25", "a", "–", "True"]


def test_anchors_hold_no_character_that_an_id_may_not():
    assert anchor("cifar", "far_ood Lsun <fix>") == "cifar-far-ood-lsun-fix"


def test_neighbouring_columns_of_a_group_share_a_heading():
    columns = [Column("m"), Column("a", group="near"), Column("b", group="near"), Column("a", group="far")]
    assert Table("t", "T", columns, []).groups() == [("", 1), ("near", 2), ("far", 1)]
    assert Table("t", "T", columns[:1], []).groups() == []
