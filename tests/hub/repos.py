"""Routes about a repository as a whole: what it is, its refs and tags, its history, and its card's metadata."""

import yaml

from tests.hub.accounts import readable, user_of, writable
from tests.hub.answers import Answer, RefusedError, check_card_size, json_answer
from tests.hub.connection import Call
from tests.hub.listings import page
from tests.hub.routing import route
from tests.hub.rules import card_data, card_problems
from tests.hub.store import Commit, Repo


@route(
    "GET /api/datasets/{repo}",
    "GET /api/datasets/{repo}/revision/{rev}",
    "GET /api/models/{repo}",
    "GET /api/models/{repo}/revision/{rev}",
)
def repo_info(hub, call: Call, repo: str, rev: str = "main") -> Answer:
    repository = readable(hub, call, repo)
    commit = repository.at(rev)
    everything = _describe(repository, commit)
    expand = call.request.query.get("expand")
    chosen = {"_id", "id", *expand} if expand else set(everything)
    return json_answer({key: value for key, value in everything.items() if key in chosen})


def _describe(repo: Repo, commit: Commit) -> dict[str, object]:
    return {
        "_id": repo.name,
        "id": repo.name,
        "author": repo.name.split("/")[0],
        "sha": commit.id,
        "createdAt": list(commit.history())[-1].date,
        "lastModified": repo.at("main").date,
        "private": repo.private,
        "gated": repo.gated,
        "disabled": False,
        "tags": [],
        "downloads": 0,
        "likes": 0,
        "cardData": _card(repo, commit),
        "siblings": [{"rfilename": path} for path in commit.files],
    }


def _card(repo: Repo, commit: Commit) -> object:
    file = commit.files.get("README.md")
    try:
        return card_data(repo.content(file).read_bytes()) if file else None
    except yaml.YAMLError:
        return None


@route("GET /api/datasets/{repo}/refs")
def refs(hub, call: Call, repo: str) -> Answer:
    repository = readable(hub, call, repo)

    def listed(names: dict[str, str], kind: str) -> list[dict[str, str]]:
        return [
            {"name": name, "ref": f"refs/{kind}/{name}", "targetCommit": names[name]} for name in sorted(dict(names))
        ]

    branches = {name: head for name, head in repository.branches.items() if not name.startswith("refs/pr/")}
    return json_answer(
        {"branches": listed(branches, "heads"), "tags": listed(repository.tags, "tags"), "converts": []}
    )


@route("PUT /api/datasets/{repo}/settings")
def settings(hub, call: Call, repo: str) -> Answer:
    """Who may read it: the fields that `HfApi.update_repo_settings` sends."""
    repository, _ = writable(hub, call, repo)
    asked = call.body.json()
    if asked.get("gated") not in (None, False, "auto", "manual"):
        raise RefusedError(400, '"gated" must be one of [auto, manual, false]')
    with hub.lock:
        repository.gated = asked.get("gated", repository.gated)
        repository.private = asked.get("visibility", "private" if repository.private else "public") == "private"
    return json_answer({})


@route("POST /api/datasets/{repo}/tag/{rev}")
def create_tag(hub, call: Call, repo: str, rev: str) -> Answer:
    repository, _ = writable(hub, call, repo)
    tag = call.body.json()["tag"]
    with hub.lock:
        commit = repository.at(rev)
        if tag in repository.tags:
            raise RefusedError(409, f"Tag {tag} exists already")
        repository.tags[tag] = commit.id
    return json_answer({})


@route("GET /api/datasets/{repo}/commits/{rev}")
def list_commits(hub, call: Call, repo: str, rev: str) -> Answer:
    repository = readable(hub, call, repo)
    listed = [
        {
            "id": commit.id,
            "title": commit.title,
            "message": commit.message,
            "authors": [{"user": commit.author}],
            "date": commit.date,
        }
        for commit in repository.at(rev).history()
    ]
    return page(hub, call, listed, size=50)


@route("POST /api/validate-yaml")
def validate_yaml(hub, call: Call) -> Answer:
    user_of(hub, call)
    card = call.body.json()["content"].encode()
    check_card_size(hub, card)
    errors = [{"message": problem} for problem in card_problems(card)]
    if errors:
        return json_answer({"errors": errors, "warnings": []}, 400)
    warnings = [] if card_data(card) else [{"message": "empty or missing metadata"}]
    return json_answer({"errors": [], "warnings": warnings})
