"""Routes of pull requests: opening one, its branch `refs/pr/N`, and the merge, which is one commit on main.

Answers have the fields that huggingface_hub (2.4, `HfApi.get_repo_discussions` and those after it) reads. That a draft
cannot be merged is said in hub-docs (repositories-pull-requests-discussions.md); that a merge squashes the commits of
the branch into one, named after the request with its number, is seen in the history that storage-limits.md quotes.
"""

from dataclasses import dataclass

from tests.hub.accounts import readable, user_of, writable
from tests.hub.answers import Answer, RefusedError, entry_not_found, json_answer, repo_not_found
from tests.hub.connection import Call
from tests.hub.routing import route
from tests.hub.store import Commit, Repo

_PAGE = 10


@dataclass
class PullRequest:
    """One pull request; its branch begins at the commit that main had."""

    number: int
    title: str
    author: str
    created: str
    status: str = "draft"
    merged: str | None = None

    @property
    def branch(self) -> str:
        return f"refs/pr/{self.number}"


@route("POST /api/datasets/{repo}/discussions")
def create_discussion(hub, call: Call, repo: str) -> Answer:
    repository, user = readable(hub, call, repo), user_of(hub, call)
    if user is None:
        raise repo_not_found(anonymous=True)
    asked = call.body.json()
    if not asked["pullRequest"]:
        raise RefusedError(501, "the stand-in has no discussions but pull requests")
    with hub.lock:
        head = repository.at("main")
        made = PullRequest(len(repository.pulls) + 1, asked["title"], user.name, head.date)
        repository.pulls.append(made)
        repository.branches[made.branch] = head.id
    return json_answer({"num": made.number, "url": f"{hub.endpoint}/datasets/{repo}/discussions/{made.number}"})


@route("GET /api/datasets/{repo}/discussions")
def list_discussions(hub, call: Call, repo: str) -> Answer:
    repository = readable(hub, call, repo)
    query = {name: values[0] for name, values in call.request.query.items()}
    found = [
        pull
        for pull in reversed(repository.pulls)
        if query.get("author", pull.author) == pull.author
        and query.get("type", "all") in ("all", "pull_request")
        and query.get("status", "all") in ("all", "open" if pull.status in ("open", "draft") else "closed")
    ]
    start = _PAGE * int(query.get("p", "0"))
    listed = [_describe(repository, pull) for pull in found[start : start + _PAGE]]
    return json_answer({"count": len(found), "start": start, "discussions": listed})


@route("GET /api/datasets/{repo}/discussions/{number}")
def discussion(hub, call: Call, repo: str, number: str) -> Answer:
    repository = readable(hub, call, repo)
    pull = _pull(repository, number)
    details = {"events": [], "changes": {"base": "main", "mergeCommitId": pull.merged}, "filesWithConflicts": []}
    return json_answer({**_describe(repository, pull), **details, "diff": ""})


@route("POST /api/datasets/{repo}/discussions/{number}/status")
def change_status(hub, call: Call, repo: str, number: str) -> Answer:
    repository, user = writable(hub, call, repo)
    pull, status = _pull(repository, number), call.body.json()["status"]
    with hub.lock:
        if pull.status == "merged" or status not in ("open", "closed"):
            raise RefusedError(400, f"pull request {number} is {pull.status} and cannot become {status}")
        pull.status = status
    event = {"id": "0", "type": "status-change", "createdAt": pull.created, "author": {"name": user.name}}
    return json_answer({"newStatus": {**event, "data": {"status": status}}})


@route("POST /api/datasets/{repo}/discussions/{number}/merge")
def merge_pull_request(hub, call: Call, repo: str, number: str) -> Answer:
    repository, user = writable(hub, call, repo)
    pull = _pull(repository, number)
    with hub.lock:
        if pull.status != "open":
            raise RefusedError(400, f"pull request {number} is {pull.status} and cannot be merged")
        ours, theirs = repository.at("main"), repository.at(pull.branch)
        known = {commit.id for commit in ours.history()}
        base = next(commit for commit in theirs.history() if commit.id in known)
        made = repository.commit(
            _merged(base, ours, theirs),
            branch="main",
            title=f"{pull.title} (#{pull.number})",
            message="\n".join(
                f"- {commit.title} ({commit.id})" for commit in theirs.history() if commit.id not in known
            ),
            author=user.name,
        )
        pull.status, pull.merged = "merged", made.id
    return json_answer({})


def _merged(base: Commit, ours: Commit, theirs: Commit) -> dict:
    """The files of both sides; one that both have changed since their common commit is a conflict."""
    files = dict(ours.files)
    for path in base.files.keys() | theirs.files.keys():
        was, now = base.files.get(path), theirs.files.get(path)
        if was == now:
            continue
        if ours.files.get(path) not in (was, now):
            raise RefusedError(409, f"{path} is in conflict with the branch main")
        files.pop(path, None)
        if now is not None:
            files[path] = now
    return files


def _pull(repo: Repo, number: str) -> PullRequest:
    if not 0 < int(number) <= len(repo.pulls):
        raise entry_not_found(f"there is no discussion {number}")
    return repo.pulls[int(number) - 1]


def _describe(repo: Repo, pull: PullRequest) -> dict[str, object]:
    return {
        "num": pull.number,
        "title": pull.title,
        "status": pull.status,
        "isPullRequest": True,
        "createdAt": pull.created,
        "author": {"name": pull.author},
        "repo": {"name": repo.name, "type": "dataset"},
    }
