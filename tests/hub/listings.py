"""Routes that list files and folders of a commit, page by page."""

from urllib.parse import urlencode

from tests.hub.accounts import readable
from tests.hub.answers import Answer, entry_not_found, json_answer
from tests.hub.connection import Call
from tests.hub.routing import route
from tests.hub.store import Commit, pointer


def page(hub, call: Call, entries: list[dict[str, object]], size: int) -> Answer:
    """One page of a list; the address of the next stands in the header Link, as the clients follow it."""
    query = dict(call.request.query)
    start = int(query.pop("cursor", ["0"])[0])
    headers = {}
    if start + size < len(entries):
        following = urlencode({**query, "cursor": str(start + size)}, doseq=True)
        headers["Link"] = f'<{hub.endpoint}{call.request.path}?{following}>; rel="next"'
    return json_answer(entries[start : start + size], headers=headers)


@route("GET /api/datasets/{repo}/tree/{rev}", "GET /api/datasets/{repo}/tree/{rev}/{path}")
def tree(hub, call: Call, repo: str, rev: str, path: str = "") -> Answer:
    commit = readable(hub, call, repo).at(rev)
    if path not in commit.trees:
        raise entry_not_found(headers={"X-Repo-Commit": commit.id})
    prefix = f"{path}/" if path else ""
    below = [name for name in (*commit.trees, *commit.files) if name.startswith(prefix) and name not in ("", path)]
    if not call.flag("recursive"):
        below = [name for name in below if "/" not in name[len(prefix) :]]
    # The Hub lists 1,000 entries a page (HfApi.list_repo_tree).
    return page(hub, call, [_entry(commit, name) for name in sorted(below)], 1000)


@route("POST /api/datasets/{repo}/paths-info/{rev}")
def paths_info(hub, call: Call, repo: str, rev: str) -> Answer:
    commit = readable(hub, call, repo).at(rev)
    known = [path.strip("/") for path in call.body.form()["paths"]]
    return json_answer([_entry(commit, path) for path in known if path in commit.files or path in commit.trees])


def _entry(commit: Commit, path: str) -> dict[str, object]:
    file = commit.files.get(path)
    entry: dict[str, object] = {"type": "directory", "oid": commit.trees.get(path), "size": 0, "path": path}
    if file:
        entry |= {"type": "file", "oid": file.oid, "size": file.size}
        if file.lfs:
            pointed = len(pointer(file.sha256, file.size))
            entry["lfs"] = {"oid": file.sha256, "size": file.size, "pointerSize": pointed}
    return entry
