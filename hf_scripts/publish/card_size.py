"""Refuses dataset cards that are too large for the Hub before anything is sent."""

from __future__ import annotations

from http import HTTPStatus

from huggingface_hub.errors import HfHubHTTPError
from huggingface_hub.utils import (  # type: ignore[attr-defined]
    build_hf_headers,
    get_session,
    hf_raise_for_status,
)

from builders.errors import BuildError
from hf_scripts.hub.repository import Repository
from hf_scripts.hub.retry import with_retries

_ADVICE = "Publish some of its configs in another repository, with --configs and --repo."

MOST_FRONT_MATTER = 40_000
MOST_CARD = 200_000
"""Bytes of the YAML, and of the whole README.md. Ours: the Hub publishes no limit. Since the client sends the whole
README.md to be validated, the Hub's may be on either.

Refused with 413: 50,000 class names, 1.3 MB of YAML (huggingface/datasets #7392), and five cards whose sizes nobody
gives (embeddings-benchmark/mteb #1892). Taken: ImageNet-1k's card, 85 KB, about half of it YAML (huggingface/datasets,
`datasets/imagenet-1k/README.md`). All three benchmarks in one release have 13 KB of YAML in a card of 55 KB.
"""


def check_card_size(text: str, repository: str) -> None:
    """Refuse a card that the Hub may not take.

    Args:
        text: the whole card.
        repository: ORG/NAME that it is for.

    Raises:
        BuildError: it is too large, with what makes it so.
    """
    for size, of, most in (
        (front_matter_bytes(text), " of front matter", MOST_FRONT_MATTER),
        (len(text.encode()), "", MOST_CARD),
    ):
        if size > most:
            raise BuildError(
                f"The card of {repository} would have {size:,} bytes{of}, more than the {most:,} that we send (the "
                f"Hub refuses large cards). {_ADVICE}"
            )


def validate_on_hub(text: str, repository: Repository) -> None:
    """Ask the Hub whether it would take a card; its warnings come with the commit.

    huggingface_hub asks too (2.4, `HfApi._validate_yaml`), but only once all contents are sent, and it reads the
    answer as JSON before it looks at the status.

    Raises:
        BuildError: it would not.
    """

    def ask() -> None:
        url = f"{repository.api.endpoint}/api/validate-yaml"
        sent = {"content": text, "repoType": "dataset"}
        try:
            hf_raise_for_status(get_session().post(url, json=sent, headers=build_hf_headers()))
        except HfHubHTTPError as error:
            if error.response.status_code != HTTPStatus.REQUEST_ENTITY_TOO_LARGE:
                raise
            raise BuildError(
                f"The Hub refuses the card of {repository.name} as too large (413): it has {len(text.encode()):,} "
                f"bytes, {front_matter_bytes(text):,} of them front matter. {_ADVICE}"
            ) from error

    with_retries(f"have the card of {repository.name} checked", ask, repository.log)


def front_matter_bytes(text: str) -> int:
    """Bytes of a card's YAML, between its first two lines of ---."""
    return len(text.split("---\n", 2)[1].encode())
