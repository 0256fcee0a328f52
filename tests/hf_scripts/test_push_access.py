"""Who may publish what, and where: tokens, namespaces, visibility, licences."""

import pytest

from tests.hf_scripts.samples import REPO, make_release
from tests.sentences import assert_sentence


def publishes(hub):
    """Whether anything was created, sent or committed."""
    routes = {request.route for request in hub.requests}
    return bool(routes & {"create_repo", "preupload", "lfs_put", "commit", "create_tag"})


# Tokens


def test_no_token(push, hub, release, monkeypatch):
    monkeypatch.delenv("HF_TOKEN")
    error = push("release").error
    assert_sentence(error, hub.endpoint.removeprefix("http://"))
    assert hub.requests == []


def test_a_wrong_token(push, hub, release, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_wrong")
    error = push("release").error
    assert_sentence(error, "401")
    assert "hf_wrong" not in error
    assert not publishes(hub)


@pytest.mark.parametrize("token", ["hf_sécret", "hf_secret\u2019", "hf_se cret", "hf_s\x00ecret", "“hf_secret”"])
def test_a_token_that_cannot_be_sent(push, hub, release, monkeypatch, token):
    """Neither the message nor the client's own error quotes any of it."""
    monkeypatch.setattr("huggingface_hub.get_token", lambda: token)
    for flags in ([], ["--dry-run"]):
        ran = push("release", *flags)
        assert_sentence(ran.error)
        assert not any(part in line for line in [*ran.out, *ran.err] for part in ("cret", "xe9", "u2019", token))
    assert hub.requests == []


def test_a_token_that_the_hub_repeats(push, hub, release, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_wrong")
    hub.fail("whoami", status=400, body='{"error": "no account has the token hf_wrong"}')
    error = push("release").error
    assert "hf_wrong" not in error
    assert_sentence(error)


def test_a_token_that_only_reads_and_one_of_somebody_else(push, hub, release, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", hub.add_user("reader", ("org",), role="read"))
    assert "The token of reader can only read" in push("release").error
    monkeypatch.setenv("HF_TOKEN", hub.add_user("stranger", ("elsewhere",)))
    error = push("release").error
    assert_sentence(error)
    assert not publishes(hub)


def test_a_member_who_may_not_create(push, hub, release):
    """As the Hub answers a fine-grained token, or a member of an organisation without the right."""
    hub.fail("create_repo", status=403)
    error = push("release").error
    assert_sentence(error, "org/name", "403", "--repo")
    assert hub.repos == {}


def test_the_account_s_own_name_needs_no_organisation(push, hub, release):
    assert push("release", repo="publisher/name").code == 0


# Visibility


def test_private_does_not_change_a_repository_that_is_there(push, hub, release):
    hub.create(REPO)
    error = push("release", "--private").error
    assert_sentence(error, "org/name")
    assert not publishes(hub)


def test_a_repository_that_another_makes_public_meanwhile(push, hub, tmp_path):
    """Its creation succeeds, as it exists by then; what counts is how it is."""
    make_release(tmp_path / "closed", {"bench/test": range(4)}, publish="ids-only")
    hub.faults.add("race", "create_repo", callback=lambda: hub.create(REPO))
    assert "org/name is public" in push("closed", "--private").error
    assert (hub.files(REPO), hub.uploads()) == ({}, {})


# Licences


@pytest.mark.parametrize("flags", [[], ["--splits", "bench"]])
def test_images_that_may_not_be_public(push, hub, tmp_path, flags):
    make_release(tmp_path / "closed", {"bench/test": range(4)}, publish="ids-only")
    error = push("closed", *flags).error
    assert_sentence(error, "bench/test", "https://example.org/terms", "--index-only", "--private")
    assert not publishes(hub)
    assert push("closed", "--index-only", *flags).code == 0


def test_images_for_people_who_asked(push, hub, tmp_path):
    make_release(tmp_path / "gated", {"bench/test": range(4)}, publish="gated")
    assert "a private or gated repository" in push("gated").error
    hub.create(REPO)
    hub.repos[REPO].gated = "manual"
    assert push("gated").code == 0
    make_release(tmp_path / "closed", {"bench/near_ood": range(4)}, publish="ids-only")
    assert "org/name is gated, where the licence does not allow" in push("closed", tag="v1.1.0").error


def test_demo_sources_are_not_for_the_public(push, hub, tmp_path):
    make_release(tmp_path / "demo", {"bench/test": range(4)}, demo=True)
    error = push("demo").error
    assert_sentence(error, "org/name")
    assert not publishes(hub)
    assert push("demo", "--private", repo="org/private").code == 0
    assert push("demo", "--allow-demo").code == 0
