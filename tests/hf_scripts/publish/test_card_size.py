"""Large cards: refused before anything is sent, and in one sentence where the Hub itself refuses one."""

import json

import pytest

from builders.card import card
from builders.errors import BuildError
from hf_scripts.publish.remote import MOST_CARD, check_card_size, front_matter_bytes
from tests.hf_scripts.samples import REPO, SPLITS, make_release
from tests.hf_scripts.test_push import CHANGES
from tests.manifests import typed
from tests.sentences import assert_sentence

HTML = "<html><body><h1>413 Payload Too Large</h1></body></html>"
ADVICE = "Publish some of its configs in another repository, with --splits and --repo."


def sent(hub):
    """What changed anything on the Hub, or would have."""
    return {request.route for request in hub.requests} & set(CHANGES)


def test_front_matter_of_many_configs(release):
    manifest = json.loads((release / "manifest.json").read_text())
    config = manifest["configs"]["bench"]
    few = typed({**manifest, "configs": {f"bench-{number:03}": config for number in range(10)}})
    check_card_size(card.card_text(few), REPO)
    text = card.card_text(typed({**manifest, "configs": {f"bench-{number:03}": config for number in range(100)}}))
    assert len(text.encode()) < MOST_CARD
    assert front_matter_bytes(text) == text.encode().index(b"\n---\n") + 1 - len(b"---\n")
    with pytest.raises(BuildError) as refused:
        check_card_size(text, REPO)
    assert str(refused.value) == (
        f"The card of org/name would have {front_matter_bytes(text):,} bytes of front matter, more than our "
        f"limit of 40,000 (the Hub refuses large cards). {ADVICE}"
    )


@pytest.mark.parametrize("flags", [(), ("--dry-run",)])
def test_a_card_that_is_too_large_as_a_whole(push, hub, tmp_path, flags):
    withdrawn = [{"split": "bench/test", "id": f"source/test/{n}.png", "reason": "x" * 100} for n in range(2_000)]
    make_release(tmp_path / "large", SPLITS, withdrawn=withdrawn)
    assert (tmp_path / "large/README.md").stat().st_size > MOST_CARD
    error = push("large", *flags).error
    assert_sentence(error, "org/name", "200,000", ADVICE)
    assert (sent(hub), hub.asked("validate_yaml"), hub.repos) == (set(), [], {})


def test_a_card_that_the_hub_takes_for_too_large(push, hub, release):
    hub.most_card = 1_000
    error = push("release").error
    assert_sentence(error, "org/name", "413", ADVICE)
    assert (len(hub.asked("validate_yaml")), sent(hub), hub.repos) == (1, set(), {})
    hub.most_card = 100_000
    assert push("release").code == 0


def test_the_answer_need_not_be_json(push, hub, release, naps):
    """The client would take it for a fault of the network; no report quotes the body of a 413."""
    hub.fail("validate_yaml", status=413, body=HTML)
    assert push("release").error.startswith("The Hub refuses the card of org/name as too large (413): it has ")
    assert (len(hub.asked("validate_yaml")), sent(hub), naps) == (1, set(), [])
