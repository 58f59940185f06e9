"""Why a socket or a client's file failed, in words."""

from __future__ import annotations

import os

from dray.errors import DrayError, TargetUnwritable


def uncopied(error: BaseException) -> DrayError:
    """Say why nothing was copied into a client's file."""
    if isinstance(error, DrayError):
        return error
    if not isinstance(error, OSError):
        raise error
    reason = reason_of(error)
    return TargetUnwritable(f"the file cannot be written: {reason}", path="", reason=reason)


def reason_of(error: OSError) -> str:
    """The error in the words of the system."""
    if error.errno and error.errno > 0:
        return os.strerror(error.errno)
    return error.strerror or str(error)
