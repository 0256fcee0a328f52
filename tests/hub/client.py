"""Points the real clients at a stand-in: by environment in a subprocess, by their modules' values in this process."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.hub import loopback

ROOT = Path(__file__).parents[2]

# What a machine may have set and what would lead the clients elsewhere.
_FOREIGN = ("HF_", "HUGGINGFACE_", "HUGGING_FACE_", "TRANSFORMERS_", "PYTHONPATH")
_PROXIES = {"http_proxy", "https_proxy", "all_proxy", "no_proxy"}


def environment(endpoint: str, token: str | None, folder: Path, *, xet: bool = False) -> dict[str, str]:
    """Environment of a subprocess whose clients know no other Hub, keep all they store in a folder, and are guarded.

    Modules of this work tree can be imported. Other hosts are refused (`loopback`), and noted in the log of the
    fixture `only_loopback` where that is in use, else in `folder`.

    Args:
        endpoint: URL of the stand-in.
        token: what the clients send; None for none.
        folder: where their caches go.
        xet: transfer files by Xet, whose library is not Python; by LFS otherwise.
    """
    folder.mkdir(parents=True, exist_ok=True)
    own = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(_FOREIGN) and name.lower() not in _PROXIES
    }
    return {
        **own,
        **({"HF_TOKEN": token} if token else {}),
        "HF_ENDPOINT": endpoint,
        "HF_HOME": str(folder / "hf-home"),
        "HF_DATASETS_CACHE": str(folder / "hf-datasets"),
        "HF_HUB_DISABLE_XET": "0" if xet else "1",
        "HF_HUB_DISABLE_TELEMETRY": "1",  # else a list of coding agents is fetched with the first request
        "HF_HUB_DISABLE_UPDATE_CHECK": "1",  # asks PyPI
        "HF_UPDATE_DOWNLOAD_COUNTS": "0",  # else `load_dataset` sends a HEAD to s3.amazonaws.com
        "PYTHONPATH": os.pathsep.join((str(ROOT), str(Path(__file__).parent / "site"))),
        loopback.LOG: os.environ.get(loopback.LOG, str(folder / "foreign-hosts")),
    }


@contextlib.contextmanager
def in_process(hub, folder: Path, *, token: str | None = None, anonymous: bool = False, xet: bool = False) -> Iterator:
    """Point the clients of this process at a stand-in, with caches of their own; yields an `HfApi` that is logged in.

    An `HfApi(endpoint=...)` by itself is not enough: the clients take their caches, their switches and, in
    `load_dataset` and `hf_hub_download`, the endpoint from values that their modules read from the environment once.

    Args:
        hub: the stand-in.
        folder: where caches go.
        token: whose token is sent; that of the stand-in's own account without it.
        anonymous: send no token.
        xet: as for `environment`.
    """
    import datasets
    import huggingface_hub
    from huggingface_hub import constants, hf_api

    token = None if anonymous else token or hub.token
    variables = environment(hub.endpoint, token, folder, xet=xet)
    home, cache = folder / "hf-home", folder / "hf-datasets"
    values = {
        constants: {
            "ENDPOINT": hub.endpoint,
            "HUGGINGFACE_CO_URL_TEMPLATE": hub.endpoint + "/{repo_id}/resolve/{revision}/{filename}",
            "HF_HOME": str(home),
            "HF_HUB_CACHE": str(home / "hub"),
            "HUGGINGFACE_HUB_CACHE": str(home / "hub"),
            "HF_ASSETS_CACHE": str(home / "assets"),
            "HF_TOKEN_PATH": str(home / "token"),
            "HF_STORED_TOKENS_PATH": str(home / "stored_tokens"),
            "HF_HUB_DISABLE_XET": not xet,
            "HF_HUB_DISABLE_TELEMETRY": True,
            "HF_HUB_DISABLE_IMPLICIT_TOKEN": False,
            "HF_HUB_OFFLINE": False,
        },
        datasets.config: {
            "HF_ENDPOINT": hub.endpoint,
            "HUB_DATASETS_URL": hub.endpoint + "/datasets/{repo_id}/resolve/{revision}/{path}",
            "HF_CACHE_HOME": str(home),
            "HF_DATASETS_CACHE": cache,
            "HF_MODULES_CACHE": home / "modules",
            "DOWNLOADED_DATASETS_PATH": cache / "downloads",
            "EXTRACTED_DATASETS_PATH": cache / "downloads" / "extracted",
            "HF_UPDATE_DOWNLOAD_COUNTS": False,
            "HF_HUB_OFFLINE": False,
        },
        # Functions such as `huggingface_hub.list_repo_tree` belong to one instance that was made at import.
        hf_api.api: {"endpoint": hub.endpoint},
    }
    with pytest.MonkeyPatch.context() as patch, loopback.viewer_at_home():
        for name in os.environ:
            if name not in variables:
                patch.delenv(name)
        for name, value in variables.items():
            # The path of this process is set already, and its guard is the fixture.
            if name not in ("PYTHONPATH", loopback.LOG):
                patch.setenv(name, value)
        for module, pairs in values.items():
            for name, value in pairs.items():
                patch.setattr(module, name, value)
        _forget()
        try:
            yield huggingface_hub.HfApi(endpoint=hub.endpoint, token=token or False)
        finally:
            _forget()


@contextlib.contextmanager
def no_waiting() -> Iterator[list[float]]:
    """Let huggingface_hub retry at once; yields the list of the seconds that it would have waited."""
    waits: list[float] = []
    clock = SimpleNamespace(sleep=waits.append)
    with pytest.MonkeyPatch.context() as patch:
        # Both modules use nothing of `time` but `sleep`, and reach it by the module's name.
        patch.setattr("huggingface_hub.utils._http.time", clock)
        patch.setattr("huggingface_hub.file_download.time", clock)
        yield waits


def _forget() -> None:
    """Drop what the clients keep in memory: open connections, and file systems with listings, which outlive a test."""
    from huggingface_hub import HfFileSystem, close_session

    close_session()
    HfFileSystem.clear_instance_cache()
