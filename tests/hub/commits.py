"""The route that commits: all of its operations, or none."""

import base64
import json
from collections.abc import Callable
from typing import Any

from tests.hub.accounts import writable
from tests.hub.answers import Answer, RefusedError, check_card_size, entry_not_found, json_answer, revision_not_found
from tests.hub.connection import Call
from tests.hub.routing import route
from tests.hub.rules import MOST_IN_GIT, card_problems
from tests.hub.store import File, Repo
from tests.hub.xet import take

Files = dict[str, File]


@route("POST /api/datasets/{repo}/commit/{rev}")
def commit(hub, call: Call, repo: str, rev: str) -> Answer:
    repository, user = writable(hub, call, repo)
    if call.flag("create_pr"):
        raise RefusedError(501, "the stand-in opens no pull requests by a commit")
    lines = [json.loads(line) for line in call.body.read().splitlines() if line.strip()]
    head = next(line["value"] for line in lines if line["key"] == "header")
    for line in lines:
        if line["value"].get("path") == "README.md" and line["key"] == "file":
            check_card_size(hub, base64.b64decode(line["value"]["content"]))
        if line["key"] == "lfsFile" and line["value"]["oid"] not in repository.objects:
            take(hub, repository, line["value"]["oid"], line["value"].get("size", 0))
    with hub.lock:
        if rev not in repository.branches:
            raise revision_not_found(rev)
        current = repository.branches[rev]
        # Words and status as quoted in huggingface/huggingface_hub#916 and its tests; others match on them.
        if not current.startswith(head.get("parentCommit", "")):
            raise RefusedError(412, "A commit has happened since. Please refresh and try again.")
        files = dict(repository.commits[current].files)
        for line in lines:
            if line["key"] != "header":
                _operation(line["key"])(repository, files, line["value"])
        made = repository.commit(
            files, branch=rev, title=head["summary"], message=head.get("description", ""), author=user.name
        )
    url = f"{hub.endpoint}/datasets/{repo}/commit/{made.id}"
    return json_answer({"success": True, "commitOid": made.id, "commitUrl": url, "hookOutput": ""})


def _operation(key: str) -> Callable[[Repo, Files, dict[str, Any]], None]:
    operations = {"file": _file, "lfsFile": _lfs_file, "deletedFile": _delete_file}
    if key not in operations:
        raise RefusedError(400, f"unknown operation {key}")
    return operations[key]


def _file(repo: Repo, files: Files, value: dict[str, Any]) -> None:
    data = base64.b64decode(value["content"])
    path = value["path"]
    if len(data) > MOST_IN_GIT:
        raise RefusedError(400, f"{path} is larger than 10 MiB and not in LFS")
    if path == "README.md" and (problems := card_problems(data)):
        raise RefusedError(400, f"README.md: {problems[0]}")
    files[path] = repo.keep(data, lfs=False)


def _lfs_file(repo: Repo, files: Files, value: dict[str, Any]) -> None:
    # A copy within the repository names the object alone, an upload its size too.
    if value["oid"] not in repo.objects or value.get("size", repo.objects[value["oid"]]) != repo.objects[value["oid"]]:
        raise RefusedError(400, f"{value['path']}: LFS holds no such object {value['oid']}")
    files[value["path"]] = repo.object(value["oid"])


def _delete_file(repo: Repo, files: Files, value: dict[str, Any]) -> None:
    if files.pop(value["path"], None) is None:
        # The client looks for the first half of this sentence.
        raise entry_not_found(f"A file with this name doesn't exist: {value['path']}")
