"""Rules: which caller may do what, at which queue, forwarding to which host."""

from __future__ import annotations

import pytest

from dray.model.access import WHOLE, Access, AccessRule, Verb
from dray.model.callers import ANYONE, NOBODY, OWNER, Caller
from tests.cost import Costs

ADA = Caller("user:ada", ("group:ops", "group:staff"))
TOKEN = Caller("token:reports", address="10.0.0.1:4000")


def access(*rules: AccessRule, is_open: bool = False) -> Access:
    return Access(rules, is_open=is_open)


def rule(who: str, may: str, queues: str = "", hosts: str = "") -> AccessRule:
    verbs = tuple(map(Verb, may.split()))
    return AccessRule(tuple(who.split()), verbs, tuple(queues.split()), tuple(hosts.split()))


def test_the_owner_may_do_everything_and_nobody_else_anything():
    none = access()
    for verb in Verb:
        assert none.may(OWNER, verb, "orders")
        assert not any(none.may(each, verb, "orders") for each in (ADA, TOKEN, Caller(ANYONE)))
    assert not none.may_somewhere(ADA, *Verb)


@pytest.mark.parametrize(
    ("given", "had"),
    [
        ("send", "send see"),
        ("peek", "peek see"),
        ("receive", "receive peek see"),
        ("manage", "manage see"),
        ("keep", "keep see"),
        ("see", "see"),
        ("deliver", "deliver"),
    ],
)
def test_a_right_brings_those_that_it_implies_and_no_other(given, had):
    found = access(rule("user:ada", given, "orders"))
    assert {each for each in Verb if found.may(ADA, each, "orders")} == set(had.split())
    assert not any(found.may(ADA, each, "others") for each in Verb)


def test_patterns_have_stars_and_those_of_queues_do_not_tell_cases_apart():
    found = access(rule("token:*", "send", "Orders;* x[1]"))
    assert found.may(TOKEN, Verb.SEND, "ORDERS;retry")
    assert found.may(TOKEN, Verb.SEND, "x[1]")
    assert not found.may(TOKEN, Verb.SEND, "orders")
    assert not found.may(TOKEN, Verb.SEND, "x1")
    assert not found.may(ADA, Verb.SEND, "orders;retry")


def test_a_rule_for_one_account_or_token_is_none_for_another_that_differs_in_case():
    """Hosts, and so names in certificates, do not tell cases apart."""
    found = access(rule("user:ada token:reports group:ops cert:Depot.example", "send", "orders"))
    for name in ("user:ada", "token:reports", "cert:depot.example", "cert:DEPOT.example"):
        assert found.may(Caller(name), Verb.SEND, "orders"), name
    for name in ("user:Ada", "token:Reports", "user:\u017fam"):
        assert not found.may(Caller(name), Verb.SEND, "orders"), name
    assert not found.may(Caller("user:eve", ("group:OPS",)), Verb.SEND, "orders")


def test_a_rule_may_name_a_group():
    assert access(rule("group:ops", "send", "orders")).may(ADA, Verb.SEND, "orders")
    assert not access(rule("group:op", "send", "orders")).may(ADA, Verb.SEND, "orders")


def test_forwarding_is_allowed_by_host():
    found = access(rule("user:ada", "forward", hosts="depot:7340 *.example"))
    assert found.may(ADA, Verb.FORWARD, "depot:7340")
    assert not found.may(ADA, Verb.FORWARD, "depot:7341")
    assert found.may(ADA, Verb.FORWARD, "a.example:1")
    assert not found.may(ADA, Verb.FORWARD, "evil:7340")


def test_only_the_star_gives_a_right_at_the_whole_manager():
    assert access(rule("user:ada", "keep", "*")).may(ADA, Verb.KEEP, WHOLE)
    assert not access(rule("user:ada", "keep", "a* o*")).may(ADA, Verb.KEEP, WHOLE)


def test_an_open_manager_gives_each_right_that_no_rule_restricts():
    found = access(rule("user:ada", "receive", "orders"), is_open=True)
    anyone = Caller(ANYONE, address="10.0.0.1:1")
    assert not found.may(anyone, Verb.RECEIVE, "orders")
    assert not found.may(anyone, Verb.PEEK, "orders")
    assert found.may(anyone, Verb.SEND, "orders")
    assert found.may(anyone, Verb.RECEIVE, "others")
    assert found.may(TOKEN, Verb.KEEP, WHOLE)


def test_nobody_has_no_right_even_where_the_manager_is_open_and_all_are_named():
    nobody = Caller(NOBODY, address="10.0.0.1:1")
    found = access(rule("*", "send", "*"), is_open=True)
    assert not any(found.may(nobody, verb, "orders") for verb in Verb)
    assert not found.may_somewhere(nobody, *Verb)


def test_what_anyone_may_every_caller_may():
    found = access(rule("anyone", "send", "orders"))
    assert found.may(TOKEN, Verb.SEND, "orders")
    assert not found.may(TOKEN, Verb.RECEIVE, "orders")


def test_the_reason_is_the_rule_as_the_configuration_has_it():
    found = access(rule("user:ada", "send receive", "orders orders;*"))
    assert found.reason(ADA, Verb.SEE, "orders") == (
        'who = ["user:ada"], queues = ["orders", "orders;*"], may = ["send", "receive"]'
    )
    assert found.reason(ADA, Verb.MANAGE, "orders") is None


@pytest.mark.parametrize("who", [ADA, TOKEN, Caller("user:stranger"), Caller(NOBODY)])
def test_the_rules_of_others_cost_a_caller_nothing(who):
    """A page of queues asks 200 times; the rules are looked through once for each caller."""
    others = [rule(f"user:u{number}", "send", f"q{number}*") for number in range(5_000)]
    found = access(*others, rule("user:ada token:reports", "see", "orders"))
    found.may(who, Verb.SEE, "orders")
    costs = Costs(lines_max=10_000)
    costs.of("a page", lambda: [found.may(who, Verb.SEE, f"q{each}") for each in range(200)])
    costs.check()


def test_callers_without_end_take_bounded_memory(monkeypatch):
    monkeypatch.setattr("dray.model.access.CALLERS_WITH_RULES_KEPT", 3)
    found = access(rule("token:*", "see", "orders"))
    assert all(found.may(Caller(f"token:{number}"), Verb.SEE, "orders") for number in range(9))
    assert len(found._rules_of) <= 3
