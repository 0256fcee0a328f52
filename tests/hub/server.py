"""The stand-in itself: starting it, preparing repositories, scripting faults, and asking what happened."""

import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from urllib.parse import urlencode

from tests.hub import accounts, client, commits, discussions, downloads, listings, repos, routing, uploads  # noqa: F401
from tests.hub.accounts import User
from tests.hub.answers import Answer, HangUpError, RefusedError, json_answer
from tests.hub.connection import Call, Listener, Request
from tests.hub.faults import Faults, When
from tests.hub.rules import GITATTRIBUTES, MOST_CARD, upload_mode
from tests.hub.store import Commit, File, Repo


class Hub:
    """A Hub of dataset repositories on two free ports of 127.0.0.1: its own and that of its storage.

    What they hold can be read as that of model repositories, too.

    Args:
        folder: where contents lie, new or empty; a temporary one without it.
        user: the account whose token the clients get.
        orgs: the organisations it may write to.
    """

    def __init__(self, folder: Path | None = None, *, user: str = "publisher", orgs: tuple[str, ...] = ("org",)):
        self._temporary = None if folder else tempfile.TemporaryDirectory(prefix="hub-")
        self.folder = Path(self._temporary.name) if self._temporary else Path(folder)
        self.users = [User(user, orgs)]
        self.most_card = MOST_CARD
        """Bytes of a card above which it is refused."""
        self.repos: dict[str, Repo] = {}
        self.other_names: dict[str, str] = {}
        """Names that lead to a repository's present one: former ones, and those in other letters."""
        self.requests: list[Request] = []
        """Every request in the order of arrival."""
        self.received: Counter[str] = Counter()
        self.xet: dict[str, str] = {}
        """Xet's own hash of each object that has come by it, by SHA-256."""
        self.faults = Faults()
        self.lock = threading.RLock()
        self._closing = threading.Event()

    def __enter__(self) -> "Hub":
        self._listeners = [Listener(self._answer), Listener(self._answer)]
        self.endpoint, self.storage = (listener.origin for listener in self._listeners)
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self.close()
        if self._temporary:
            self._temporary.cleanup()
        crashes = [crash for listener in self._listeners for crash in listener.crashes]
        if crashes:
            raise crashes[0]
        if kind is None and (idle := self.faults.idle()):
            raise AssertionError(f"these faults were scripted and never struck: {idle}")

    def close(self) -> None:
        """End all connections and answer no more, as a Hub that has gone; what it holds can still be asked for."""
        if not self._closing.is_set():
            self._closing.set()
            for listener in self._listeners:
                listener.close()

    # Preparing

    @property
    def token(self) -> str:
        """The token of the account that the clients get."""
        return self.users[0].token

    def add_user(self, name: str, orgs: tuple[str, ...] = (), *, role: str = "write") -> str:
        """Another account; returns its token. With the role `read` it may change nothing."""
        self.users.append(User(name, orgs, role))
        return self.users[-1].token

    def environment(
        self, folder: Path, *, token: str | None = None, anonymous: bool = False, xet: bool = False
    ) -> dict[str, str]:
        """Environment of a subprocess (see `client.environment`), with this account's token, another or none."""
        return client.environment(self.endpoint, None if anonymous else token or self.token, folder, xet=xet)

    def create(self, repo: str, *, private: bool = False, author: str = "system") -> Commit:
        """Create a repository with its first commit, as the Hub does: a .gitattributes on the branch main."""
        with self.lock:
            made = Repo(repo, self.folder / repo, private=private)
            self.repos[repo] = made
            files = {".gitattributes": made.keep(GITATTRIBUTES, lfs=False)}
            return made.commit(files, branch="main", title="initial commit", message="", author=author)

    def commit(
        self,
        repo: str,
        changes: Mapping[str, bytes | None],
        *,
        branch: str = "main",
        title: str = "Commit of someone else",
        author: str = "other",
    ) -> Commit:
        """Commit on the server's side, as another publisher; None deletes a file."""
        repository = self.repos[repo]
        with self.lock:
            files = dict(repository.at(branch).files)
            attributes = repository.content(files[".gitattributes"]).read_text()
            for path, data in changes.items():
                if data is None:
                    del files[path]
                else:
                    lfs = upload_mode(path, len(data), data[:512], attributes) == "lfs"
                    files[path] = repository.keep(data, lfs=lfs)
            return repository.commit(files, branch=branch, title=title, message="", author=author)

    def tag(self, repo: str, tag: str, revision: str = "main") -> None:
        """Set or move a tag on the server's side."""
        self.repos[repo].tags[tag] = self.repos[repo].at(revision).id

    # Faults. `when` is the name of a route or a function of a `connection.Request`; `times` is None for always;
    # `skip` requests that are meant pass first.

    def fail(
        self,
        when: When,
        *,
        status: int = 503,
        headers: Mapping[str, str] | None = None,
        body: str | None = None,
        times: int | None = 1,
        skip: int = 0,
    ) -> None:
        """Answer with an error and do nothing; a body that starts with `<` is HTML as a load balancer sends it."""
        answer = _error(status, headers, body)
        self.faults.add("fail", when, times=times, skip=skip, answer=answer)

    def drop(self, when: When, *, after: int = 0, times: int | None = 1, skip: int = 0) -> None:
        """Hang up once `after` bytes of the request's body have come in, and do nothing."""
        self.faults.add("drop", when, times=times, skip=skip, after=after)

    def lose_response(
        self, when: When = "commit", *, status: int | None = None, times: int | None = 1, skip: int = 0
    ) -> None:
        """Do what is asked, then hang up without an answer, or answer with the error `status`."""
        self.faults.add("lose", when, times=times, skip=skip, answer=_error(status, None, None) if status else None)

    def race(self, callback: Callable[[], object], *, nth: int = 1) -> None:
        """Run a function just before the n-th commit is handled, so that another publisher comes first."""
        self.faults.add("race", "commit", skip=nth - 1, callback=callback)

    def slow(self, when: When, seconds: float, *, times: int | None = 1, skip: int = 0) -> None:
        """Wait before handling; the end of the stand-in ends the wait, and hangs up."""
        self.faults.add("slow", when, times=times, skip=skip, seconds=seconds)

    def cut(self, when: When, *, after: int, times: int | None = 1, skip: int = 0) -> None:
        """Hang up once `after` bytes of the answer's body are sent."""
        self.faults.add("cut", when, times=times, skip=skip, after=after)

    def corrupt(self, when: When, *, times: int | None = 1, skip: int = 0) -> None:
        """Change the first byte of the answer's body, and neither its length nor its headers."""
        self.faults.add("corrupt", when, times=times, skip=skip)

    # Asking

    def files(self, repo: str, revision: str = "main") -> dict[str, File]:
        """Every file at a revision by its path, without the .gitattributes that the Hub puts there itself."""
        files = self.repos[repo].at(revision).files
        return {path: file for path, file in files.items() if path != ".gitattributes"}

    def read(self, repo: str, path: str, revision: str = "main") -> bytes:
        """The content of a file."""
        repository = self.repos[repo]
        return repository.content(repository.at(revision).files[path]).read_bytes()

    def commits(self, repo: str, revision: str = "main") -> list[Commit]:
        """The history of a revision, newest first; the last is the Hub's own initial commit."""
        return list(self.repos[repo].at(revision).history())

    def tags(self, repo: str) -> dict[str, str]:
        """Commit id by tag."""
        return dict(self.repos[repo].tags)

    def uploads(self) -> dict[str, int]:
        """SHA-256 of every LFS object whose bytes came in whole, with how often they did."""
        return dict(self.received)

    def asked(self, route: str) -> list[Request]:
        """The requests to one route."""
        if route not in routing.names():
            raise ValueError(f"no route is called {route!r}; there are {', '.join(sorted(routing.names()))}")
        return [request for request in self.requests if request.route == route]

    # Answering

    def _answer(self, call: Call) -> Answer:
        request = call.request
        match = routing.find(request.method, request.path)
        request.route = match[0].__name__ if match else ""
        self.requests.append(request)
        if match is None:
            return json_answer({"error": f"the stand-in has no route {request.method} {request.path}"}, 501)
        if (drop := self.faults.take("drop", request)) is not None:
            if drop["after"]:
                call.body.skip(drop["after"])
            raise HangUpError
        if (slow := self.faults.take("slow", request)) is not None and self._closing.wait(slow["seconds"]):
            raise HangUpError
        if (race := self.faults.take("race", request)) is not None:
            race["callback"]()
        if (fail := self.faults.take("fail", request)) is not None:
            return fail["answer"]
        handler, names = match
        if (other := names.get("repo")) in self.other_names:
            # Former names lead to the present one: huggingface/huggingface_hub#981, and hf-hub#103 for the answer.
            path = request.path.replace(other, self.other_names[other], 1)
            return Answer(307, headers={"Location": f"{path}?{urlencode(request.query, doseq=True)}"})
        try:
            answer = handler(self, call, **names)
        except RefusedError as refused:
            answer = refused.answer
        return self._spoiled(answer, request)

    def _spoiled(self, answer: Answer, request: Request) -> Answer:
        """The answer after the faults that strike what has been done already."""
        if answer.status < 400 and (lose := self.faults.take("lose", request)) is not None:
            if lose["answer"] is None:
                raise HangUpError
            return lose["answer"]
        if (cut := self.faults.take("cut", request)) is not None:
            answer.cut = cut["after"]
        if self.faults.take("corrupt", request) is not None:
            answer.flip = True
        return answer


def _error(status: int, headers: Mapping[str, str] | None, body: str | None) -> Answer:
    if body is None:
        return json_answer({"error": "fault of the stand-in"}, status, dict(headers or {}))
    kind = "text/html" if body.startswith("<") else "application/json"
    return Answer(status, body.encode(), {"Content-Type": kind, **(headers or {})})
