"""Has a person's own images checked before a release is written of them, and keeps in its folder what was decoded.

Tested by `tests/builders/duplicates/test_decoded_once.py` and `tests/builders/test_folder_benchmark.py`.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Iterator, Sequence

from builders.cli.build_options import BuildRequest
from builders.duplicates.checked import image_check
from builders.errors import BuildError
from builders.pipeline.state import locked
from builders.release.images import check_image
from builders.release.layout import MANIFEST
from builders.release.remarks import RemarksOfThread, collect_remarks
from builders.sources.image_folder import JPEG_ENDINGS
from builders.storage.folders import takes_requests

_MOST_THREADS = 8
"""Workers up to which the check decodes; ours. Beyond about ten, threads wait for their interpreter, by the profile of
two: a tenth of an image's time is Python's."""


@contextlib.contextmanager
def checking(
    request: BuildRequest, paths: Sequence[str], *, compared: bool
) -> Iterator[Callable[[bytes, str], object]]:
    """Yield a check for `builders.sources.image_folder.read_images` of images; the release folder is locked meanwhile.

    `compared` says whether images are kept as they are compared. A release folder that is not there is not there
    either if images are refused. In a store nothing is kept.

    A new release that compares all its images has them decoded by the check, in threads that share them out evenly,
    where shards are few and of unequal size. Many workers, and machines of a cluster, decode what they write.
    """
    if takes_requests(request.out):
        with collect_remarks(RemarksOfThread()):  # what is written tells of its remarks
            yield lambda data, _: check_image(data, decode=request.decode)
        return
    missing = [folder for folder in (request.out, *request.out.parents) if not folder.exists()]
    with locked(request.layout):
        try:
            takes_all = request.limit_per_class is None and not request.splits
            is_new = request.executor.executor == "local" and not request.layout.inside(MANIFEST).exists()
            ahead = compared and takes_all and is_new and request.executor.processes <= _MOST_THREADS
            with image_check(request.layout, decode=request.decode, compared=compared, ahead=ahead) as check:
                of_all = ahead or request.decode
                check.require_room(sum(of_all or not path.lower().endswith(JPEG_ENDINGS) for path in paths))
                yield check
        except (BuildError, OSError):
            if missing:
                shutil.rmtree(request.out)
                for folder in missing[1:]:
                    with contextlib.suppress(OSError):  # another run may have begun beside this one
                        folder.rmdir()
            raise
