"""Tokens as programs hold them: in a file of their own, in DRAY_TOKEN, or given by the program."""

from __future__ import annotations

import os
import stat
from ipaddress import ip_address
from pathlib import Path
from typing import Final

from dray.errors import InvalidConfiguration

TOKEN_VARIABLE: Final = "DRAY_TOKEN"  # noqa: S105 - the name of a variable, and no token
_TOKEN_BYTES_MAX: Final = 1_000
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO


def read_token(file: str | os.PathLike[str]) -> str:
    """The token in a file that only its owner can open; raises `InvalidConfiguration`."""
    path = Path(file)
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            mode = os.fstat(descriptor).st_mode
            if not stat.S_ISREG(mode) or mode & _OTHERS:
                raise InvalidConfiguration(
                    f"{path} can be opened by others, so the token in it is no secret; chmod 600"
                    " it, and revoke the token if somebody may have read it"
                )
            text = os.read(descriptor, _TOKEN_BYTES_MAX).decode("ascii").strip()
        finally:
            os.close(descriptor)
    except (OSError, ValueError) as error:
        said = getattr(error, "strerror", None) or "it holds no token"
        raise InvalidConfiguration(
            f"{path}: {said}; name the file that `dray token create` was printed to"
        ) from error
    if not text:
        raise InvalidConfiguration(f"{path} is empty; write the token into it")
    return text


def is_within_machine(host: str) -> bool:
    """Whether a host's name means this machine, so that what is said to it leaves it nowhere."""
    if host.lower() == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
