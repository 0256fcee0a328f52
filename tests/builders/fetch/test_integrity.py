import hashlib

import pytest

from builders.errors import BuildError
from builders.fetch.integrity import file_problem, refuse_other
from builders.sources.obtain import OwnerFile

DATA = b"the owner's bytes"
MD5, SHA256 = hashlib.md5(DATA).hexdigest(), hashlib.sha256(DATA).hexdigest()


@pytest.mark.parametrize(
    ("file", "wrong"),
    [
        (OwnerFile("x", 17, md5=MD5, sha256=SHA256), ""),
        (OwnerFile("x", 17, md5=MD5), ""),
        (OwnerFile("x", 20, md5=MD5, rounded=True), ""),
        (OwnerFile("x", 0), ""),
        (OwnerFile("x", 18, md5=MD5), "it has 17 bytes, and the published file 18"),
        (OwnerFile("x", 17, md5=MD5[::-1]), f"its MD5 is {MD5}, and the published one {MD5[::-1]}"),
        # The stronger of two digests is compared.
        (OwnerFile("x", 17, md5=MD5, sha256=SHA256[::-1]), f"its SHA-256 is {SHA256}, and"),
    ],
)
def test_a_file_is_compared_with_what_is_published(file, wrong, tmp_path):
    path = tmp_path / "x"
    path.write_bytes(DATA)
    counted = []
    problem = file_problem(file, path, counted.append)
    assert problem.startswith(wrong)
    assert bool(problem) == bool(wrong)
    assert sum(counted) == (0 if "bytes" in wrong or not (file.md5 or file.sha256) else 17)
    if wrong:
        with pytest.raises(BuildError, match=f"{path} is not the owner's file: {wrong}"):
            refuse_other(file, path, counted.append)
