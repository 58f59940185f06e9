"""Changes of names in a simulated folder, which a sync of that folder makes durable."""

from __future__ import annotations

from typing import Generic, NamedTuple, TypeVar

Named = TypeVar("Named")


class NameChange(NamedTuple, Generic[Named]):
    """`file` has `name` from now on, or nothing has it; `gone` is the name that it had before."""

    name: str
    file: Named | None
    gone: str = ""

    def apply(self, names: dict[str, Named]) -> None:
        """Make the change."""
        if self.gone:
            names.pop(self.gone, None)
        if self.file is not None:
            names[self.name] = self.file
        else:
            names.pop(self.name, None)

    def is_in(self, folder: str) -> bool:
        """Whether a sync of the folder makes it durable."""
        return folder in (_folder_of(self.name), _folder_of(self.gone or self.name))


def sync_names(
    unsynced: list[NameChange[Named]], folder: str, durable: dict[str, Named]
) -> list[NameChange[Named]]:
    """Make the changes of a folder durable; give those that are still not synced."""
    for change in unsynced:
        if change.is_in(folder):
            change.apply(durable)
    return [change for change in unsynced if not change.is_in(folder)]


def _folder_of(name: str) -> str:
    return name.rpartition("/")[0]
