"""Tokens in the core: who shows one, and what a revoked or expired one is worth."""

from __future__ import annotations

import pytest

from dray.errors import AccessDenied, Misuse, QueueNotFound
from dray.manager.events import Answer, CallerProven, CloseSession
from dray.model.callers import Caller
from dray.model.message import Message
from dray.model.tokens import digest_of_token
from dray.wire import message_frames, queue_frames, token_frames
from tests.unit.manager.rights.test_table import ADA, allowing, driver_with, refused

TOKEN = "a token"  # noqa: S105 - one of the test
HERE = Caller("nobody", address="127.0.0.1:4000", is_private=True)
FAR = Caller("nobody", address="10.0.0.2:4000")


@pytest.fixture
def driver(tmp_path):
    return driver_with(tmp_path, allowing("token:till", "send see", "orders"))


def create(driver, name="till", token=TOKEN, lasts_us=0):
    driver.session().call(token_frames.CreateToken(name, digest_of_token(token), lasts_us))


def test_the_holder_of_a_token_is_its_caller(driver):
    create(driver)
    till = driver.session(HERE, token=TOKEN)
    assert till.open("orders")
    assert isinstance(refused(till, token_frames.ListTokens()), AccessDenied)


def test_the_shell_is_told_who_the_caller_is(driver):
    create(driver)
    till = driver.session(HERE, token=TOKEN)
    proven = [each for each in driver.effects if isinstance(each, CallerProven)]
    assert proven == [CallerProven(till.number, HERE._replace(name="token:till"))]


def test_a_token_takes_ownership_away(driver):
    create(driver)
    owner = Caller("user:me", ("group:me",), "process 1", owner=True, is_private=True)
    till = driver.session(owner, token=TOKEN)
    assert isinstance(refused(till, queue_frames.ListPeers()), AccessDenied)


def test_the_owner_acts_for_the_holder_of_a_certificate_with_that_ones_rights_alone(tmp_path):
    driver = driver_with(tmp_path, allowing("cert:ada", "send see", "orders"))
    owner = Caller("user:me", ("group:me",), "process 1", owner=True, is_private=True)
    ada = driver.session(owner, caller="cert:ada")
    proven = [each for each in driver.effects if isinstance(each, CallerProven)]
    assert proven == [CallerProven(ada.number, Caller("cert:ada", (), "process 1", False, True))]
    assert ada.open("orders")
    assert isinstance(refused(ada, queue_frames.OpenQueue("secrets")), QueueNotFound)
    assert isinstance(refused(ada, queue_frames.ListPeers()), AccessDenied)
    with pytest.raises(AccessDenied, match="cert:bob may not do anything here"):
        driver.session(owner, caller="cert:bob")


def test_nobody_but_the_owner_acts_for_another_caller(tmp_path):
    driver = driver_with(tmp_path, allowing("cert:ada", "send", "orders"), allowing("*", "manage"))
    create(driver)
    for who, token in ((HERE, TOKEN), (ADA, ""), (Caller("cert:bob", is_private=True), "")):
        with pytest.raises(AccessDenied, match="only the account that runs the queue manager"):
            driver.session(who, token=token, caller="cert:ada")


@pytest.mark.parametrize("name", ["ada", "user:ada", "token:till", "owner", "cert:", "cert:a b"])
def test_the_owner_acts_for_holders_of_certificates_only(driver, name):
    with pytest.raises(Misuse, match="name one as cert:NAME"):
        driver.session(caller=name)


@pytest.mark.parametrize("token", ["another", "", digest_of_token(TOKEN).hex()])
def test_another_text_is_nobody(driver, token):
    create(driver)
    with pytest.raises(AccessDenied):
        driver.session(HERE, token=token)


def test_a_token_that_others_could_read_is_refused(driver):
    create(driver)
    with pytest.raises(AccessDenied, match=r"others can read.*revoke it"):
        driver.session(FAR, token=TOKEN)


def test_an_expired_token_is_nobody_and_ends_its_sessions(driver):
    create(driver, lasts_us=60_000_000)
    till = driver.session(HERE, token=TOKEN)
    driver.advance(30)
    assert till.open("orders")
    driver.advance(31)
    assert CloseSession(till.number) in driver.effects
    with pytest.raises(AccessDenied, match="has expired"):
        driver.session(HERE, token=TOKEN)


def test_a_revoked_token_ends_its_sessions_before_anything_else_of_them(driver):
    create(driver)
    till = driver.session(HERE, token=TOKEN)
    orders = till.open("orders")
    driver.session().call(token_frames.RevokeToken("till"))
    assert CloseSession(till.number) in driver.effects
    # The connection is still there, and a request is on its way.
    with pytest.raises((AccessDenied, QueueNotFound)):
        till.call(message_frames.Reserve(orders, 1, 1))


@pytest.mark.parametrize("why", ["was revoked", "has expired"])
def test_the_holder_of_a_token_hears_why_its_session_ends(driver, why):
    create(driver, lasts_us=60_000_000)
    till = driver.session(HERE, token=TOKEN)
    if why == "was revoked":
        driver.session().call(token_frames.RevokeToken("till"))
    else:
        driver.advance(61)
    of_till = [each for each in driver.effects if getattr(each, "session", 0) == till.number]
    told = next(each for each in of_till if isinstance(each, Answer) and not each.request_id)
    assert of_till.index(told) < of_till.index(CloseSession(till.number))
    assert told.head.error == "connection-lost"
    assert f"because the token shown to it {why}; ask its owner for another" in told.head.sentence


def test_tokens_are_durable(driver):
    create(driver, lasts_us=600_000_000)
    create(driver, "driver", "another")
    driver.session().call(token_frames.RevokeToken("driver"))
    driver.crash()
    listed = driver.session().call(token_frames.ListTokens())
    assert [each.name for each in listed.tokens] == ["till"]
    driver.session(HERE, token=TOKEN)


@pytest.mark.parametrize(
    "head",
    [
        token_frames.CreateToken("till", digest_of_token("x")),
        token_frames.CreateToken("", digest_of_token("x")),
        token_frames.CreateToken("a b", digest_of_token("x")),
        token_frames.CreateToken("new", b"short"),
        token_frames.CreateToken("new", digest_of_token("x"), -1),
        token_frames.RevokeToken("none"),
    ],
)
def test_what_makes_no_sense_is_refused(driver, head):
    create(driver)
    assert isinstance(refused(driver.session(), head), Misuse)


def test_no_rule_gives_tokens_to_others(tmp_path):
    driver = driver_with(tmp_path, allowing("user:ada", "manage", "*"))
    ada = driver.session(ADA)
    for head in (
        token_frames.CreateToken("more", digest_of_token("x")),
        token_frames.ListTokens(),
        token_frames.RevokeToken("till"),
    ):
        assert isinstance(refused(ada, head), AccessDenied)


@pytest.mark.parametrize("again", ["goes on", "starts from the log", "starts from a checkpoint"])
def test_each_session_ends_when_its_own_token_expires_also_after_a_start(tmp_path, again):
    driver = driver_with(tmp_path, allowing("token:*", "send see", "orders"))
    one, two = "one", "two"
    create(driver, "till", one, lasts_us=50_000_000)
    create(driver, "shop", two, lasts_us=80_000_000)
    if again == "starts from a checkpoint":
        driver.store.checkpoint(driver.manager.snapshot())
        driver.store.sync()
    if again != "goes on":
        driver.crash()
    till, shop = driver.session(HERE, token=one), driver.session(HERE, token=two)
    ended = []
    for seconds in (49.9, 0.1, 29.9, 0.1):
        driver.effects.clear()
        driver.advance(seconds)
        ended.append([each.session for each in driver.effects if isinstance(each, CloseSession)])
    assert ended == [[], [till.number], [], [shop.number]]


def test_the_number_of_tokens_is_bounded_and_one_may_be_set_anew(driver, monkeypatch):
    monkeypatch.setattr("dray.manager.rights.tokens.TOKENS_MAX", 2)
    create(driver, "till", "one")
    create(driver, "shop", "two")
    with pytest.raises(Misuse, match="there are 2 tokens already; revoke one first"):
        create(driver, "third", "three")
    driver.session().call(token_frames.RevokeToken("till"))
    create(driver, "third", "three")


def test_a_receive_that_waits_by_a_revoked_token_gets_nothing(tmp_path):
    """The connection of the token may be there a moment longer."""
    driver = driver_with(tmp_path, allowing("token:till", "receive", "orders"))
    create(driver)
    till, owner = driver.session(HERE, token=TOKEN), driver.session()
    request = till.ask(message_frames.Receive(till.open("orders"), 0, None))
    owner.call(token_frames.RevokeToken("till"))
    owner.send(owner.open("orders"), Message(body=b"1"))
    assert [each.head.error for each in till.answers(request)] == ["queue-not-found"]
    assert owner.what_is_in("orders")[1] == [b"1"]
