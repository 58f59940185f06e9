"""Data directories that are put back, damaged, cloned or missing, under real queue managers."""

from __future__ import annotations

import shutil

import pytest

from tests.integration.commands import dray as command
from tests.integration.commands import until, words
from tests.integration.copied_stores import Pair, flip_newest

pytestmark = pytest.mark.slow

DEAD = "system$;deadxact"


@pytest.fixture
def pair(tmp_path):
    with Pair(tmp_path) as pair:
        yield pair
        pair.source.assert_readable_log()
        pair.destination.assert_readable_log()


def test_a_clone_in_the_place_of_its_destination_takes_nothing_and_says_so_once(pair):
    pair.delivered(b"first")
    pair.source.copy("clone")
    pair.destination.process.kill()
    clone = pair.other("clone", pair.destination.process.port)
    clone.process.start()
    pair.send(b"waits")
    until(lambda: clone.warnings("other-copy"))
    (told,) = clone.warnings("other-copy")
    assert "the same id" in told
    assert "stop one of them" in told
    clone.process.kill()
    pair.destination.process.start()
    until(lambda: pair.source.outgoing(pair.url) == ("connected", 0))
    assert pair.destination.bodies() == [b"first", b"waits"]


def numbered(word: str, count: int) -> list[bytes]:
    return [b"%s %d" % (word.encode(), n) for n in range(count)]


def test_a_source_that_was_put_back_and_sends_offline_first_loses_and_doubles_nothing(pair):
    pair.delivered(b"first")
    pair.source.process.stop()
    copy = pair.source.copy("copy")
    pair.source.process.start()
    lost = numbered("lost", 5)
    pair.delivered(*lost)
    pair.destination.process.kill()
    pair.source.put_back(copy)
    pair.source.process.start()
    new = numbered("new", 12)
    pair.send(*new)
    pair.destination.process.start()
    until(lambda: pair.source.outgoing(pair.url) == ("connected", 0))
    assert pair.destination.bodies() == [b"first", *lost, *new]
    assert any("older copy" in each for each in pair.source.warnings("older-copy"))


@pytest.mark.parametrize("while_down", [False, True], ids=["delivered", "not-told"])
def test_a_flipped_bit_in_what_is_newest_costs_no_new_message(pair, while_down):
    """The destination has the message whose payload is damaged at the source."""
    pair.delivered(b"first")
    newest = b"the newest payload " * 200
    pair.send(newest)
    until(lambda: pair.destination.bodies()[1:] == [newest])
    pair.source.process.kill()
    assert flip_newest(pair.source, newest)
    if while_down:
        pair.destination.process.kill()
    pair.source.process.start()
    new = numbered("new", 5)
    pair.send(*new)
    if while_down:
        pair.destination.process.start()
    until(lambda: pair.source.outgoing(pair.url) == ("connected", 0))
    assert pair.destination.bodies() == [b"first", newest, *new]


def test_a_destination_that_was_put_back_is_told_at_both_ends_and_takes_what_comes_next(pair):
    pair.delivered(b"kept")
    pair.destination.process.stop()
    copy = pair.destination.copy("copy")
    pair.destination.process.start()
    pair.delivered(b"lost 1", b"lost 2")
    pair.destination.put_back(copy)
    new = numbered("new", 4)
    pair.send(*new)
    pair.destination.process.start()
    until(lambda: pair.source.outgoing(pair.url) == ("connected", 0))
    assert pair.destination.bodies() == [b"kept", *new]
    (at_source,) = pair.source.warnings("destination-behind")
    (at_destination,) = pair.destination.warnings("older-copy")
    assert "acknowledged more" in at_source
    assert "does not have" in at_destination


@pytest.mark.parametrize("replaced", [False, True], ids=["put-back", "another-manager"])
def test_a_refused_message_is_kept_by_its_source_after_the_destination_changed(pair, replaced):
    """The new state of the destination tells of its refusals by ordinals of its own."""
    pair.destination.process.stop()
    copy = pair.destination.copy("copy")
    if replaced:
        shutil.rmtree(copy)
        copy.mkdir()
    pair.destination.process.start()
    fill(pair.destination)
    pair.send(*numbered("refused", 5))
    until(lambda: dead_letters(pair.source) == numbered("refused", 5))
    pair.destination.put_back(copy)
    pair.destination.process.start()
    fill(pair.destination)
    new = numbered("new", 2)
    pair.send(*new)
    if replaced:
        until(lambda: pair.source.outgoing(pair.url)[0] == "need-validation")
        with pair.source.process.connect() as manager:
            manager.accept_peer(pair.url.rpartition("/")[0])
    until(lambda: pair.source.outgoing(pair.url)[1] == 0)
    assert pair.destination.bodies() == []
    assert dead_letters(pair.source) == [*numbered("refused", 5), *new]
    # Only a store that was put back is an older copy; an accepted manager has forgotten nothing.
    assert bool(pair.destination.warnings("older-copy")) is not replaced
    assert bool(pair.source.warnings("destination-behind")) is not replaced


def fill(party):
    """Let the queue of a destination take no message more."""
    with party.process.connect() as manager:
        manager.create_queue("orders", exist_ok=True)
        manager.set_quota("orders", quota=1)


def dead_letters(party):
    """The bodies of the dead letters at a source."""
    return party.bodies("system$;deadxact")


def diverge(pair: Pair) -> tuple[list[bytes], list[bytes]]:
    """A clone of the running source delivers while that is down; then the true one sends."""
    pair.delivered(b"both know")
    clone = clone_of_the_running_source(pair)
    pair.delivered(b"true alone")
    pair.source.process.kill()
    theirs = numbered("clone", 4)
    clone.send(pair.url, *theirs)
    until(lambda: clone.outgoing(pair.url) == ("connected", 0))
    clone.process.kill()
    pair.source.process.start()
    ours = numbered("true", 7)
    pair.send(*ours)
    until(lambda: pair.source.outgoing(pair.url) == ("diverged", len(ours)))
    before = [b"both know", b"true alone", *theirs]
    assert pair.destination.bodies() == before
    return before, ours


def clone_of_the_running_source(pair: Pair):
    """It is started beside it."""
    pair.source.copy("clone")
    clone = pair.other("clone")
    clone.process.start()
    return clone


def test_a_clone_beside_its_running_source_delivers_nothing_and_both_ends_say_why(pair):
    pair.delivered(b"both know")
    clone = clone_of_the_running_source(pair)
    # The destination hangs up on the true one when the clone calls, so that calls last.
    until(lambda: pair.source.welcomes(pair.url) == 2)
    until(lambda: pair.source.outgoing(pair.url) == ("connected", 0))
    clone.send(pair.url, b"clone 1", b"clone 2")
    until(lambda: clone.warnings("other-copy"))
    assert clone.outgoing(pair.url) == ("refused", 2)
    (told,) = clone.warnings("other-copy")
    assert told.startswith(f"{pair.url}: the queue manager at 127.0.0.1:")
    assert "another copy of this data directory" in told
    assert "stop one of them" in told
    until(lambda: pair.destination.warnings("other-copy"))
    (told,) = pair.destination.warnings("other-copy")
    assert "two copies of its data directory" in told
    pair.delivered(b"true 1")
    assert pair.destination.bodies() == [b"both know", b"true 1"]
    pair.source.process.kill()
    until(lambda: clone.outgoing(pair.url) == ("connected", 0))
    assert pair.destination.bodies() == [b"both know", b"true 1", b"clone 1", b"clone 2"]
    clone.assert_readable_log()


def doctor_finds(party, queue):
    """What `dray doctor` finds at an outgoing queue: the queues of the findings by code."""
    said = command("doctor", queue, "--json", url=party.url)
    assert said.status == 1
    return {each["code"]: each["queue"] for each in said.value}


def test_a_clone_of_a_running_source_stops_it_until_a_person_accepts(pair):
    before, ours = diverge(pair)
    for line in ("outgoing", "list"), ("queue", "list"):
        said = command(*line, url=pair.source.url).assert_good()
        row = next(row for row in words(said.out) if row[0] == pair.url)
        assert row[-1] == "diverged"
        (entry,) = [
            each
            for each in command(*line, "--json", url=pair.source.url).assert_good().value
            if each["name"] == pair.url
        ]
        assert (entry["state"], entry["message_count"]) == ("diverged", len(ours))
    assert doctor_finds(pair.source, pair.url) == {"diverged": pair.url}
    (told,) = pair.source.warnings("diverged")
    assert f"`dray outgoing accept {pair.url}`" in told
    assert f"`dray outgoing discard {pair.url}`" in told
    pair.source.process.kill()
    pair.source.process.start()
    pair.send(b"one more")
    assert pair.source.outgoing(pair.url) == ("diverged", len(ours) + 1)
    said = command("outgoing", "accept", pair.url, url=pair.source.url).assert_good()
    assert said.out == f"delivers {len(ours) + 1} messages of {pair.url} in a new sequence\n"
    until(lambda: pair.source.outgoing(pair.url) == ("connected", 0))
    assert pair.destination.bodies() == [*before, *ours, b"one more"]
    pair.delivered(b"later")
    assert pair.destination.bodies()[-1] == b"later"


def test_discarded_messages_of_a_diverged_queue_are_dead_letters_and_later_ones_arrive(pair):
    before, ours = diverge(pair)
    said = command("outgoing", "discard", pair.url, "--json", url=pair.source.url).assert_good()
    assert said.value == {"discarded": pair.url, "messages": len(ours)}
    assert pair.source.bodies(DEAD) == ours
    pair.delivered(b"later")
    assert pair.destination.bodies() == [*before, b"later"]
    again = command("outgoing", "discard", pair.url, url=pair.source.url)
    assert "there is nothing to resolve" in again.assert_error("misuse")


def test_accepted_and_discarded_queues_are_told_in_both_forms(pair):
    _, ours = diverge(pair)
    said = command("outgoing", "accept", pair.url, "--json", url=pair.source.url).assert_good()
    assert said.value == {"accepted": pair.url, "messages": len(ours)}


def unmounted(pair: Pair, *bodies: bytes):
    """The destination starts over an empty folder; the source goes on sending."""
    pair.delivered(b"first")
    pair.destination.process.kill()
    empty = pair.other("empty", pair.destination.process.port)
    empty.process.start()
    with pair.source.process.connect() as manager:
        queue = manager.queue(pair.url)
        queue.send_many(list(bodies))
    until(lambda: pair.source.outgoing(pair.url) == ("need-validation", len(bodies)))
    return empty


def ids(*parties) -> list[str]:
    found = []
    for party in parties:
        with party.process.connect() as manager:
            found.append(manager.info().id)
    return found


def test_a_destination_over_an_empty_folder_gets_nothing_and_the_true_one_gets_all(pair):
    (true_id,) = ids(pair.destination)
    bodies = numbered("waits", 1000)
    empty = unmounted(pair, *bodies)
    (other_id,) = ids(empty)
    for line in ("outgoing", "list"), ("queue", "list"):
        said = command(*line, url=pair.source.url).assert_good()
        assert [row[-1] for row in words(said.out) if row[0] == pair.url] == ["need-validation"]
        value = command(*line, "--json", url=pair.source.url).assert_good().value
        assert [each["state"] for each in value if each["name"] == pair.url] == ["need-validation"]
    row = words(command("peer", "list", url=pair.source.url).assert_good().out)[1]
    assert (row[0], row[1], row[3], row[4]) == (
        pair.destination.url,
        true_id,
        "need-validation",
        other_id,
    )
    (value,) = command("peer", "list", "--json", url=pair.source.url).assert_good().value
    assert (value["address"], value["manager_id"]) == (pair.destination.url, true_id)
    assert (value["state"], value["found"]) == ("need-validation", other_id)
    (told,) = pair.source.warnings("other-manager-at-address")
    assert f"`dray peer accept {pair.destination.url}`" in told
    said = command("doctor", url=pair.source.url)
    assert said.status == 1
    assert f"another queue manager or caller ({other_id}) is at {pair.destination.url}" in said.out
    with empty.process.connect() as manager:
        assert all(each.message_count == 0 for each in manager.queues())
    with pair.source.process.connect() as manager:
        assert manager.queue(DEAD).info().message_count == 0
    empty.process.kill()
    pair.destination.process.start()
    until(lambda: pair.source.outgoing(pair.url) == ("connected", 0))
    assert pair.destination.bodies() == [b"first", *bodies]
    row = words(command("peer", "list", url=pair.source.url).assert_good().out)[1]
    assert (row[1], row[3:]) == (true_id, ["known"])


@pytest.mark.parametrize("as_json", [False, True], ids=["words", "json"])
@pytest.mark.parametrize("word", ["accept", "accept-by-id", "forget"])
def test_an_accepted_or_forgotten_destination_gets_all_that_waits(pair, word, as_json):
    bodies = numbered("waits", 50)
    empty = unmounted(pair, *bodies)
    with empty.process.connect() as manager:
        manager.create_queue("orders")
    address = pair.destination.url
    line = ["peer", word.partition("-")[0], address]
    line += ids(empty) if word == "accept-by-id" else []
    line += ["--json"] if as_json else []
    said = command(*line, url=pair.source.url).assert_good()
    if as_json:
        assert said.value == {"forgotten" if word == "forget" else "accepted": address}
    else:
        done = "forgot" if word == "forget" else "accepted"
        assert said.out == f"{done} the queue manager at {address}\n"
    until(lambda: pair.source.outgoing(pair.url) == ("connected", 0))
    assert empty.bodies() == bodies
    (peer,) = command("peer", "list", "--json", url=pair.source.url).value
    assert (peer["manager_id"], peer["state"]) == (*ids(empty), "known")


@pytest.mark.parametrize("as_json", [[], ["--json"]], ids=["words", "json"])
def test_a_mistake_of_usage_is_one_sentence_and_a_status(pair, as_json):
    pair.delivered(b"first")
    known, url = pair.destination.url, pair.source.url
    with pair.source.process.connect() as manager:
        manager.create_queue("local")

    def refused(*line: str, code: str = "misuse") -> str:
        return command(*line, *as_json, url=url).assert_error(code)

    for word in ("accept", "discard"):
        assert "nothing to resolve" in refused("outgoing", word, pair.url)
        assert "nothing to resolve" in refused("outgoing", word, "local")
        refused("outgoing", word, f"{known}/never-sent-to", code="queue-not-found")
        refused("outgoing", word, "no-such-queue", code="queue-not-found")
        refused("outgoing", word, "", code="invalid-queue-name")
    assert "nothing to accept" in refused("peer", "accept", known)
    assert "nothing to accept" in refused("peer", "accept", "dray://127.0.0.1:1")
    assert "not the id of a queue manager" in refused("peer", "accept", known, "xyz")
    assert "no queue manager is known" in refused("peer", "forget", "dray://127.0.0.1:1")
    for word in ("accept", "forget"):
        for address in ("", "dray://", "dray://h:99999", "nowhere at all", pair.url):
            told = refused("peer", word, address, code="invalid-queue-name")
            assert f"{address!r} is not the address of a queue manager: write HOST:PORT" in told
    assert "Missing argument" in command("peer", "accept", url=url).err
