"""What every refusal has to be: one sentence, and the next step."""

import re

import pytest

from unknown_detection.evaluation.errors import EvaluationError


def refusal(call, *arguments, **options):
    """The message of a refused call, once it is one line that ends with the next step."""
    with pytest.raises(EvaluationError) as caught:
        call(*arguments, **options)
    message = str(caught.value)
    assert message.endswith(".")
    return _of_one_line(message)


def refused(ran):
    """The message of a refused command, of which exit code, stdout and stderr are given."""
    code, _, err, *_ = ran
    assert code == 2
    assert err.startswith("error: ")
    return _of_one_line(err.removesuffix("\n"))


def _of_one_line(message):
    assert re.search(r"[.;] \w", message), "the next step follows"
    assert "\n" not in message
    return message
