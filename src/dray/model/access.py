"""Rights: which caller may do what at which queue, by rules of the configuration.

    [[access]]
    who = ["cert:reports", "group:ops"]
    queues = ["orders", "orders;*"]
    may = ["send", "receive"]

The owner of the queue manager may do everything. Every other caller may do what a rule gives it,
and nothing else. `*` in a pattern stands for any characters. A right at the whole queue manager,
such as to make a backup, needs a rule with the pattern `*`.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from dray.model.callers import ANYONE, NOBODY, Caller
from dray.model.limits import CALLERS_WITH_RULES_KEPT


class Verb(enum.StrEnum):
    """A right that a rule may give."""

    SEE = "see"
    """The queue exists for the caller, with its numbers and settings."""
    SEND = "send"
    PEEK = "peek"
    """Read messages; they stay."""
    RECEIVE = "receive"
    """Take messages, move them from a queue, settle, reject."""
    MANAGE = "manage"
    """Create, delete, purge, pause, set quotas; with `*` also peers and the manager's quotas."""
    FORWARD = "forward"
    """Send to queues of the managers at `hosts`, or have this manager forward to them."""
    DELIVER = "deliver"
    """Be a queue manager, and bring messages of others to these queues."""
    KEEP = "keep"
    """Read journals and dead-letter queues; with `*` also make backups."""


IMPLIED: Final = {
    Verb.SEND: frozenset({Verb.SEE}),
    Verb.PEEK: frozenset({Verb.SEE}),
    Verb.RECEIVE: frozenset({Verb.SEE, Verb.PEEK}),
    Verb.MANAGE: frozenset({Verb.SEE}),
    Verb.KEEP: frozenset({Verb.SEE}),
}
"""Rights that come with another one."""
WHOLE: Final = ""
"""The name that stands for the whole queue manager; only the pattern `*` fits it."""


class AccessRule(NamedTuple):
    """One rule: these callers may do this at these queues, and forward to these hosts."""

    who: tuple[str, ...]
    may: tuple[Verb, ...]
    queues: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()

    def __str__(self) -> str:
        """The rule in one line, as the configuration has it."""
        found = [f"who = {_listed(self.who)}"]
        if self.queues:
            found.append(f"queues = {_listed(self.queues)}")
        if self.hosts:
            found.append(f"hosts = {_listed(self.hosts)}")
        return f"{', '.join(found)}, may = {_listed(self.may)}"


class _CompiledRule(NamedTuple):
    rule: AccessRule
    who: re.Pattern[str]
    queues: re.Pattern[str]
    hosts: re.Pattern[str]
    gives: frozenset[Verb]

    def names(self, caller: Caller) -> bool:
        """Whether the rule is for a caller: by name, by one of its groups, or for anyone."""
        fits = self.who.fullmatch
        names = (caller.name, *caller.groups, ANYONE)
        return any(fits(_same(each)) is not None for each in names)

    def covers(self, verb: Verb, name: str) -> bool:
        """Whether the rule gives a right at a queue, or at a host."""
        if verb not in self.gives:
            return False
        if verb is not Verb.FORWARD:
            return self.queues.fullmatch(name.casefold()) is not None
        host = name.rpartition(":")[0]
        return any(self.hosts.fullmatch(each.casefold()) is not None for each in (name, host))


class Access:
    """All rules of a queue manager. Immutable; another configuration makes another one."""

    def __init__(self, rules: Iterable[AccessRule] = (), *, is_open: bool = False) -> None:
        """With `is_open` every caller also has each right that no rule restricts."""
        self.is_open = is_open
        self.rules = tuple(rules)
        self._compiled = tuple(map(_compiled, self.rules))
        self._rules_of: dict[tuple[str, tuple[str, ...]], list[_CompiledRule]] = {}
        """The rules for each caller, as they are asked for."""

    def may(self, caller: Caller, verb: Verb, name: str) -> bool:
        """Whether a caller has a right at a queue, a HOST:PORT (to forward) or `WHOLE`."""
        if caller.owner:
            return True
        return self._rule(caller, verb, name) is not None or self._lets_all(caller, verb, name)

    def may_somewhere(self, caller: Caller, *verbs: Verb) -> bool:
        """Whether a caller has one of these rights at any queue or host at all."""
        if caller.owner or (self.is_open and caller.name != NOBODY):
            return True
        gives = (each.gives for each in self._rules_for(caller))
        return any(verb in each for each in gives for verb in verbs)

    def reason(self, caller: Caller, verb: Verb, name: str) -> str | None:
        """Why a caller has a right, in words; None if it does not have it."""
        if caller.owner:
            return "the owner of the queue manager may do everything"
        rule = self._rule(caller, verb, name)
        if rule is not None:
            return str(rule.rule)
        if self._lets_all(caller, verb, name):
            return "the queue manager is open, and no rule restricts this right"
        return None

    def _rule(self, caller: Caller, verb: Verb, name: str) -> _CompiledRule | None:
        """The first rule that gives a caller a right."""
        return next((each for each in self._rules_for(caller) if each.covers(verb, name)), None)

    def _rules_for(self, caller: Caller) -> list[_CompiledRule]:
        """The rules that are for a caller: a page of queues asks for each queue."""
        key = caller.name, caller.groups
        known = self._rules_of.get(key)
        if known is None:
            if len(self._rules_of) >= CALLERS_WITH_RULES_KEPT:
                self._rules_of.clear()
            named = caller.name != NOBODY
            known = self._rules_of[key] = [
                each for each in self._compiled if named and each.names(caller)
            ]
        return known

    def _lets_all(self, caller: Caller, verb: Verb, name: str) -> bool:
        """Whether everyone has a right, because the queue manager is open and no rule gives it."""
        if not self.is_open or caller.name == NOBODY:
            return False
        return not any(each.covers(verb, name) for each in self._compiled)


def _compiled(rule: AccessRule) -> _CompiledRule:
    gives = frozenset(rule.may).union(*(IMPLIED.get(verb, ()) for verb in rule.may))
    who = _pattern(map(_same, rule.who))
    queues, hosts = (_pattern(map(str.casefold, each)) for each in (rule.queues, rule.hosts))
    return _CompiledRule(rule, who, queues, hosts, gives)


def _same(caller: str) -> str:
    """The form under which names of callers compare.

    A name in a certificate is that of a host. `ada` and `Ada` can be two accounts or two tokens.
    """
    return caller.casefold() if caller.startswith("cert:") else caller


def _pattern(texts: Iterable[str]) -> re.Pattern[str]:
    """Any of these; `*` stands for any characters."""
    either = (".*".join(map(re.escape, each.split("*"))) for each in texts)
    return re.compile("|".join(either) or r"(?!)", re.DOTALL)


def _listed(texts: Iterable[str]) -> str:
    quoted = ", ".join(f'"{each}"' for each in texts)
    return f"[{quoted}]"
