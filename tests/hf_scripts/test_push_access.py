"""Who may publish what, and where: tokens, namespaces, visibility, licences."""

import datasets
import pytest
from datasets.exceptions import DatasetNotFoundError

from tests.hf_scripts.samples import REPO, make_release
from tests.hub.client import in_process
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
    assert_sentence(error, "org/name", "403")
    assert hub.repos == {}


def test_the_account_s_own_name_needs_no_organisation(push, hub, release):
    assert push("release", repo="publisher/name").code == 0


# Names


@pytest.mark.parametrize("name", ["org/former", "org/Name"])
def test_a_name_that_the_hub_leads_to_another(push, hub, release, name):
    """After a renaming, or in other letters: what would be published says of itself where it is."""
    assert push("release").code == 0
    hub.other_names[name] = REPO
    before = hub.commits(REPO)
    for flags in ([], ["--dry-run"]):
        assert_sentence(push("release", *flags, repo=name, tag="v1.0.1").error, name, "--repo org/name")
    assert hub.commits(REPO) == before


def test_the_password_of_a_mirror_is_not_shown(push, hub, release, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", hub.endpoint.replace("//", "//me:secret@"))
    monkeypatch.delenv("HF_TOKEN")
    error = push("release").error
    assert "secret" not in error and hub.endpoint.removeprefix("http://") in error


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


# Gates


@pytest.mark.parametrize("granted", ["auto", "manual"])
def test_a_new_repository_asks_for_access(push, hub, api, tmp_path, granted):
    """From before its first file on: somebody else can load it once the request is granted, and not before."""
    make_release(tmp_path / "gated", {"bench/test": range(4)}, publish="gated")
    when_filled = []
    hub.race(lambda: when_filled.append(hub.repos[REPO].gated))
    ran = push("gated", "--gated", granted)
    assert (ran.code, when_filled, hub.repos[REPO].gated) == (0, [granted], granted)
    assert f"it will be public, unless its owner's default is private, and ask for access ({granted})" in ran.out[0]
    assert api.dataset_info(REPO).gated == granted
    assert api.dataset_info(REPO).card_data["extra_gated_fields"]["Name"] == "text"
    reader = hub.add_user("reader")
    with in_process(hub, tmp_path / "before", token=reader), pytest.raises(DatasetNotFoundError):
        datasets.load_dataset(REPO, "bench", split="test", revision="v1.0.0")
    hub.repos[REPO].accepted.add("reader")
    with in_process(hub, tmp_path / "after", token=reader):
        assert datasets.load_dataset(REPO, "bench", split="test", revision="v1.0.0").num_rows == 4
    assert push("gated", "--gated", granted).code == 0
    other = {"auto": "manual", "manual": "auto"}[granted]
    assert_sentence(push("gated", "--gated", other).error, "org/name", f"--gated {other}")
    assert hub.repos[REPO].gated == granted


def test_a_run_that_ends_before_the_gate_is_gone_on_with(push, hub, tmp_path):
    make_release(tmp_path / "gated", {"bench/test": range(4)}, publish="gated")
    hub.fail("settings", status=403)
    assert_sentence(push("gated", "--gated", "manual").error, "org/name", "403")
    assert (hub.files(REPO), hub.uploads(), hub.repos[REPO].gated) == ({}, {}, False)
    assert push("gated", "--gated", "manual").code == 0
    assert hub.repos[REPO].gated == "manual"


def test_a_gate_does_not_change_a_repository_that_has_files(push, hub, release):
    assert push("release").code == 0
    before = len(hub.requests)
    assert_sentence(push("release", "--gated", "auto").error, "org/name", "--gated auto")
    assert not {request.route for request in hub.requests[before:]} & {"settings", "commit"}


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
