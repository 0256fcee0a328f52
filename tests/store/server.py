"""moto's S3 over HTTP in this process, and what tests ask of it."""

import contextlib
import functools
import itertools
from dataclasses import dataclass

import s3fs

KEY, SECRET = "AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
"""The credentials of AWS's documentation, which are nobody's."""

_numbers = itertools.count()


@dataclass(frozen=True)
class Store:
    """A running store. Tests name objects by `BUCKET/KEY`."""

    port: int

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def environment(self, url=None):
        """What a process needs to use it, as a person sets it."""
        return {
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_REGION": "us-east-1",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": url or self.url,
            "AWS_CONFIG_FILE": "none",
            "AWS_SHARED_CREDENTIALS_FILE": "none",
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    @functools.cached_property
    def client(self):
        """A client of the tests' own, which asks moto itself."""
        return s3fs.S3FileSystem(
            key=KEY, secret=SECRET, endpoint_url=self.url, use_listings_cache=False, skip_instance_cache=True
        )

    def bucket(self):
        """The name of a new bucket."""
        name = f"bucket-{next(_numbers)}"
        self.client.mkdir(name)
        return name

    def put(self, bucket, files):
        """Give objects to moto itself: by HTTP a thousand take seconds, and nothing is learned from it."""
        for key, content in files.items():
            _backend().put_object(bucket, key, content)

    def upload(self, folder):
        """Put all files below a folder into a new bucket, and return their folder's address there."""
        bucket = self.bucket()
        paths = sorted(path for path in folder.rglob("*") if path.is_file())
        self.put(bucket, {f"the copy/{path.relative_to(folder).as_posix()}": path.read_bytes() for path in paths})
        return f"s3://{bucket}/the copy"

    def files(self, folder):
        """The bytes of all objects below `BUCKET/PREFIX`, by their names from there, as moto itself has them."""
        bucket, _, prefix = f"{folder}/".partition("/")
        keys = sorted(_backend().get_bucket(bucket).keys.items())
        return {name.removeprefix(prefix): key.value for name, key in keys if name.startswith(prefix)}

    def copy(self, address):
        """Copy a folder, given by its address, into a new bucket, and return its address there."""
        bucket = self.bucket()
        self.put(bucket, {f"copy/{name}": data for name, data in self.files(address.removeprefix("s3://")).items()})
        return f"s3://{bucket}/copy"

    def uploads(self, bucket):
        """The keys of multipart uploads that are neither complete nor given up."""
        listing = self.client.call_s3("list_multipart_uploads", Bucket=bucket)
        return [upload["Key"] for upload in listing.get("Uploads", [])]


def _backend():
    from moto.s3.models import s3_backends

    return s3_backends["123456789012"]["aws"]  # the account that moto takes everybody for


@contextlib.contextmanager
def running():
    """A store on a free port, until the block ends."""
    from moto import backends
    from moto.server import ThreadedMotoServer
    from werkzeug.serving import WSGIRequestHandler

    WSGIRequestHandler.disable_nagle_algorithm = True  # as in `tests.store.proxy`
    # moto lists the folders of its package twice a request, which is half of the time that it takes for one.
    listed = tuple(backends.list_of_moto_modules())
    backends.list_of_moto_modules = lambda: listed
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        yield Store(server.get_host_and_port()[1])
    finally:
        server.stop()
