from builders.executors import base
from builders.executors.base import once_per_worker


def test_the_last_thing_set_up_is_let_go_before_another_is_made(monkeypatch):
    monkeypatch.setattr(base, "_worker_values", {})
    kept_while_making = []

    def one():
        kept_while_making.append(list(base._worker_values))
        return "one"

    def two():
        kept_while_making.append(list(base._worker_values))
        return "two"

    assert [once_per_worker(make) for make in (one, one, two, two, one)] == ["one", "one", "two", "two", "one"]
    assert kept_while_making == [[], [], []]
    assert list(base._worker_values) == [one]
