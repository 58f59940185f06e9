"""The uploads whose digest is at hand in this process, those used last at the end."""

from __future__ import annotations

from collections import OrderedDict

from dray.console.v1.limits import UPLOADS_AT_HAND_MAX
from dray.console.v1.resumable import HttpUpload, UploadName


class UploadsAtHand:
    """Uploads of all callers, by caller and name. A caller finds its own only."""

    def __init__(self) -> None:
        """Begin with none."""
        self._kept: OrderedDict[tuple[str, UploadName], HttpUpload] = OrderedDict()

    def find(self, caller: str, name: UploadName) -> HttpUpload | None:
        """The upload of a caller, if it is at hand."""
        found = self._kept.get((caller, name))
        if found is not None:
            self._kept.move_to_end((caller, name))
        return found

    def keep(self, caller: str, upload: HttpUpload) -> HttpUpload:
        """Keep an upload at hand; give the one that is there already, if there is one."""
        kept = self._kept.setdefault((caller, upload.name), upload)
        if len(self._kept) > UPLOADS_AT_HAND_MAX:
            unused = (key for key, each in self._kept.items() if not each.lock.locked())
            del self._kept[next(unused)]
        return kept

    def forget(self, caller: str, name: UploadName) -> None:
        """Keep an upload no longer."""
        self._kept.pop((caller, name), None)
