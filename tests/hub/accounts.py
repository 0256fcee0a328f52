"""Who may do what, as the Hub tells it to owners, members, strangers and people without a token."""

import secrets
from dataclasses import dataclass, field

from tests.hub.answers import Answer, RefusedError, json_answer, repo_not_found
from tests.hub.connection import Call
from tests.hub.routing import route
from tests.hub.store import Repo


@dataclass(frozen=True)
class User:
    """An account with one token, which is made up anew for each."""

    name: str
    orgs: tuple[str, ...] = ()
    role: str = "write"
    """What the token allows: `write` or `read`."""
    token: str = field(default_factory=lambda: f"hf_{secrets.token_hex(16)}", repr=False)

    def belongs_to(self, namespace: str) -> bool:
        return namespace == self.name or namespace in self.orgs


def user_of(hub, call: Call) -> User | None:
    """Whose token a request carries; None without one."""
    if not call.authorization:
        return None
    for user in hub.users:
        if secrets.compare_digest(call.authorization, f"Bearer {user.token}"):
            return user
    # With this text, and only with it, the clients do not take a 401 for a repository that does not exist.
    raise RefusedError(401, "Invalid credentials in Authorization header")


def readable(hub, call: Call, name: str) -> Repo:
    """A repository that exists as far as this user is told."""
    user = user_of(hub, call)
    repo = hub.repos.get(name)
    if repo and (not repo.private or (user and user.belongs_to(name.split("/")[0]))):
        return repo
    raise repo_not_found(anonymous=user is None)


def downloadable(hub, call: Call, name: str) -> Repo:
    """A repository whose contents this user gets: of a gated one the owner, and those who have accepted its terms."""
    repo = readable(hub, call, name)
    user = user_of(hub, call)
    if not repo.gated or (user and (user.belongs_to(name.split("/")[0]) or user.name in repo.accepted)):
        return repo
    # Statuses and texts as huggingface_hub's messages and threads about it quote them.
    words = f"Access to dataset {name} is restricted"
    if user is None:
        raise RefusedError(401, f"{words}. You must have access to it and be authenticated to access it.", "GatedRepo")
    page = f"{hub.endpoint}/datasets/{name}"
    raise RefusedError(
        403, f"{words} and you are not in the authorized list. Visit {page} to ask for access.", "GatedRepo"
    )


def writable(hub, call: Call, name: str) -> tuple[Repo, User]:
    """A repository that this user may change."""
    repo = readable(hub, call, name)
    user = user_of(hub, call)
    if user is None:
        raise repo_not_found(anonymous=True)
    _may_write(user, name.split("/")[0])
    return repo, user


@route("GET /api/whoami-v2")
def whoami(hub, call: Call) -> Answer:
    user = _signed_in(hub, call)
    return json_answer(
        {
            "type": "user",
            "id": user.name,
            "name": user.name,
            "fullname": user.name,
            "orgs": [{"type": "org", "id": org, "name": org, "roleInOrg": "admin"} for org in user.orgs],
            "auth": {"type": "access_token", "accessToken": {"displayName": "tests", "role": user.role}},
        }
    )


@route("POST /api/repos/create")
def create_repo(hub, call: Call) -> Answer:
    user = _signed_in(hub, call)
    asked = call.body.json()
    if asked.get("type") != "dataset":
        raise RefusedError(501, "the stand-in keeps dataset repositories only")
    namespace = asked.get("organization") or user.name
    name = f"{namespace}/{asked['name']}"
    _may_write(user, namespace)
    url = f"{hub.endpoint}/datasets/{name}"
    with hub.lock:
        if name in hub.repos:
            # With exist_ok the client takes the URL from this answer.
            return json_answer({"error": "You already created this dataset repo", "url": url}, 409)
        hub.create(name, private=asked.get("visibility") == "private", author=user.name)
    return json_answer({"url": url, "name": name, "id": name})


@route("GET /api/datasets/{repo}/auth-check/write")
def auth_check_write(hub, call: Call, repo: str) -> Answer:
    writable(hub, call, repo)
    return json_answer({})


def _signed_in(hub, call: Call) -> User:
    user = user_of(hub, call)
    if user is None:
        raise RefusedError(401, "Invalid username or password.")
    return user


def _may_write(user: User, namespace: str) -> None:
    if user.role != "write" or not user.belongs_to(namespace):
        raise RefusedError(403, f'You have no write access to the namespace "{namespace}"')
