"""The sentences of findings that do not need a queue manager."""

from __future__ import annotations

import pytest

from dray.client.awaited.doctor import _of_delivery, _of_letters, _of_quotas
from dray.model.classes import MessageClass, QueueKind
from dray.model.ids import LookupId, ManagerId, MessageId
from dray.model.queue import DeliveryInfo, ManagerInfo, QueueInfo, Refusal
from dray.model.queued import QueuedMessage

ADDRESS = "dray://store:7340/orders"


def outgoing(**fields: object) -> QueueInfo:
    return QueueInfo(name=ADDRESS, kind=QueueKind.OUTGOING, transactional=True, **fields)


@pytest.mark.parametrize(("count", "is_told"), [(0, False), (3, True)])
def test_dead_letters_are_spoken_of_where_messages_were_refused_for_good(count, is_told):
    """Where the whole queue waits, as beside another copy of the store, there are none."""
    refusal = Refusal("other-copy", "another copy runs: stop one of them", 1.0, count)
    delivery = DeliveryInfo(
        next_hop="store:7340", remote_queue="orders", link="welcomed", refusal=refusal
    )
    info = outgoing(state="refused", message_count=5, delivery=delivery)
    (found,) = _of_delivery(info, f"5 messages wait in {ADDRESS}", 100.0)
    assert "another copy runs: stop one of them; mend that there" in found.sentence
    assert ("dray deadletter retry" in found.sentence) is is_told


@pytest.mark.parametrize(
    ("silent_since", "count", "codes"),
    [(40.0, 1, ["peer-silent"]), (41.0, 1, []), (None, 1, []), (40.0, 0, [])],
)
def test_a_destination_that_owes_an_answer_for_a_minute_is_found(silent_since, count, codes):
    delivery = DeliveryInfo(
        next_hop="store:7340", remote_queue="orders", link="welcomed", silent_since=silent_since
    )
    info = outgoing(state="connected", message_count=count, delivery=delivery)
    found = list(_of_delivery(info, f"a message waits in {ADDRESS}", 100.0))
    assert [each.code for each in found] == codes
    assert all("has not answered for 60 s; look at its log" in each.sentence for each in found)


def test_what_waits_on_a_route_that_the_options_do_not_name_any_more_is_said_to_keep_to_it():
    delivery = DeliveryInfo(
        next_hop="depot:7340", remote_queue=ADDRESS, link="disconnected", routed_now="store:7340"
    )
    info = outgoing(state="waiting", message_count=1, delivery=delivery)
    (found,) = _of_delivery(info, f"a message waits in {ADDRESS}", 100.0)
    assert found.code == "peer-down"
    assert "`routes` lead over store:7340 by now" in found.sentence
    assert f"`dray queue delete {ADDRESS}`" in found.sentence


@pytest.mark.parametrize(
    ("sources", "said"),
    [("aa", ""), ("b", "; 1 of them came from other"), ("abb", "; 2 of them came from other")],
)
def test_dead_letters_of_other_managers_are_not_said_to_go_on_by_a_retry(sources, said):
    letters = [
        QueuedMessage(
            queue="system$;deadxact",
            lookup_id=LookupId(at),
            id=MessageId(f"{source}\\{at}"),
            label="",
            size=1,
            source=ManagerId(source),
            message_class=MessageClass.NACK_Q_EXCEED_QUOTA,
            sent_time=0.0,
            arrived_time=0.0,
        )
        for at, source in enumerate(sources, 1)
    ]
    sentence = _of_letters(letters, None, "a").sentence
    assert said in sentence
    assert ("dray deadletter save" in sentence) is bool(said)


@pytest.mark.parametrize(("count", "codes"), [(0, []), (1, ["paused"])])
def test_a_paused_queue_is_found_only_if_messages_wait_in_it(count, codes):
    info = outgoing(state="on hold", message_count=count)
    found = _of_delivery(info, f"a message waits in {ADDRESS}", 100.0)
    assert [each.code for each in found] == codes


def _manager_with(**fields: int) -> ManagerInfo:
    names = dict.fromkeys(ManagerInfo.__struct_fields__, 0)
    unlimited = {"quota": None, "journal_quota": None}
    return ManagerInfo(**(names | unlimited | fields))


def test_a_full_journal_quota_leads_to_the_queues_that_it_counts():
    """The journal of a queue is not among them, so nobody is sent to purge it."""
    (found,) = _of_quotas(_manager_with(journal_quota=100, journal_bytes_used=95), [])
    assert "95% full" in found.sentence
    assert "`dray queue purge 'system$;journal'`, retry or drop dead letters" in found.sentence


def test_a_full_quota_leads_to_the_journals_of_queues_too():
    (found,) = _of_quotas(_manager_with(quota=100, bytes_used=100), [])
    assert "receive messages or purge the journals of queues" in found.sentence
    assert "raise it with its option, or with `Manager.set_quota`" in found.sentence


def test_a_quota_counts_sub_queues_and_may_be_one_of_any_queue():
    """The messages of a full queue may all lie in its poison queue, or wait for another manager."""
    kinds = {
        "orders": QueueKind.PRIVATE,
        "orders;poison": QueueKind.SUB,
        "dray://h:7340/q": QueueKind.OUTGOING,
        "system$;deadxact": QueueKind.SYSTEM,
    }
    queues = [
        QueueInfo(name=name, kind=kind, transactional=True, byte_count=50,
                  quota={QueueKind.PRIVATE: 100, QueueKind.SUB: None}.get(kind, 50))
        for name, kind in kinds.items()
    ]  # fmt: skip
    found = list(_of_quotas(_manager_with(), queues))
    assert [each.queue for each in found] == ["orders", "dray://h:7340/q", "system$;deadxact"]
    assert "100% full (100 B of 100 B); receive or move messages, also of its sub" in (
        found[0].sentence
    )


def test_a_quota_that_admits_nothing_is_full():
    queue = QueueInfo(name="closed", kind=QueueKind.PRIVATE, transactional=True, quota=0)
    (found,) = _of_quotas(_manager_with(), [queue])
    assert "the quota of 'closed' is 100% full (0 B of 0 B)" in found.sentence
