"""CRC32C of the package crc32c, without its `__init__`.

That asks for its own version, and so loads importlib.metadata, zipfile and email: a fifth of what
`dray queue list` costs. The extension module beside it is what computes.
"""

from __future__ import annotations

import importlib
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec
from types import ModuleType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable


def _extension() -> ModuleType:
    package = find_spec("crc32c")
    where = package.submodule_search_locations if package is not None else None
    spec = PathFinder.find_spec("_crc32c", where)
    if spec is None or spec.loader is None:
        # Packed in another way, or missing: the import says so.
        return importlib.import_module("crc32c")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


crc32c: Final[Callable[..., int]] = _extension().crc32c
