"""Puts payloads in place as objects of a store that fsspec knows, such as a bucket of S3.

A store has no rename and no sync. An upload is streamed under the last name of the object, and a
store shows the object when the upload is completed, whole or not at all. The digest is checked
before that. Afterwards size and ETag are read back, on the executor and again in the driver.

A killed executor leaves an upload that nobody completes. S3 keeps its parts until somebody aborts
it: each landing does that for its own prefix when it begins.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

from dray.errors import DrayError, StoreError
from dray.model.limits import MIB
from dray.spark.landing.payload import Expected, PayloadTarget, PutPayload, file_digest

BLOCK_BYTES: Final = 16 * MIB
"""Memory of a task for the part that it uploads."""
_BLOCKS_MAX: Final = 9_000
"""S3 takes at most 10,000 parts of one object."""
_LOOKS_AT_ONCE: Final = 16
"""Objects that the driver looks at together: each look is a round trip."""
_MARKS: Final = ("ETag", "etag", "md5Hash", "generation")
"""Names of the mark that a store gives to the content of an object."""


class StorePayloads(NamedTuple):
    """Payloads as objects below `<url>/payload`."""

    url: str
    block_bytes: int = BLOCK_BYTES

    @property
    def folder(self) -> str:
        """The prefix of all of them, as a URL."""
        return f"{self.url.rstrip('/')}/payload"

    def begin(self) -> None:
        """Abort the uploads below the prefix that nobody completes any more."""
        with _told(self.folder):
            store, root = _file_system(self.folder)
            for bucket, key, upload in _unfinished(store, root):
                store.call_s3("abort_multipart_upload", Bucket=bucket, Key=key, UploadId=upload)

    def placement(self, name: str, expected: Expected) -> ObjectPlacement:
        """On an executor: one payload on its way."""
        return ObjectPlacement(self, name, expected)

    def keep_names(self) -> None:
        """A store keeps them by itself."""

    def drop(self, attempt: str) -> None:
        """One task uploads an object, so there are no pieces."""

    def check(self, put: Sequence[PutPayload]) -> None:
        """Raise `StoreError` if an object has not the size and ETag that its executor read."""
        names = [each.name for each in put]
        with ThreadPoolExecutor(_LOOKS_AT_ONCE, "dray-look") as pool:
            for each, (size, etag) in zip(put, pool.map(self.look_at, names), strict=True):
                if (size, etag) == (each.size, each.etag):
                    continue
                there = "no such object" if size is None else f"{size} bytes, ETag {etag or 'none'}"
                raise StoreError(
                    f"an executor put {self.folder}/{each.name} in place, {each.size} bytes, ETag"
                    f" {each.etag or 'none'}, and the driver finds {there}; land into a store that"
                    " the driver and all executors share. Nothing was settled"
                )

    def look_at(self, name: str) -> tuple[int | None, str]:
        """Size and ETag of an object; no size if it is not there."""
        with _told(f"{self.folder}/{name}"):
            store, at = _file_system(f"{self.folder}/{name}")
            store.invalidate_cache()
            try:
                about = store.info(at)
            except FileNotFoundError:
                return None, ""
            marks = [str(about[mark]) for mark in _MARKS if about.get(mark) is not None]
            return int(about["size"]), marks[0] if marks else ""

    def names(self) -> list[str]:
        """The names of all payloads that are there."""
        with _told(self.folder):
            store, root = _file_system(self.folder)
            store.invalidate_cache()
            return [each.rpartition("/")[2] for each in store.find(root)]

    def read_back(self, name: str, kind: str) -> tuple[int, str]:
        """Size and digest of an object, read from the store at constant memory."""
        with _told(f"{self.folder}/{name}"):
            store, at = _file_system(f"{self.folder}/{name}")
            store.invalidate_cache()
            with store.open(at, "rb", block_size=self.block_bytes) as opened:
                return opened.size, file_digest(opened, kind)


class ObjectPlacement:
    """One payload on its way into its object."""

    def __init__(self, payloads: StorePayloads, name: str, expected: Expected) -> None:
        """Take the place and what is to stand there."""
        self.etag = ""
        self._payloads = payloads
        self._name = name
        self._expected = expected

    @property
    def _url(self) -> str:
        return f"{self._payloads.folder}/{self._name}"

    def is_done(self) -> bool:
        """Whether the very payload is in its place already: it is read, as its ETag is no digest.

        An attempt that was killed behind its last step has left it there.
        """
        size, self.etag = self._payloads.look_at(self._name)
        if size != self._expected.size:
            return False
        _, digest = self._payloads.read_back(self._name, self._expected.kind)
        return digest == self._expected.digest

    def fill(self, pull: Callable[[PayloadTarget], str]) -> None:
        """Let `pull` write the bytes and give their digest; complete the upload if they are right.

        Raises `LargeMessageCorrupt` if they are not, `StoreError` for the store. After any error
        the upload is aborted.
        """
        with _told(self._url):
            store, at = _file_system(self._url)
            from fsspec.spec import AbstractBufferedFile

            store.invalidate_cache()
            if not store.async_impl:
                # Only stores without folders take a name below one that is not there.
                store.makedirs(posixpath.dirname(at), exist_ok=True)
            block = max(self._payloads.block_bytes, self._expected.size // _BLOCKS_MAX + 1)
            opened = store.open(at, "wb", block_size=block, autocommit=False)
            try:
                target = PayloadTarget(opened)
                self._expected.check(self._name, pull(target), target.size)
                opened.close()
                self.complete(opened)
            except BaseException:
                opened.discard()
                if isinstance(opened, AbstractBufferedFile):
                    # Or it uploads its rest when Python drops it, and fails at that.
                    opened.closed = True
                raise
        size, self.etag = self._payloads.look_at(self._name)
        if size != self._expected.size:
            raise StoreError(
                f"{self._url} was completed with {self._expected.size} bytes and has {size} now;"
                " let nobody else write there"
            )

    def complete(self, opened: Any) -> None:
        """Show the object under its name."""
        opened.commit()


def _unfinished(store: Any, root: str) -> Iterator[tuple[str, str, str]]:
    """Bucket, key and id of each upload below a prefix that is not completed, in S3.

    Other stores drop them by themselves after some days.
    """
    if not hasattr(store, "list_multipart_uploads"):
        return
    bucket, _, prefix = root.partition("/")
    after: dict[str, str] = {}
    while True:
        page = store.call_s3("list_multipart_uploads", Bucket=bucket, Prefix=f"{prefix}/", **after)
        for each in page.get("Uploads", ()):
            if each["Key"].startswith(f"{prefix}/"):
                yield bucket, each["Key"], each["UploadId"]
        if not page.get("IsTruncated"):
            return
        after = {
            "KeyMarker": page["NextKeyMarker"],
            "UploadIdMarker": page["NextUploadIdMarker"],
        }


def _file_system(url: str) -> tuple[Any, str]:
    # Spark starts many small processes, and those that land into a directory need none of it.
    from dray.folders.fsspec import file_system

    return file_system(url)


@contextmanager
def _told(url: str) -> Iterator[None]:
    """Let what the library of a store raises be told as `StoreError`."""
    try:
        yield
    except DrayError:
        raise
    except Exception as error:
        # The libraries of stores raise what they like.
        raise StoreError(f"the store at {url} failed: {error}; mend that and land again") from error
