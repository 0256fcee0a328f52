"""Checks a dataset card's size and validity before anything is uploaded."""

from __future__ import annotations

from http import HTTPStatus

from huggingface_hub.errors import HfHubHTTPError
from huggingface_hub.utils import (  # type: ignore[attr-defined]
    build_hf_headers,
    get_session,
    hf_raise_for_status,
)

from builders.errors import BuildError
from builders.hub.repository import Repository
from builders.hub.retry import with_retries

_ADVICE = "Publish some of its configs in another repository, with --splits and --repo."

MOST_FRONT_MATTER = 40_000
MOST_CARD = 200_000
"""Bytes of the YAML, and of the whole README.md. Ours: the Hub documents no limit. The client sends the whole
README.md for validation, so the Hub's limit may apply to either.

Known to be refused with 413: 50,000 class names, 1.3 MB of YAML (huggingface/datasets #7392), and five cards of
unknown size (embeddings-benchmark/mteb #1892). Known to be accepted: ImageNet-1k's card, 85 KB, about half of it YAML
(huggingface/datasets, `datasets/imagenet-1k/README.md`). The demos of all four benchmarks in one release have 21 KB
of YAML in a card of 116 KB.
"""


def check_card_size(text: str, repository: str) -> None:
    """Check that a card is small enough for the Hub.

    Args:
        text: the whole card.
        repository: ORG/NAME, for the message.

    Raises:
        BuildError: its front matter or the whole card is too large.
    """
    for size, of, most in (
        (front_matter_bytes(text), " of front matter", MOST_FRONT_MATTER),
        (len(text.encode()), "", MOST_CARD),
    ):
        if size > most:
            raise BuildError(
                f"The card of {repository} would have {size:,} bytes{of}, more than our limit of {most:,} (the Hub "
                f"refuses large cards). {_ADVICE}"
            )


def validate_on_hub(text: str, repository: Repository) -> None:
    """Have the Hub validate a card; its warnings come with the commit.

    huggingface_hub does so too (2.4, `HfApi._validate_yaml`), but only after uploading all contents, and it parses
    the answer as JSON before it checks the status.

    Raises:
        BuildError: the Hub refuses the card.
    """

    def ask() -> None:
        url = f"{repository.api.endpoint}/api/validate-yaml"
        payload = {"content": text, "repoType": "dataset"}
        try:
            hf_raise_for_status(get_session().post(url, json=payload, headers=build_hf_headers()))
        except HfHubHTTPError as error:
            if error.response.status_code != HTTPStatus.REQUEST_ENTITY_TOO_LARGE:
                raise
            raise BuildError(
                f"The Hub refuses the card of {repository.name} as too large (413): it has {len(text.encode()):,} "
                f"bytes, {front_matter_bytes(text):,} of them front matter. {_ADVICE}"
            ) from error

    with_retries(f"validate the card of {repository.name}", ask, repository.log)


def front_matter_bytes(text: str) -> int:
    """Return the bytes of a card's YAML, between its first two `---` lines."""
    return len(text.split("---\n", 2)[1].encode())
