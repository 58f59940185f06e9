"""Start or refuse: what to do with what is found in the storage folder, as a table.

Four things are looked at before anything is touched: what the two files of each checkpoint pair are
worth together, whether QMLog is there and where it begins, and whether there are heap files. Every
combination matches exactly one row of `TABLE`; a test walks them all. A row either starts the store
or refuses with the event number of semantics 3.3 and the name of the file. Nothing is ever made,
emptied or overwritten because something could not be read (R73).
"""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple

from dray.errors import StoreCorrupt
from dray.store.disk import MESSAGE_FILE_UNREADABLE
from dray.store.kinds import is_message_file
from dray.store.log.checkpoint import SEQUENCES, TRANSACTIONS

LOG_NAME: Final = "QMLog"
SEQUENCES_LOST: Final = 2053
CHECKPOINTS_LOST: Final = 2064
LOG_LOST: Final = 2076
HALVES_APART: Final = 2078
LOG_DAMAGED: Final = 2079

BRING_IT_BACK: Final = "bring it back, or restore a backup"
LOST_EVENTS: Final = {
    **dict.fromkeys(SEQUENCES, SEQUENCES_LOST),
    **dict.fromkeys(TRANSACTIONS, CHECKPOINTS_LOST),
}
"""The event of each checkpoint file, should it be one too many."""


class Pair(Enum):
    """State of a checkpoint pair."""

    NONE = "no checkpoint was ever written"
    GONE = "both files are missing that were there"
    USABLE = "at least one is whole"
    TORN = "one is damaged, the other was never written"
    RUINED = "both are damaged, or one is and the other is missing, which no crash does"


class LogState(Enum):
    """State of QMLog."""

    ABSENT = "not there"
    BLANK = "there, without a single whole group"
    ORIGIN = "there, beginning with the store's very first group"
    LATER = "there, its first groups overwritten by later ones"


class Act(Enum):
    """The actions of recovery."""

    FRESH = "make a new store"
    REPLAY_ALL = "replay the log from its first group"
    REPLAY_AFTER = "replay the log after the newest whole checkpoint"
    REFUSE = "refuse to start"


class DecisionRow(NamedTuple):
    """One line of the decision table; the sets say which findings it covers."""

    transactions: frozenset[Pair]
    sequences: frozenset[Pair]
    logs: frozenset[LogState]
    heaps: frozenset[bool]
    act: Act
    event: int = 0
    file: str = ""
    why: str = ""

    def matches(self, finding: FoundState) -> bool:
        """Whether this row covers the finding."""
        return (
            finding.transactions in self.transactions
            and finding.sequences in self.sequences
            and finding.log in self.logs
            and finding.heap in self.heaps
        )


class FoundState(NamedTuple):
    """The state that recovery found: the two pairs, the log, and whether there are heap files."""

    transactions: Pair
    sequences: Pair
    log: LogState
    heap: bool


_ANY_PAIR: Final = frozenset(Pair)
_USABLE: Final = frozenset({Pair.USABLE})
_NONE: Final = frozenset({Pair.NONE, Pair.GONE})
_GONE: Final = frozenset({Pair.GONE})
_RUINED: Final = frozenset({Pair.RUINED})
_DAMAGED: Final = frozenset({Pair.TORN, Pair.RUINED})
_SOME: Final = _USABLE | _DAMAGED
_UNFINISHED: Final = frozenset({Pair.NONE, Pair.TORN})
_LOST: Final = _GONE | _RUINED
_ABSENT: Final = frozenset({LogState.ABSENT})
_BLANK: Final = frozenset({LogState.BLANK})
_ORIGIN: Final = frozenset({LogState.ORIGIN})
_LATER: Final = frozenset({LogState.LATER})
_ANY_HEAP: Final = frozenset({False, True})
_BOTH_TRANSACTIONS: Final = " and ".join(TRANSACTIONS)
_BOTH_SEQUENCES: Final = " and ".join(SEQUENCES)
_FROM_THE_LOG: Final = (
    "`dray storage rebuild` to have the state rebuilt from the log, which begins with the store's"
    " first group"
)
_BOTH_DAMAGED: Final = (
    f"both are damaged; restore a backup, or move both away and run {_FROM_THE_LOG}"
)
_NONE_WHOLE: Final = f"none is whole and the log begins too late; {BRING_IT_BACK}"
_BOTH_ABSENT: Final = f"both are absent and the log begins too late; {BRING_IT_BACK}"
_BOTH_GONE: Final = (
    f"both are missing; bring them back, or restore a backup, or run {_FROM_THE_LOG}"
)

NOT_A_BIRTH: Final = (
    "it is absent or blank, and manifest.json tells that a store was here before; bring it back, or"
    " restore a backup, or remove manifest.json to begin a new store"
)
"""Why a store is not made anew, were the row to say so."""


def _refuse(
    transactions: frozenset[Pair],
    sequences: frozenset[Pair],
    logs: frozenset[LogState],
    refusal: tuple[int, str, str],
    *,
    heaps: frozenset[bool] = _ANY_HEAP,
) -> DecisionRow:
    return DecisionRow(transactions, sequences, logs, heaps, Act.REFUSE, *refusal)


TABLE: Final = (
    DecisionRow(_USABLE, _USABLE, _ORIGIN | _LATER, _ANY_HEAP, Act.REPLAY_AFTER),
    # Until the first checkpoint is whole, the log alone has everything.
    DecisionRow(_UNFINISHED, _USABLE | _UNFINISHED, _ORIGIN, _ANY_HEAP, Act.REPLAY_ALL),
    DecisionRow(_USABLE, _UNFINISHED, _ORIGIN, _ANY_HEAP, Act.REPLAY_ALL),
    # It may have everything later, too; but a disk that has hit both is for people to look at.
    _refuse(_RUINED, _ANY_PAIR, _ORIGIN, (CHECKPOINTS_LOST, _BOTH_TRANSACTIONS, _BOTH_DAMAGED)),
    _refuse(_GONE, _ANY_PAIR, _ORIGIN, (CHECKPOINTS_LOST, _BOTH_TRANSACTIONS, _BOTH_GONE)),
    _refuse(
        _ANY_PAIR - _LOST,
        _RUINED,
        _ORIGIN,
        (SEQUENCES_LOST, _BOTH_SEQUENCES, _BOTH_DAMAGED),
    ),
    _refuse(_ANY_PAIR - _LOST, _GONE, _ORIGIN, (SEQUENCES_LOST, _BOTH_SEQUENCES, _BOTH_GONE)),
    # The first group is durable before anything else is made, so this is no store yet.
    DecisionRow(_NONE, _NONE, _ABSENT | _BLANK, frozenset({False}), Act.FRESH),
    _refuse(
        _NONE,
        _NONE,
        _ABSENT | _BLANK,
        (
            LOG_LOST,
            LOG_NAME,
            f"it is absent or blank, but there are message files; {BRING_IT_BACK}",
        ),
        heaps=frozenset({True}),
    ),
    _refuse(
        _SOME,
        _ANY_PAIR,
        _ABSENT,
        (LOG_LOST, LOG_NAME, f"it is absent, but there are checkpoints; {BRING_IT_BACK}"),
    ),
    _refuse(
        _NONE,
        _SOME,
        _ABSENT,
        (LOG_LOST, LOG_NAME, f"it is absent, but there are incoming sequences; {BRING_IT_BACK}"),
    ),
    _refuse(
        _USABLE,
        _USABLE,
        _BLANK,
        (LOG_LOST, LOG_NAME, f"it is blank, but there are checkpoints; {BRING_IT_BACK}"),
    ),
    _refuse(
        _DAMAGED,
        _ANY_PAIR,
        _BLANK | _LATER,
        (CHECKPOINTS_LOST, _BOTH_TRANSACTIONS, _NONE_WHOLE),
    ),
    _refuse(
        _NONE,
        _ANY_PAIR,
        _LATER,
        (CHECKPOINTS_LOST, _BOTH_TRANSACTIONS, _BOTH_ABSENT),
    ),
    _refuse(
        _NONE,
        _SOME,
        _BLANK,
        (
            CHECKPOINTS_LOST,
            _BOTH_TRANSACTIONS,
            f"both are absent and the log is blank; {BRING_IT_BACK}",
        ),
    ),
    _refuse(
        _USABLE,
        _DAMAGED,
        _BLANK | _LATER,
        (SEQUENCES_LOST, _BOTH_SEQUENCES, _NONE_WHOLE),
    ),
    _refuse(
        _USABLE,
        _NONE,
        _BLANK | _LATER,
        (SEQUENCES_LOST, _BOTH_SEQUENCES, _BOTH_ABSENT),
    ),
)


def decide(finding: FoundState, *, rebuild: bool = False) -> DecisionRow:
    """The one row that covers the finding.

    With `rebuild` a pair that is gone counts as one that was never written, as people have asked.
    """
    if rebuild:
        finding = finding._replace(
            transactions=_as_unwritten(finding.transactions),
            sequences=_as_unwritten(finding.sequences),
        )
    (row,) = (each for each in TABLE if each.matches(finding))
    return row


def _as_unwritten(pair: Pair) -> Pair:
    return Pair.NONE if pair is Pair.GONE else pair


def event_of(name: str) -> int:
    """The event of a file without which no store starts; 0 if the store gives no such name."""
    if name == LOG_NAME:
        return LOG_LOST
    return LOST_EVENTS.get(name) or MESSAGE_FILE_UNREADABLE * is_message_file(name)


def refusal(event: int, file: str, why: str) -> StoreCorrupt:
    """The error of a store that must not start."""
    return StoreCorrupt(f"event {event}: {file} cannot be used: {why}", event=event, file=file)
