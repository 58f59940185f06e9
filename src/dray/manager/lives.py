"""Which life of a manager calls: a restart has a new one, a copied data directory has two at once.

A manager that was restarted never comes back in an earlier life. So a call from a life that another
one had replaced proves that both are alive: two managers with one id (Particular's cloned machines,
KB 830639). Which is the true one cannot be known, so both are refused until only one has been
heard for a while. Refused managers keep their messages and call again.

    life            event                                         next
    current         calls                                         current
    unknown         calls                                         current, and the current one past
    past            calls while another was heard lately          doubtful: all are refused
    any, doubtful   calls, and no other was heard for a minute    current
"""

from __future__ import annotations

from dray.model.limits import TWINS_WATCHED_S

_PAST_MAX = 64


class Lives:
    """All that is known of one manager's lives. Volatile."""

    def __init__(self) -> None:
        """Begin with none heard."""
        self._current = ""
        self._heard: dict[str, float] = {}
        self.doubtful = False

    def called(self, life: str, now: float) -> bool:
        """A manager said Hello; tell whether it may be the only one."""
        replaced = life in self._heard and life != self._current
        others = [
            at for each, at in self._heard.items() if each != life and now - at < TWINS_WATCHED_S
        ]
        if replaced and others:
            self.doubtful = True
        if self.doubtful and not others:
            self.doubtful = False
            self._heard.clear()
        self._heard.pop(life, None)
        self._heard[life] = now
        if len(self._heard) > _PAST_MAX:
            del self._heard[next(iter(self._heard))]
        if not self.doubtful:
            self._current = life
        return not self.doubtful
