"""A stand-in for the Hugging Face Hub on 127.0.0.1, for the real clients `huggingface_hub` and `datasets`.

    from tests.hub.client import in_process
    from tests.hub.server import Hub

    with Hub() as hub, in_process(hub, tmp_path) as api:            # api: a real HfApi, logged in
        hub.create("org/name")                                      # or api.create_repo(...)
        hub.fail("commit", status=503, body="<html>busy</html>")    # the next commit is refused
        ...                                                         # the code under test
        assert hub.tags("org/name") == {"v1": hub.commits("org/name")[0].id}
        rows = datasets.load_dataset("org/name", "config", split="test", revision="v1")

    subprocess.run([sys.executable, "-m", "..."], env=hub.environment(tmp_path))

| module | what |
|---|---|
| `server` | `Hub`: starting it, preparing repositories, scripting faults, asking what happened |
| `client` | pointing the real clients at it, in this process or a subprocess |
| `guard`, `loopback` | no connection leaves the machine; a test that tries fails with the host's name |
| `fixtures` | `hub`, `api` and `waits` for a conftest.py to import, beside `only_loopback` of `guard` |
| `connection`, `routing`, `answers` | HTTP/1.1 and the table of routes |
| `accounts`, `repos`, `listings`, `uploads`, `xet`, `commits`, `discussions`, `downloads` | the routes |
| `store`, `faults`, `rules` | repositories as git would name them, faults, which files are stored apart or ignored |

What is said of the real Hub here comes from the installed clients' source and from what their maintainers say in
huggingface/huggingface_hub and huggingface/datasets; nothing was recorded from the Hub itself.
"""
