"""The console beside a queue manager, for `dray serve --console`: `dray console` as a process."""

from __future__ import annotations

import re
import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from dray.daemon.side_process import SideProcess
from dray.errors import InvalidConfiguration

if TYPE_CHECKING:
    from dray.daemon.config import ServeOptions
    from dray.daemon.process import OwnDoor

_NEEDED: Final = ("starlette", "jinja2", "uvicorn")
_READY: Final = re.compile(r"dray console ready at (?:https?://)?([^;]+)")


class ConsoleProcess:
    """One console, until it is closed."""

    def __init__(self, options: ServeOptions, url: str, door: OwnDoor) -> None:
        """Start it; raises `AddressInUse`, and `InvalidConfiguration` without the extra."""
        del door
        missing = [each for each in _NEEDED if find_spec(each) is None]
        if missing:
            raise InvalidConfiguration(
                f"the console needs the package {missing[0]}; install dray[console]"
            )
        assert options.console is not None
        command = [sys.executable, "-m", "dray.cli", "--url", url]
        # The console trusts and presents the same at other queue managers.
        given = {"--ca": options.tls_ca, "--cert": options.tls_cert, "--key": options.tls_key}
        for name, file in given.items() if options.console_also else ():
            command += [name, file] if file is not None else []
        command += ["console", "--listen"]
        address_at = len(command)
        command += [options.console, "--quiet", "--until-input-ends"]
        for each in options.console_also:
            command += ["--also", each]
        if options.tls_cert is not None and "/" not in options.console:
            command += ["--tls-cert", options.tls_cert]
            if options.tls_key is not None:
                command += ["--tls-key", options.tls_key]
            if options.tls_client_ca is not None:
                command += ["--tls-client-ca", options.tls_client_ca]
        self._process = SideProcess("console", command, address_at)
        self.told = self._process.said.removeprefix("dray ")
        if found := _READY.match(self._process.said):
            self._process.keep_address(found[1])

    def close(self) -> None:
        """End it."""
        self._process.close()
