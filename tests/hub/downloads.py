"""Routes that hand out contents: small files by the Hub itself, large ones by a redirect to another origin."""

import re
from urllib.parse import quote

from tests.hub.accounts import downloadable
from tests.hub.answers import Answer, RefusedError, entry_not_found
from tests.hub.connection import Call
from tests.hub.routing import route
from tests.hub.store import File, Repo
from tests.hub.xet import headers_of


@route(
    "GET /datasets/{repo}/resolve/{rev}/{path}",
    "HEAD /datasets/{repo}/resolve/{rev}/{path}",
    "GET /{repo}/resolve/{rev}/{path}",
    "HEAD /{repo}/resolve/{rev}/{path}",
)
def resolve(hub, call: Call, repo: str, rev: str, path: str) -> Answer:
    repository = downloadable(hub, call, repo)
    commit = repository.at(rev)
    headers = {"X-Repo-Commit": commit.id}
    file = commit.files.get(path)
    if file is None:
        raise entry_not_found(headers=headers)
    if not file.lfs:
        return _content(call, repository, file, {**headers, "ETag": f'"{file.oid}"'})
    # The CDN is another origin, as in reality: for HEAD the clients stop at this answer, whose headers describe the
    # file, and they follow it without the token.
    name = quote(path.rpartition("/")[2])
    return Answer(
        302,
        headers={
            **headers,
            **headers_of(hub, repository, file.sha256),
            "Location": f"{hub.storage}/cdn/{repo}/{file.sha256}?name={name}",
            "X-Linked-ETag": f'"{file.sha256}"',
            "X-Linked-Size": str(file.size),
        },
    )


@route("GET /cdn/{repo}/{oid}", "HEAD /cdn/{repo}/{oid}")
def cdn(hub, call: Call, repo: str, oid: str) -> Answer:
    repository = hub.repos[repo]
    return _content(call, repository, repository.object(oid), {"ETag": f'"{oid}"'})


@route("GET /parquet", "GET /info")
def dataset_viewer(hub, call: Call) -> Answer:
    """What `load_dataset` asks of the host datasets-server.* for a dataset's main branch: nothing is known of any."""
    raise RefusedError(404, "The dataset does not exist, or is not accessible", "ResponseNotFound")


def _content(call: Call, repo: Repo, file: File, headers: dict[str, str]) -> Answer:
    headers = {**headers, "Accept-Ranges": "bytes", "Content-Type": "application/octet-stream"}
    path = repo.content(file)
    asked = call.request.headers.get("range")
    if asked is None:
        return Answer(200, headers=headers, file=path, stop=file.size)
    start, stop = _range(asked, file.size)
    headers["Content-Range"] = f"bytes {start}-{stop - 1}/{file.size}"
    return Answer(206, headers=headers, file=path, start=start, stop=stop)


def _range(asked: str, size: int) -> tuple[int, int]:
    """First byte and the one after the last of a Range header (RFC 9110, 14.1.2)."""
    match = re.fullmatch(r"bytes=(\d*)-(\d*)", asked.strip())
    if match is None or not (match[1] or match[2]):
        raise RefusedError(400, f"no range: {asked}")
    if not match[1]:
        start, stop = max(0, size - int(match[2])), size
    else:
        start, stop = int(match[1]), min(int(match[2]) + 1, size) if match[2] else size
    if start >= stop:
        raise RefusedError(416, "Requested range not satisfiable", headers={"Content-Range": f"bytes */{size}"})
    return start, stop
