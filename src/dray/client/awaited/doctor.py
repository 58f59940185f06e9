"""Why a queue manager, or one queue, is stuck: findings, each with what to do. Nothing is changed.

| code | what is found |
|---|---|
| quota | a quota is full, or nearly |
| disk | the disk of the data directory takes no more messages, or soon will not |
| peer-down | messages wait, and there is no connection to the next queue manager |
| peer-silent | messages wait, and the next queue manager is connected but does not answer |
| refused | the destination refuses messages |
| diverged | delivery stopped: two copies of a data directory sent messages, or another answers |
| paused | messages wait in an outgoing queue that somebody paused |
| poison | the message at the head was given back again and again; a poison queue holds some |
| hole | the large message at the head lacks parts |
| unreadable | a message file is missing, and nobody can receive its messages |
| idle-transaction | an open or prepared transaction holds messages, and nobody goes on with it |
| dead-letters | messages could not be delivered |
| certificate | a certificate ends soon, or has ended |
| clock | the clocks of two machines differ |
"""

from __future__ import annotations

import os
import shlex
import socket
import ssl
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import aclosing
from functools import partial
from typing import Final

from dray.client.awaited.contents import contents_of
from dray.client.awaited.listing import all_queues
from dray.client.awaited.moving import dead_letters_of
from dray.client.awaited.queue import Queue
from dray.client.connections.address import CONNECT_TIMEOUT_S, Address
from dray.client.connections.link import Link, QueueHandle
from dray.errors import AccessDenied, ReceiveTimeout
from dray.model.classes import QueueKind
from dray.model.finding import DoctorFinding
from dray.model.limits import CERTIFICATE_WARNING_DAYS
from dray.model.message import Message
from dray.model.names import STATUS_QUEUE
from dray.model.queue import ManagerInfo, QueueInfo
from dray.model.queued import QueuedMessage, Wholeness
from dray.model.words import counted, human_size
from dray.net.tls import CERT_VARIABLE, trusting
from dray.wire import queue_frames
from dray.wire.message_frames import ListPrepared, PreparedList

NEARLY_FULL: Final = 0.9
"""The share of a quota from which a finding says so."""
_COUNTED_MAX: Final = 10_000
"""Messages of an outgoing queue among which large ones are counted, each as one."""
ABORTS_OF_POISON: Final = 3
"""A receiver that gave a message back so often will hardly take it the next time."""
SILENT_S: Final = 60.0
"""Twice the time after which a source sends again. A slow line needs longer for 4 MiB."""
CLOCK_S: Final = 5.0
"""More than the way of a question and its answer."""
_DAY_S: Final = 86_400.0
_POISON: Final = "poison"
_OF_MANAGER: Final = "its option, or with `Manager.set_quota` if a program has set it so before"
"""Quotas that were set while the manager ran count from then on, and its options no more."""
_RETRY: Final = ", then `dray deadletter retry --all` sends those that are dead letters"


async def examine(link: Link, name: str | None, idle: float) -> list[DoctorFinding]:
    """Look for everything that may keep messages from moving, at one queue or at all."""
    asked = time.time()
    info = (await link.ask(queue_frames.Describe(), queue_frames.ManagerState)).info
    answered = time.time()
    everything = await all_queues(link)
    if name is not None:
        # A missing queue is an error, and not a queue without findings.
        await link.ask(queue_frames.DescribeQueue(name), queue_frames.QueueState)
    chosen = [each for each in everything if name is None or _is_of(each.name, name)]
    found = [*_of_quotas(info, chosen), *_of_disk(info), *_of_clock(info, asked, answered)]
    for queue in chosen:
        found += await _of_queue(link, queue, info.now)
    found += _of_files(chosen)
    found += await _of_transactions(link, chosen, idle, every=name is None)
    found += await _of_dead_letters(link, name, info.id)
    found += await _of_peers(link, name)
    found += await _of_certificates(link)
    return found


def _is_of(queue: str, name: str) -> bool:
    """Whether a queue is the one that is asked about, or a sub-queue of it."""
    return queue == name or queue.startswith(f"{name};")


def _of_quotas(info: ManagerInfo, queues: list[QueueInfo]) -> Iterator[DoctorFinding]:
    whole = "this queue manager"
    ahead = f" ({human_size(info.ahead_bytes)} of it ahead of commits)" if info.ahead_bytes else ""
    used = info.bytes_used + info.ahead_bytes
    rows = [
        ("", whole, "quota", used, info.quota,
         f"receive messages or purge the journals of queues{ahead}"),
        ("", whole, "journal quota", info.journal_bytes_used, info.journal_quota,
         "`dray queue purge 'system$;journal'`, retry or drop dead letters"),
    ]  # fmt: skip
    in_sub_queues = Counter[str]()
    for each in queues:
        if each.kind is QueueKind.SUB:
            in_sub_queues[each.name.partition(";")[0]] += each.byte_count
    for each in queues:
        below = in_sub_queues[each.name]
        rows += [
            (each.name, repr(each.name), "quota", each.byte_count + below, each.quota,
             f"receive or move messages{', also of its sub-queues' if below else ''}"),
            (each.name, repr(each.name), "journal quota", each.journal_bytes,
             each.journal_quota, f"`dray queue purge {shlex.quote(each.name + ';journal')}`"),
        ]  # fmt: skip
    for name, whose, quota, used, limit, advice in rows:
        if limit is None or used < limit * NEARLY_FULL:
            continue
        option = f"--{quota.replace(' ', '-')}"
        set_by = f"`dray queue set {shlex.quote(name)} {option}`" if name else _OF_MANAGER
        yield DoctorFinding(
            "quota",
            name,
            f"the {quota} of {whose} is {used / limit if limit else 1:.0%} full"
            f" ({human_size(used)} of {human_size(limit)}); {advice}, or raise it with {set_by}",
        )


def _of_disk(info: ManagerInfo) -> Iterator[DoctorFinding]:
    if info.disk_free >= 2 * info.low_water:
        return
    free, kept = human_size(info.disk_free), human_size(info.low_water)
    full = info.disk_free <= info.low_water
    state = "new messages are refused" if full else "soon new messages will be refused"
    yield DoctorFinding(
        "disk",
        "",
        f"the disk of the data directory has {free} free and {kept} must stay free, so {state};"
        " make room on it",
    )


def _of_files(queues: list[QueueInfo]) -> Iterator[DoctorFinding]:
    for each in queues:
        if each.unreadable_count:
            yield DoctorFinding(
                "unreadable",
                each.name,
                f"{counted(each.unreadable_count)} of {each.name!r} cannot be read, because a file"
                " of the data directory is missing or was cut off; the log of the last start names"
                " it: bring it back and start again, or restore a backup, or purge the queue to"
                " give these messages up",
            )


def _of_clock(info: ManagerInfo, asked: float, answered: float) -> Iterator[DoctorFinding]:
    ahead = max(info.now - answered, asked - info.now)
    if ahead <= CLOCK_S:
        return
    whose = "ahead of" if info.now > answered else "behind"
    yield DoctorFinding(
        "clock",
        "",
        f"the clock of the queue manager's machine is {ahead:.0f} s {whose} the clock of this one;"
        " set both by NTP, since messages expire by them",
    )


async def _of_queue(link: Link, info: QueueInfo, now: float) -> list[DoctorFinding]:
    if info.kind is QueueKind.OUTGOING:
        info = (await link.ask(queue_frames.DescribeQueue(info.name), queue_frames.QueueState)).info
        return list(_of_delivery(info, await _waiting_in(link, info), now))
    if info.kind not in (QueueKind.PRIVATE, QueueKind.SUB) or not info.message_count:
        return []
    try:
        first = await Queue(link, info.name, guarded=False).peek(0)
    except (AccessDenied, ReceiveTimeout):
        # Receivers hold all that is there, or it is not this caller's to see.
        return []
    found = list(_of_head(info, first))
    if info.large_count:
        found += await _of_hole(link, info.name)
    return found


async def _waiting_in(link: Link, info: QueueInfo) -> str:
    """The number of messages that wait in an outgoing queue; a large one is one, if readable."""
    count = 0
    try:
        if info.message_count <= _COUNTED_MAX:
            async with aclosing(contents_of(QueueHandle(link, info.name), 0)) as contents:
                async for _ in contents:
                    count += 1
    except AccessDenied:
        count = 0
    if not info.message_count:
        return f"nothing waits in {info.name}"
    nouns = "messages" if count else "messages and parts of large ones"
    count = count or info.message_count
    return f"{'a message waits' if count == 1 else f'{count} {nouns} wait'} in {info.name}"


def _of_delivery(info: QueueInfo, waiting: str, now: float) -> Iterator[DoctorFinding]:
    delivery, count = info.delivery, info.message_count
    if delivery is not None and delivery.routed_now:
        waiting += (
            f" on the way over {delivery.next_hop} with which the queue was made (`routes` lead"
            f" over {delivery.routed_now} by now; `dray queue delete {info.name}` gives up what"
            " waits and all word of what was delivered, and the next message makes it anew)"
        )
    if info.state == "on hold":
        advice = f"`dray outgoing resume {info.name}`"
        if count:
            yield DoctorFinding("paused", info.name, f"{waiting}, which is paused; {advice}")
    elif info.state in ("diverged", "need-validation"):
        yield DoctorFinding(
            "diverged",
            info.name,
            f"{waiting}, whose delivery stopped ({info.state}); see `dray outgoing show"
            f" {info.name}` and `dray peer list`",
        )
    elif delivery is not None and delivery.refusal is not None:
        why = delivery.refusal
        yield DoctorFinding(
            "refused",
            info.name,
            f"the destination refuses the messages of {info.name} ({why.code}, {why.count} so far):"
            f" {why.sentence}; mend that there{_RETRY if why.count else ''}",
        )
    elif delivery is not None and count and delivery.link in ("disconnected", "dialling"):
        reasons = [each.reason for each in delivery.history if each.reason]
        why_down = f": {reasons[-1]}" if reasons else ""
        yield DoctorFinding(
            "peer-down",
            info.name,
            f"{waiting}, and there is no connection to {delivery.next_hop}{why_down}; mend that, or"
            f" start the queue manager there, then `dray outgoing retry {info.name}`",
        )
    elif delivery is not None and count and now - (delivery.silent_since or now) >= SILENT_S:
        yield DoctorFinding(
            "peer-silent",
            info.name,
            f"{waiting}, and the queue manager at {delivery.next_hop} is connected but has not"
            f" answered for {now - (delivery.silent_since or now):.0f} s; look at its log and at"
            " its disk there, and start it again if it hangs, or mend the line if that is very"
            " slow",
        )


def _of_head(info: QueueInfo, first: Message) -> Iterator[DoctorFinding]:
    base, _, sub = info.name.partition(";")
    name, aside = shlex.quote(info.name), shlex.quote(f"{base};{_POISON}")
    if sub == _POISON:
        yield DoctorFinding(
            "poison",
            info.name,
            f"no receiver could handle {_number_in(info)} in {info.name!r}; mend the receiver, then"
            f" `dray move {name} {shlex.quote(base)}`",
        )
    elif first.abort_count >= ABORTS_OF_POISON and base != STATUS_QUEUE:
        # A status message goes back together with the large message that it belongs to.
        yield DoctorFinding(
            "poison",
            info.name,
            f"the first message of {info.name!r} ({first.id}) was taken and given back"
            f" {counted(first.abort_count, 'time')}; look at it with"
            f" `dray show {name} {first.lookup_id}`, or put it aside with"
            f" `dray move {name} {aside} '{first.id}'`",
        )
    early = (first.sent_time or 0.0) - (first.arrived_time or 0.0)
    if early > CLOCK_S:
        yield DoctorFinding(
            "clock",
            info.name,
            f"the first message of {info.name!r} arrived {early:.0f} s before it was sent, so the"
            " clocks of this queue manager and of its source differ; set both by NTP",
        )


def _number_in(info: QueueInfo) -> str:
    """The number of messages in a queue, as people count: a large one is one."""
    if info.large_count:
        return counted(info.large_count, "large message")
    return counted(info.message_count)


async def _of_hole(link: Link, name: str) -> list[DoctorFinding]:
    async with aclosing(contents_of(QueueHandle(link, name), 0)) as contents:
        first = await anext(contents, None)
    if first is None or first.wholeness is not Wholeness.HOLE:
        return []
    return [
        DoctorFinding(
            "hole",
            name,
            f"the large message {first.id} at the head of {name!r} lacks parts; receive it with"
            " --repair, or without to reject it",
        )
    ]


async def _of_transactions(
    link: Link, queues: list[QueueInfo], idle: float, *, every: bool
) -> list[DoctorFinding]:
    of_large = {each.name: bool(each.large_count) for each in queues}
    listed = await link.ask(ListPrepared(), PreparedList)
    found = [
        DoctorFinding(
            "idle-transaction",
            "",
            f"the prepared transaction {each} holds its messages until somebody settles it; `dray"
            f" transaction commit '{each}'` or `abort` does that",
        )
        for each in listed.transaction_ids
        if every
    ]
    for each in listed.open:
        held = {name: count for name, count in each.held.items() if name in of_large}
        if held and each.idle >= idle:
            told = ", ".join(
                f"{count} {'parts of large messages ' * of_large[name]}of {name!r}"
                for name, count in held.items()
            )
            found.append(
                DoctorFinding(
                    "idle-transaction",
                    next(iter(held)),
                    f"the transaction {each.id} of {each.caller} has held messages ({told}) and"
                    f" done nothing for {each.idle:.0f} s; end the program that began it, and they"
                    " are free again",
                )
            )
    return found


async def _of_dead_letters(link: Link, name: str | None, own: str) -> list[DoctorFinding]:
    try:
        found = await dead_letters_of(link)
    except AccessDenied:
        # Only a caller that keeps dead letters may see them.
        return []
    letters = [each for each in found if name in (None, each.destination)]
    return [_of_letters(letters, name, own)] if letters else []


def _of_letters(letters: list[QueuedMessage], name: str | None, own: str) -> DoctorFinding:
    whose = "" if name is None else f" for {name}"
    foreign = sum(each.source != own for each in letters)
    advice = (
        f"; {foreign} of them came from other queue managers, and a retry sends those to queues of"
        " this one only: for another one `dray deadletter save` each, `dray send` the file and"
        " `dray deadletter drop` it"
    )
    return DoctorFinding(
        "dead-letters",
        name or "",
        f"there {'is' if len(letters) == 1 else 'are'} {counted(len(letters), 'dead letter')}"
        f"{whose} (the last: {letters[-1].reason}); `dray deadletter list` shows them"
        f"{advice if foreign else ''}",
    )


async def _of_peers(link: Link, name: str | None) -> list[DoctorFinding]:
    try:
        peers = (await link.ask(queue_frames.ListPeers(), queue_frames.PeerList)).peers
    except AccessDenied:
        # Only a caller that manages the whole queue manager may see them.
        return []
    return [
        DoctorFinding(
            "diverged",
            "",
            f"another queue manager or caller ({each.found_caller or each.found}) is at"
            f" {each.address} instead of the known one ({each.caller or each.manager_id});"
            f" `dray peer accept {each.address}` if that is right",
        )
        for each in peers
        if each.found and (name is None or each.address in name)
    ]


async def _of_certificates(link: Link) -> list[DoctorFinding]:
    dialer = link.dialer
    if not isinstance(dialer, Address) or not dialer.secure:
        return []
    run = link.runtime.offload
    found: list[DoctorFinding] = []
    for what, ends in (
        (f"the certificate of {dialer}", await run(partial(_served, dialer))),
        ("the certificate that this program presents", await run(partial(_own, dialer))),
    ):
        if ends is None:
            continue
        left = (ends - time.time()) / _DAY_S
        if left < CERTIFICATE_WARNING_DAYS:
            when = f"ends in {left:.1f} days" if left > 0 else "has ended"
            sentence = f"{what} {when}; make a new one, such as with `dray cert issue`"
            found.append(DoctorFinding("certificate", "", sentence))
    return found


def _served(address: Address) -> float:
    """When the certificate ends that a queue manager presents."""
    trusted = trusting(address.ca, address.cert, address.key)
    with (
        socket.create_connection((address.host, address.port), CONNECT_TIMEOUT_S) as plain,
        trusted.wrap_socket(plain, server_hostname=address.host) as tls,
    ):
        shown = tls.getpeercert()
    assert shown is not None, "the context asks for a certificate"
    return float(ssl.cert_time_to_seconds(str(shown["notAfter"])))


def _own(address: Address) -> float | None:
    """When the first certificate ends that this program presents; None if it presents none."""
    # Loads cryptography, which programs without TLS do without.
    from dray.net.certificates import endings

    file = address.cert or os.environ.get(CERT_VARIABLE)
    return min(each.ends.timestamp() for each in endings(file)) if file else None
