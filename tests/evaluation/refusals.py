"""What every refusal has to be: one sentence, and the next step."""

import re

import pytest

from unknown_detection.evaluation.errors import EvaluationError


def refusal(call, *arguments, **options):
    """The message of a refused call, once it is one line that ends with the next step."""
    with pytest.raises(EvaluationError) as caught:
        call(*arguments, **options)
    message = str(caught.value)
    assert re.search(r"[.;] \w", message), "the next step follows"
    assert message.endswith(".")
    assert "\n" not in message
    return message
