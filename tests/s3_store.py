"""An S3 on loopback: moto's server, as any S3 server stands at an address."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from dray.folders.fsspec import file_system


@contextmanager
def s3_on_loopback(bucket: str) -> Iterator[dict[str, str]]:
    """Start it with one bucket; give the environment that leads to it, which is set meanwhile."""
    from moto.server import ThreadedMotoServer
    from s3fs import S3FileSystem

    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    environment = {
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    try:
        with pytest.MonkeyPatch.context() as patch:
            for name, value in environment.items():
                patch.setenv(name, value)
            # Or this process would ask the server that another test has stopped.
            S3FileSystem.clear_instance_cache()
            store, _ = file_system(f"s3://{bucket}")
            store.mkdir(bucket)
            yield environment
            S3FileSystem.clear_instance_cache()
    finally:
        server.stop()


def objects_at(url: str) -> dict[str, bytes]:
    """Name and content of each object below a URL."""
    store, root = file_system(url)
    store.invalidate_cache()
    return {each.removeprefix(f"{root}/"): store.cat_file(each) for each in store.find(root)}


def unfinished_uploads(bucket: str) -> list[str]:
    """The keys of the uploads in a bucket that nobody has completed."""
    store, _ = file_system(f"s3://{bucket}")
    return sorted(each["Key"] for each in store.list_multipart_uploads(bucket))
