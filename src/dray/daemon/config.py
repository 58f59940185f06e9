"""Options of a queue manager: a table of what can be said, read from TOML, checked once.

`docs/reference/configuration.md` explains each. Command-line options win over the file.
"""

from __future__ import annotations

import importlib.metadata
import math
import os
import re
import socket
import tomllib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, Final, TypeVar, cast

import msgspec

from dray.delivery.keys import ManagerKey
from dray.errors import InvalidConfiguration, InvalidQueueName
from dray.manager.events import ManagerConfig, Peer
from dray.model.access import Access, AccessRule, Verb
from dray.model.arguments import shown
from dray.model.limits import (
    IDLE_TRANSACTION_S,
    LINK_WINDOW_BYTES,
    LINK_WINDOW_MESSAGES,
    LOW_WATER_BYTES,
    QUOTA_BYTES_DEFAULT,
    RECONNECT_DELAY_S,
    RESEND_SCHEDULE_S,
)
from dray.model.names import parse_manager_address
from dray.model.words import size_in_bytes
from dray.net.listening import http_address, listen_address
from dray.net.tokens import is_within_machine, read_token
from dray.store.limits import EXPRESS_BYTES, LOG_BYTES, LOG_BYTES_MIN, SECTOR_BYTES

UNLIMITED = "unlimited"
_LEVELS = ("debug", "info", "warning", "error")
_NAME_CHARACTERS_MAX = 255
_HALF_CHARACTER: Final = re.compile(r"[\ud800-\udfff]")
_UNKNOWN: Final = re.compile(r"Object contains unknown field `([^`]+)`(?: - at `\$\.([^`]+)`)?")
_WRONG_KIND: Final = re.compile(r"Expected `([^`]+)`, got `[^`]+` - at `\$\.([^`]+)`")
_WORDS: Final = {
    "str": "a text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "array": "a list",
    "object": "a table",
    "null": "nothing",
}
_CALLERS: Final = ("user:", "group:", "cert:", "token:", "anyone")
_PATHS: Final = ("data", "socket", "tls_cert", "tls_key", "tls_ca", "tls_client_ca")
_KINDS_OF_OPTIONS: Final = frozenset({int, float, bool, list, tuple, dict})

Size = int | str
_Value = TypeVar("_Value")
_Meaning = TypeVar("_Meaning")


class AccessOption(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """One `[[access]]` table: these callers may do this at these queues, and at these hosts."""

    who: tuple[str, ...]
    may: tuple[str, ...]
    queues: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()

    def rule(self) -> AccessRule:
        """The rule; raises `InvalidConfiguration` for one that could never mean anything."""
        for field in ("who", "may"):
            if not getattr(self, field):
                raise InvalidConfiguration(f"access: `{field}` names nothing")
        for each in (*self.who, *self.queues, *self.hosts):
            if not each or not each.isprintable():
                raise InvalidConfiguration(f"access: {each!r} is no pattern for names")
        for each in self.who:
            if each != "*" and not each.startswith(_CALLERS):
                raise InvalidConfiguration(
                    f"access: {each!r} is no caller; write user:NAME, group:NAME, cert:NAME,"
                    " token:NAME, anyone or *"
                )
        for each in self.may:
            if each not in set(Verb):
                raise InvalidConfiguration(
                    f"access: {each!r} is no right; choose of {', '.join(Verb)}"
                )
        verbs = tuple(map(Verb, self.may))
        if (Verb.FORWARD in verbs) != bool(self.hosts):
            raise InvalidConfiguration("access: `forward` and `hosts` belong together; write both")
        if not self.queues and set(verbs) != {Verb.FORWARD}:
            raise InvalidConfiguration(
                'access: `queues` names nothing; write queues = ["*"] for all of them'
            )
        return AccessRule(self.who, verbs, self.queues, self.hosts)


class PeerOption(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """One `[[peers]]` table: the token to show to the queue manager at an address."""

    address: str
    token_file: str

    def peer(self) -> Peer:
        """The address; raises `InvalidConfiguration` if others could read the token on its way."""
        secure = self.address.startswith("drays://")
        place = _manager(self.address.removeprefix("drays://").removeprefix("dray://"), "peers")
        if not (secure or is_within_machine(place.host)):
            raise InvalidConfiguration(
                f"peers: a token goes to {self.address!r} through TLS only; write drays://HOST:PORT"
            )
        return place._replace(secure=secure)


class ServeOptions(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """Options of a queue manager. Sizes in bytes or as text such as "8GiB", times in seconds."""

    data: str
    listen: str | None = None
    socket: str | None = None
    socket_group: str | None = None
    name: str | None = None
    quota: Size | None = QUOTA_BYTES_DEFAULT
    journal_quota: Size | None = QUOTA_BYTES_DEFAULT
    low_water: Size = LOW_WATER_BYTES
    resend_schedule_s: tuple[float, ...] = RESEND_SCHEDULE_S
    reconnect_delay_s: float = RECONNECT_DELAY_S
    window_bytes: Size = LINK_WINDOW_BYTES
    window_messages: int = LINK_WINDOW_MESSAGES
    routes: dict[str, str] = {}
    addresses: tuple[str, ...] = ()
    tls_cert: str | None = None
    tls_key: str | None = None
    tls_ca: str | None = None
    tls_client_ca: str | None = None
    idle_transaction_s: float = IDLE_TRANSACTION_S
    create_status_queue: bool = True
    log_bytes: Size = LOG_BYTES
    express_memory: Size = EXPRESS_BYTES
    log_level: str = "warning"
    audit: bool = True
    open: bool = False
    http: str | None = None
    console: str | None = None
    console_also: tuple[str, ...] = ()
    access: tuple[AccessOption, ...] = ()
    peers: tuple[PeerOption, ...] = ()

    def __post_init__(self) -> None:
        """Refuse what has the right type and makes no sense; raises `InvalidConfiguration`."""
        for field in _PATHS:
            if "\0" in (getattr(self, field) or ""):
                raise InvalidConfiguration(f"{field}: a path has no zero bytes; choose another")
        for field in ("quota", "journal_quota"):
            _limit(field, getattr(self, field))
        if _size("log_bytes", self.log_bytes) < LOG_BYTES_MIN:
            raise InvalidConfiguration(f"log_bytes must be at least {LOG_BYTES_MIN}")
        _size("express_memory", self.express_memory)
        _size("low_water", self.low_water)
        if not self.resend_schedule_s or not all(map(_positive, self.resend_schedule_s)):
            raise InvalidConfiguration("resend_schedule_s must be one or more times above zero")
        if not _positive(self.idle_transaction_s):
            raise InvalidConfiguration("idle_transaction_s must be above zero")
        _routes(self.routes)
        self._check_tls()
        self.access_rules()
        self._check_peers()
        if not _positive(self.reconnect_delay_s):
            raise InvalidConfiguration("reconnect_delay_s must be above zero")
        if self.window_messages < 1 or not _size("window_bytes", self.window_bytes):
            raise InvalidConfiguration("window_messages and window_bytes must be above zero")
        if self.name is not None and not (
            self.name.isprintable() and 0 < len(self.name) <= _NAME_CHARACTERS_MAX
        ):
            raise InvalidConfiguration(
                f"name must be 1 to {_NAME_CHARACTERS_MAX} printable characters"
            )
        if self.log_level not in _LEVELS:
            raise InvalidConfiguration(f"log_level must be one of {', '.join(_LEVELS)}")
        self._check_addresses()
        if self.socket_group is not None and self.socket is None:
            raise InvalidConfiguration(
                "socket_group needs `socket`: only the owner can reach a socket in the data"
                " directory; name a path that the group can reach"
            )

    def _check_addresses(self) -> None:
        readers = {"listen": listen_address, "http": http_address, "console": http_address}
        for option, read in readers.items():
            address = getattr(self, option)
            if address is not None:
                _named(option, read, address)
        if self.console is None and self.console_also:
            raise InvalidConfiguration(
                "console_also names queue managers that a console asks; set `console`, too"
            )

    def _check_peers(self) -> None:
        for option in self.peers:
            option.peer()
        for each in self.addresses:
            _manager(each, "addresses")

    def _check_tls(self) -> None:
        if self.tls_key is not None and self.tls_cert is None:
            raise InvalidConfiguration(
                "tls_key needs tls_cert; name the certificate of the key, too"
            )
        if self.tls_client_ca is not None and self.tls_cert is None:
            raise InvalidConfiguration(
                "tls_client_ca needs tls_cert; name a certificate for the listener, too"
            )

    def access_rules(self) -> Access:
        """The rules of access."""
        return Access([each.rule() for each in self.access], is_open=self.open)

    def peer_tokens(self) -> dict[Peer, str]:
        """The tokens to show, read from their files; raises `InvalidConfiguration`."""
        return {each.peer(): _named("peers", read_token, each.token_file) for each in self.peers}

    def accepting(self, managers: tuple[str, ...]) -> ServeOptions:
        """These options, and a rule by which these callers may deliver to every queue."""
        if not managers:
            return self
        rule = AccessOption(who=managers, may=(Verb.DELIVER,), queues=("*",))
        return msgspec.structs.replace(self, access=(*self.access, rule))

    @property
    def log_size(self) -> int:
        """Bytes of QMLog, in whole sectors."""
        return -(-_size("log_bytes", self.log_bytes) // SECTOR_BYTES) * SECTOR_BYTES

    @property
    def express_bytes(self) -> int:
        """Bytes of express messages that stay in memory."""
        return _size("express_memory", self.express_memory)

    def check_disk(self, size: int) -> None:
        """Refuse a low-water mark that a disk of `size` bytes never reaches."""
        low_water = _size("low_water", self.low_water)
        if low_water >= size:
            raise InvalidConfiguration(
                f"low_water: a disk of {size} bytes can never have {low_water} bytes free, so"
                " every message would be refused; choose a smaller value"
            )

    def manager_config(self, key: bytes, incarnation: int) -> ManagerConfig:
        """The configuration of the manager; `key` is for a new data directory.

        `incarnation` is random, too: it tells this start from one of a copy of the data directory.
        """
        return ManagerConfig(
            manager_id=ManagerKey(key).id,
            key=key,
            incarnation=incarnation,
            name=self.name or socket.gethostname(),
            version=_version(),
            pid=os.getpid(),
            quota=_limit("quota", self.quota),
            journal_quota=_limit("journal_quota", self.journal_quota),
            low_water_bytes=_size("low_water", self.low_water),
            resend_schedule_s=self.resend_schedule_s,
            reconnect_delay_s=self.reconnect_delay_s,
            window_bytes=_size("window_bytes", self.window_bytes),
            window_messages=self.window_messages,
            routes=_routes(self.routes),
            idle_transaction_s=self.idle_transaction_s,
            create_status_queue=self.create_status_queue,
            access=self.access_rules(),
            peer_tokens=self.peer_tokens(),
        )


@cache
def _version() -> str:
    """The version of this package; reading its metadata takes 5 ms."""
    return importlib.metadata.version("dray")


def read_options(file: str | os.PathLike[str] | None = None, **given: object) -> ServeOptions:
    """Options from a TOML `file`, overridden by those `given` that are not None.

    Raises `InvalidConfiguration`, which names the file and the option.
    """
    values: dict[str, Any] = {} if file is None else _values_in(Path(file))
    values |= {name: _plain(name, value) for name, value in given.items() if value is not None}
    if "data" not in values:
        where = "not set" if file is None else f"set neither in {file} nor on the command line"
        raise InvalidConfiguration(
            f"the data directory is {where}; give --data DIR, or write"
            ' data = "DIR" in the file of --config'
        )
    return _converted(values, file)


def read_file(file: str | os.PathLike[str]) -> ServeOptions:
    """Options of a TOML file alone. `data` is "" where it is left to the command line.

    Raises `InvalidConfiguration`, which names the file and the option.
    """
    return _converted({"data": ""} | _values_in(Path(file)), file)


def _converted(values: dict[str, Any], file: str | os.PathLike[str] | None) -> ServeOptions:
    where = f"{file}: " if file is not None else ""
    try:
        return msgspec.convert(values, ServeOptions, strict=False)
    except InvalidConfiguration as error:
        raise InvalidConfiguration(f"{where}{error}") from error
    except msgspec.ValidationError as error:
        raise InvalidConfiguration(f"{where}{_misfit(error, values)}") from error


def check_named(data: str) -> None:
    """Refuse "" as a data directory: an unset variable must not put a store wherever we stand."""
    if not data:
        raise InvalidConfiguration("the data directory has no name; give a path, such as ./data")


def _values_in(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidConfiguration(f"cannot read {file}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidConfiguration(f"{file} is not a TOML file: {error}") from error
    except RecursionError as error:
        raise InvalidConfiguration(
            f"{file} is not a file of options: its values are nested too deeply"
        ) from error


def _plain(name: str, value: object) -> object:
    """A value as a file of options could have it; raises `InvalidConfiguration` for another."""
    kind = type(value)
    if issubclass(kind, Path):
        value, kind = str(value), str
    if issubclass(kind, str):
        text = str.__str__(cast("str", value))
        if text.isascii() or not _HALF_CHARACTER.search(text):
            return text
    elif kind in _KINDS_OF_OPTIONS:
        return value
    raise InvalidConfiguration(f"{shown(name)} cannot be {shown(value)}")


def _misfit(error: msgspec.ValidationError, values: dict[str, Any]) -> str:
    """Name the option that is none, or whose value has a wrong kind, and what it takes."""
    unknown = _UNKNOWN.search(str(error))
    if unknown is not None:
        where = f" in {unknown[2]}" if unknown[2] else ""
        return f"there is no option {unknown[1]!r}{where}"
    found = _WRONG_KIND.search(str(error))
    if found is None:
        return str(error)
    option = found[2]
    words = " or ".join(_WORDS.get(each, each) for each in found[1].split(" | "))
    value = values.get(re.split(r"[.\[]", option)[0])
    return f"{option} takes {words}, not {shown(value)}"


def _routes(given: dict[str, str]) -> dict[Peer, Peer]:
    routes = {_manager(goal): _manager(via) for goal, via in given.items()}
    for goal, via in routes.items():
        if goal == via:
            raise InvalidConfiguration(
                f"routes: {goal.host}:{goal.port} is routed to itself; name another queue manager"
            )
    return routes


def _manager(text: str, option: str = "routes") -> Peer:
    try:
        return Peer(*parse_manager_address(text))
    except InvalidQueueName as error:
        raise InvalidConfiguration(f"{option}: {text!r} is not HOST:PORT") from error


def _limit(field: str, value: Size | None) -> int | None:
    return None if value is None or value == UNLIMITED else _size(field, value)


def _size(field: str, value: Size) -> int:
    return _named(field, size_in_bytes, value)


def _named(option: str, read: Callable[[_Value], _Meaning], value: _Value) -> _Meaning:
    """Read the value of an option; its errors begin with the name of the option."""
    try:
        return read(value)
    except InvalidConfiguration as error:
        raise InvalidConfiguration(f"{option}: {error}") from error


def _positive(value: float) -> bool:
    return math.isfinite(value) and value > 0
