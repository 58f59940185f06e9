"""The fields of frames, facts and stored values, kept: name, order, default, number, and no change.

A frame or a fact that an older release wrote lacks the fields that came later: their defaults say
what it means. So a line of `golden/heads_and_facts.txt` never changes; a field is added at its end.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

import dray

PACKAGES = ("delivery", "large", "manager", "store", "wire")
NOT_WRITTEN = {"FilesReport", "ManagerConfig"}
GOLDEN = Path(__file__).parent / "golden" / "heads_and_facts.txt"


def load_all() -> None:
    for package in PACKAGES:
        folder = Path(dray.__file__).parent / package
        for each in pkgutil.walk_packages([str(folder)], f"dray.{package}."):
            importlib.import_module(each.name)


def below(kind: type[msgspec.Struct]) -> Iterator[type[msgspec.Struct]]:
    for each in kind.__subclasses__():
        yield each
        yield from below(each)


def described(kind: type[msgspec.Struct]) -> str:
    """All that bytes depend on, in one line."""
    fields = []
    for each in msgspec.structs.fields(kind):
        name = each.name
        if each.default is not msgspec.NODEFAULT:
            name += f"={each.default!r}"
        elif each.default_factory is not msgspec.NODEFAULT:
            name += f"={each.default_factory()!r}"
        fields.append(name)
    config = kind.__struct_config__
    number = getattr(kind, "code", None) or config.tag
    words = [kind.__name__, "" if number is None else str(number)]
    words += ["" if config.frozen else "mutable", "by position" if config.array_like else "by name"]
    return f"{' '.join(filter(None, words))}: {', '.join(fields)}".rstrip()


def lines() -> list[str]:
    load_all()
    begins = tuple(f"dray.{each}." for each in PACKAGES)
    ours = {kind for kind in below(msgspec.Struct) if kind.__module__.startswith(begins)}
    return sorted(described(kind) for kind in ours if kind.__name__ not in NOT_WRITTEN)


def test_frames_facts_and_stored_values_have_the_fields_and_defaults_that_they_always_had():
    golden = GOLDEN.read_text("utf-8").splitlines()
    assert lines() == golden


@pytest.mark.parametrize(
    "changed",
    [
        "class Kept(msgspec.Struct, array_like=True, frozen=True, tag=4): a: int; b: int = 0",
        "class Kept(msgspec.Struct, array_like=True, frozen=True, tag=3): a: int; b: int = 1",
        "class Kept(msgspec.Struct, array_like=True, frozen=True, tag=3): a: int; c: int = 0",
        "class Kept(msgspec.Struct, array_like=True, frozen=True, tag=3): b: int = 0; a: int = 0",
        "class Kept(msgspec.Struct, array_like=True, frozen=False, tag=3): a: int; b: int = 0",
        "class Kept(msgspec.Struct, array_like=False, frozen=True, tag=3): a: int; b: int = 0",
    ],
)
def test_each_change_of_a_kept_value_is_seen(changed):
    names = {"msgspec": msgspec}
    exec(changed, names)  # noqa: S102 - it stands above
    assert described(names["Kept"]) != "Kept 3 by position: a, b=0"
