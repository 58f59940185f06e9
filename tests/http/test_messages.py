"""HTTP for programs: send, receive as lease, read and settle, transactions, queues, outcome."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import socket
import threading
from urllib.parse import quote

import pytest

import dray
from dray.console.statuses import STATUSES
from dray.console.v1.properties import RECEIVED, SENT, properties_of
from dray.errors import every_error

LONG = bytes(range(256)) * 20_000
"""5 MB: longer than a plain message may be."""


def sent(client, queue, body=b"hello", **headers):
    answer = client.post(f"/v1/queues/{queue}/messages", content=body, headers=headers)
    assert answer.status_code == 201, answer.text
    return answer.json()


def received(client, queue, wait=10, **headers):
    answer = client.post(f"/v1/queues/{queue}/receive?wait={wait}", headers=headers)
    assert answer.status_code == 201, answer.text
    return answer


def count(client, queue):
    return client.get(f"/v1/queues/{queue}").json()["message_count"]


def code_of(answer):
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json()
    assert problem["status"] == answer.status_code
    assert problem["detail"]
    return answer.status_code, problem["code"]


def test_a_queue_of_large_messages_says_in_the_words_of_http_how_to_use_it(client, queue):
    sent(client, queue, **{"Dray-Kind": "large"})
    for path, wanted in (
        ("messages", "send with Dray-Kind: large"),
        ("receive?kind=message", "receive with kind=large or any"),
    ):
        answer = client.post(f"/v1/queues/{queue}/{path}", content=b"short")
        assert code_of(answer) == (409, "large-message-mixing")
        assert answer.json()["detail"].endswith(f"is used for large messages; {wanted}")
        assert answer.json()["queue"] == queue


def test_every_error_code_has_a_status():
    assert set(STATUSES) >= set(every_error())
    assert all(400 <= status < 600 for status in STATUSES.values())


def test_a_message_is_sent_leased_read_and_settled(client, queue):
    told = sent(client, queue, b"hello")
    assert told["kind"] == "message"
    lease = received(client, queue)
    assert lease.headers["dray-id"] == told["id"]
    assert lease.headers["dray-size"] == "5"
    where = lease.headers["location"]
    assert client.get(where).content == b"hello"
    assert count(client, queue) == 1
    assert client.delete(where).status_code == 204
    assert count(client, queue) == 0
    assert client.post(f"/v1/queues/{queue}/receive").status_code == 204


def test_a_long_body_is_a_large_message_and_comes_back_whole_and_in_ranges(client, queue):
    told = sent(client, queue, LONG)
    assert (told["kind"], told["size"]) == ("large", len(LONG))
    lease = received(client, queue)
    assert lease.headers["dray-kind"] == "large"
    where = lease.headers["location"]
    assert client.get(where).content == LONG
    for span in ("0-0", "999990-1000010", "-7", "5119000-", "4000000-99999999"):
        answer = client.get(where, headers={"Range": f"bytes={span}"})
        first, _, last = span.partition("-")
        start = int(first) if first else len(LONG) - int(last)
        end = min(len(LONG), int(last) + 1) if first and last else len(LONG)
        assert answer.status_code == 206
        assert answer.content == LONG[start:end]
        assert answer.headers["content-range"] == f"bytes {start}-{end - 1}/{len(LONG)}"
    behind = client.get(where, headers={"Range": f"bytes={len(LONG)}-"})
    assert code_of(behind) == (416, "range-not-there")
    assert behind.headers["content-range"] == f"bytes */{len(LONG)}"
    for ignored in ("bytes=9-3", "lines=1-2", "bytes=", "bytes=1-2,4-5", "bytes=a-b"):
        assert client.get(where, headers={"Range": ignored}).status_code == 200
    conditional = {"Range": "bytes=0-1", "If-Range": '"another body"'}
    assert client.get(where, headers=conditional).content == LONG
    assert client.delete(where).status_code == 204
    assert count(client, queue) == 0


def test_the_kind_can_be_chosen(client, queue):
    assert sent(client, queue, b"short", **{"Dray-Kind": "large"})["kind"] == "large"
    answer = client.post(
        f"/v1/queues/{queue}/messages", content=LONG, headers={"Dray-Kind": "message"}
    )
    assert code_of(answer) == (413, "message-too-large")


def test_a_receive_from_a_queue_without_transactions_is_refused_with_what_to_do(client, queue):
    name = f"{queue}-plain"
    client.put(f"/v1/queues/{name}", json={"transactional": False})
    sent(client, name)
    answer = client.post(f"/v1/queues/{name}/receive")
    assert code_of(answer) == (409, "not-transactional")
    assert "receive from a transactional queue" in answer.json()["detail"]


def test_a_parameter_that_no_route_takes_is_refused_and_nothing_is_received(client, queue):
    sent(client, queue)
    for parameter in ("wiat=1", "wait=1&knd=large"):
        answer = client.post(f"/v1/queues/{queue}/receive?{parameter}")
        assert code_of(answer) == (400, "bad-query")
        assert answer.json()["detail"].endswith("receive takes wait and kind")
    assert code_of(client.get(f"/v1/queues/{queue}?wait=1")) == (400, "bad-query")
    client.delete(received(client, queue, wait=0).headers["location"])


def test_properties_travel_as_headers(client, queue):
    sample = {
        "Dray-Label": "caf%C3%A9 100%25",
        "Dray-Correlation-Id": "an answer",
        "Dray-App-Specific": "-7",
        "Dray-Extension": base64.b64encode(b"\0\xff").decode(),
        "Dray-Response-Queue": "answers",
        "Dray-Time-To-Be-Received": "3600.0",
    }
    sent(client, queue, **sample)
    lease = received(client, queue)
    for name, value in sample.items():
        if "Time-To" not in name:
            assert lease.headers[name] == value, name
    assert lease.headers["dray-message-class"] == "normal"
    assert all(lease.headers.values()), "a property without a value has no header"
    with_values = {each.header.lower() for each in (*SENT, *RECEIVED)}
    assert with_values >= {n for n in lease.headers if n.startswith("dray-")} - {
        "dray-kind", "dray-size", "dray-receive-id",
    }  # fmt: skip
    client.delete(lease.headers["location"])


@pytest.mark.parametrize(
    ("header", "value"),
    [
        ("Dray-Priority", "high"),
        ("Dray-App-Specific", "1_000"),
        ("Dray-Time-To-Be-Received", "1_0"),
        ("Dray-Time-To-Be-Received", "infinity"),
        ("Dray-Lable", "x"),
        ("Dray-Extension", "***"),
        ("Dray-Label", "%FF"),
        ("Dray-Recoverable", "yes"),
        ("Dray-Acknowledge", "everything"),
        ("Dray-Kind", "huge"),
        ("Idempotency-Key", "k" * 201),
    ],
)
def test_a_wrong_header_is_a_400_that_says_what_to_do(client, queue, header, value):
    answer = client.post(f"/v1/queues/{queue}/messages", content=b"x", headers={header: value})
    assert code_of(answer) == (400, "bad-header")
    sentence = answer.json()["detail"]
    assert not any(word in sentence for word in ("literal", "codec", "float"))
    assert count(client, queue) == 0


def test_acknowledgments_that_no_queue_would_receive_are_refused(client, queue):
    headers = {"Dray-Acknowledge": "positive-receive"}
    answer = client.post(f"/v1/queues/{queue}/messages", content=b"x", headers=headers)
    assert code_of(answer) == (400, "bad-header")
    assert "needs Dray-Administration-Queue" in answer.json()["detail"]
    assert count(client, queue) == 0


def test_a_path_with_wrong_utf_8_names_no_queue(client):
    """It named the queue `\ufffd`, whatever the wrong byte was."""
    for wrong in ("%FF", "%C3", "a%80"):
        answer = client.put(f"/v1/queues/{wrong}", json={})
        assert code_of(answer) == (400, "invalid-queue-name")
    assert client.put("/v1/queues/%EF%BF%BD", json={}).status_code == 201
    assert client.delete("/v1/queues/%EF%BF%BD").status_code == 204


@pytest.mark.parametrize(
    ("said", "means"), [("10", 10), ("1.5", 1.5), ("1e-05", 1e-05), (".5", 0.5)]
)
def test_a_duration_may_be_any_decimal_number(said, means):
    asked = properties_of({"dray-time-to-be-received": said}, ["dray-time-to-be-received"])
    assert asked == {"time_to_be_received": means}


def test_a_wrong_value_of_a_property_is_refused_by_its_code(client, queue):
    answer = client.post(
        f"/v1/queues/{queue}/messages", content=b"x", headers={"Dray-Label": "x" * 300}
    )
    assert answer.status_code == 400
    assert code_of(client.get("/v1/queues/nowhere")) == (404, "queue-not-found")
    assert code_of(client.put(f"/v1/queues/{queue}", json={})) == (409, "queue-exists")
    assert client.put(f"/v1/queues/{queue}", json={"exist_ok": True}).status_code == 201
    assert client.put("/v1/queues/small", json={"quota": "1MiB"}).json()["quota"] == 1 << 20
    assert code_of(client.put("/v1/queues/x", json={"nothing": 1})) == (400, "bad-json")
    assert code_of(client.put("/v1/queues/x", json={"quota": -1})) == (400, "invalid-configuration")
    for method in ("GET", "POST", "PATCH", "DELETE", "ODD"):
        for path in ("/v1", "/v1/nothing", "/v1/leases/", "/v1/queues/a%0Ab", "/nothing"):
            assert code_of(client.request(method, path)) == (404, "no-such-path")
    refused = client.patch("/v1/queues")
    assert code_of(refused) == (405, "method-not-allowed")
    assert "GET" in refused.headers["allow"]


def test_the_same_key_sends_once_and_another_body_is_422(client, queue, server):
    path, key = f"/v1/queues/{queue}/messages", {"Idempotency-Key": "order 1"}
    first = client.post(path, content=b"once", headers=key)
    again = client.post(path, content=b"once", headers=key)
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json() == again.json()
    assert again.headers["idempotency-replayed"] == "true"
    assert code_of(client.post(path, content=b"other", headers=key)) == (422, "key-reused")
    twice = client.post(path, content=b"x", headers=[("Idempotency-Key", k) for k in "ab"])
    assert code_of(twice) == (400, "bad-header")
    labelled = {**key, "Dray-Label": "other"}
    assert code_of(client.post(path, content=b"once", headers=labelled)) == (422, "key-reused")
    assert count(client, queue) == 1
    # The key is that of one caller.
    with server.caller("other") as other:
        assert other.post(path, content=b"mine", headers=key).status_code == 201
    assert count(client, queue) == 2


def test_a_key_makes_a_large_message_safe_to_repeat(client, queue):
    path, key = f"/v1/queues/{queue}/messages", {"Idempotency-Key": "large"}
    first = client.post(path, content=LONG, headers=key)
    again = client.post(path, content=LONG, headers=key)
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json() == again.json()
    lease = received(client, queue)
    assert client.get(lease.headers["location"]).content == LONG
    client.delete(lease.headers["location"])
    assert count(client, queue) == 0


def test_many_requests_with_one_key_at_once_send_once(client, queue, server):
    answers = []

    def send():
        with server.client(client.token) as own:
            answers.append(
                own.post(
                    f"/v1/queues/{queue}/messages",
                    content=b"once",
                    headers={"Idempotency-Key": "crowd"},
                )
            )

    threads = [threading.Thread(target=send) for _ in range(6)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert {each.status_code for each in answers} <= {200, 201}
    assert len({each.json()["id"] for each in answers}) == 1
    assert count(client, queue) == 1


def test_a_lease_can_be_given_back_and_ends_tell_how(client, queue):
    sent(client, queue)
    where = received(client, queue).headers["location"]
    assert client.patch(where).status_code == 204
    assert client.post(f"{where}/abort").status_code == 204
    assert client.post(f"{where}/abort").status_code == 204
    assert code_of(client.delete(where)) == (410, "lease-ended")
    again = received(client, queue)
    assert again.headers["dray-abort-count"] == "1"
    assert client.delete(again.headers["location"]).status_code == 204
    assert client.delete(again.headers["location"]).status_code == 204
    assert code_of(client.get(again.headers["location"])) == (410, "lease-ended")


def test_a_lease_of_another_caller_is_not_found(client, queue, server):
    sent(client, queue)
    where = received(client, queue).headers["location"]
    with server.caller("thief") as thief:
        for answer in (
            thief.get(where),
            thief.delete(where),
            thief.patch(where),
            thief.post(f"{where}/abort"),
        ):
            assert code_of(answer) == (404, "lease-not-found")
    assert client.delete(where).status_code == 204


def test_a_transaction_of_several_requests_is_all_or_nothing(client, queue):
    sent(client, queue, b"input")
    for end, left in (("abort", 1), ("commit", 1)):
        begun = client.post("/v1/transactions")
        assert begun.status_code == 201
        within = {"Dray-Transaction": begun.json()["id"]}
        lease = received(client, queue, **within)
        body = client.get(lease.headers["location"]).content
        assert body == b"input"
        assert code_of(client.delete(lease.headers["location"])) == (409, "in-transaction")
        sent(client, queue, b"output", **within)
        assert client.patch(begun.headers["location"]).status_code == 204
        assert client.post(f"{begun.headers['location']}/{end}").status_code == 204
        assert client.post(f"{begun.headers['location']}/{end}").status_code == 204
        outcome = client.get("/v1/outcome", params={"id": begun.json()["transaction_id"]})
        assert outcome.json()["outcome"] == ("committed" if end == "commit" else "aborted")
        assert count(client, queue) == left
        assert code_of(client.get(lease.headers["location"])) == (410, "lease-ended")
    assert client.get(received(client, queue).headers["location"]).content == b"output"


def test_a_key_and_a_transaction_exclude_each_other(client, queue):
    begun = client.post("/v1/transactions").json()["id"]
    headers = {"Dray-Transaction": begun, "Idempotency-Key": "x"}
    answer = client.post(f"/v1/queues/{queue}/messages", content=b"x", headers=headers)
    assert code_of(answer) == (400, "key-in-transaction")
    client.post(f"/v1/transactions/{begun}/abort")


def test_a_receive_waits_and_gets_whatever_kind_comes(client, queue, server):
    for body in (b"short", LONG):
        answers = []

        def wait(answers=answers):
            with server.client(client.token) as own:
                answers.append(own.post(f"/v1/queues/{queue}/receive?wait=30"))

        waiting = threading.Thread(target=wait)
        waiting.start()
        sent(client, queue, body)
        waiting.join()
        where = answers[0].headers["location"]
        assert client.get(where).content == body
        assert client.delete(where).status_code == 204


def test_a_client_that_hangs_up_while_it_waits_takes_nothing_with_it(client, queue, server):
    host, _, port = server.base.removeprefix("http://").partition(":")
    with server.caller("hasty") as hasty, socket.create_connection((host, int(port))) as waiting:
        request = (
            f"POST /v1/queues/{queue}/receive?wait=60 HTTP/1.1\r\nHost: x\r\n"
            f"Authorization: Bearer {hasty.token}\r\nContent-Length: 0\r\n\r\n"
        )
        waiting.sendall(request.encode())
        # Two requests later the first one waits.
        assert [hasty.get("/v1/manager").status_code for _ in range(2)] == [200, 200]
    sent(client, queue, b"for the next")
    assert client.get(received(client, queue).headers["location"]).content == b"for the next"


def test_a_caller_without_rights_is_refused_and_a_stranger_is_401(tmp_path, server):
    assert code_of(server.client("nobody").get("/v1/queues")) == (401, "unauthorized")
    import httpx

    bare = httpx.get(f"{server.base}/v1/queues")
    assert code_of(bare) == (401, "unauthorized")
    assert bare.headers["www-authenticate"].startswith("Bearer")


def test_a_revoked_token_is_401_at_the_next_request(server):
    with server.caller("gone") as gone:
        assert gone.get("/v1/manager").status_code == 200
        with server.connect_as_owner() as owner:
            owner.revoke_token("gone")
        assert code_of(gone.get("/v1/manager")) == (401, "unauthorized")


def test_what_python_sends_http_receives_and_the_other_way(client, queue, server):
    with server.connect_as_owner() as owner:
        owner.queue(queue).send(b"from python", label="p")
        lease = received(client, queue)
        assert lease.headers["dray-label"] == "p"
        assert client.get(lease.headers["location"]).content == b"from python"
        client.delete(lease.headers["location"])
        sent(client, queue, LONG, **{"Dray-Label": "h", "Dray-Digest": "sha256"})
        with dray.LargeMessageQueue(owner.queue(queue)).receive(timeout=10) as message:
            assert message.label == "h"
            assert message.digest == hashlib.sha256(LONG).digest()
            assert message.body() == LONG


def test_the_pages_for_operators_stand_on_the_same_address(client, server):
    import httpx

    assert httpx.get(f"{server.base}/healthz").text == "alive\n"
    assert httpx.get(f"{server.base}/readyz").text == "ready\n"
    assert "dray_manager_info" in httpx.get(f"{server.base}/metrics").text


@pytest.fixture
def soon():
    """Holdings whose things end by time at once."""
    from dray.console.v1 import held

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(held, "LEASE_S", 0.01)
        yield held


class Thing:
    """Something that is held."""

    timed = True

    def __init__(self, name):
        self.id, self.uses = name, 0
        self.aborted = asyncio.Event()

    async def abort(self):
        self.aborted.set()


def test_a_lease_that_nobody_renews_is_aborted_and_one_that_is_read_is_not(soon):
    async def both():
        holdings, lost, read = soon.Holdings("lease"), Thing("lost"), Thing("read")
        async with holdings.used(read):
            holdings.add(lost)
            holdings.add(read)
            await lost.aborted.wait()
            assert await holdings.end_of("lost") is soon.Ended.TIMED_OUT
            assert holdings.find("read") is read
            assert not read.aborted.is_set()
        await read.aborted.wait()
        with pytest.raises(soon.HttpRefusal, match="nobody renewed it"):
            holdings.find("lost")

    asyncio.run(both())


def test_a_settle_that_comes_twice_waits_for_the_outcome_of_the_first(soon):
    async def both():
        holdings, thing, let = soon.Holdings("lease"), Thing("x"), asyncio.Event()
        holdings.add(thing)

        async def refused():
            await let.wait()
            raise dray.TransactionAborted("no; again", transaction_id="x")

        first = asyncio.create_task(holdings.end(thing, soon.Ended.COMMITTED, refused))
        second = asyncio.create_task(holdings.end_of("x"))
        done, _ = await asyncio.wait((first, second), timeout=0.01)
        assert not done
        let.set()
        with pytest.raises(dray.TransactionAborted):
            await first
        assert await second is soon.Ended.ABORTED

    asyncio.run(both())


def test_a_label_travels_with_blanks_at_its_ends_and_as_plain_utf_8(client, queue, server):
    with server.connect_as_owner() as owner:
        owner.queue(queue).send(b"x", label="  two blanks ", correlation_id=" ")
    lease = received(client, queue)
    assert lease.headers["dray-label"] == "%20%20two%20blanks%20"
    assert lease.headers["dray-correlation-id"] == "%20"
    client.delete(lease.headers["location"])
    # As `curl -H "Dray-Label: café"` does it.
    sent(client, queue, **{"Dray-Label": "café".encode()})
    lease = received(client, queue)
    assert lease.headers["dray-label"] == "caf%C3%A9"
    client.delete(lease.headers["location"])


def test_properties_that_are_too_long_for_headers_are_read_beside_them(client, queue, server):
    extension = bytes(range(256)) * 200
    with server.connect_as_owner() as owner:
        owner.queue(queue).send(b"x", label="long", extension=extension)
    lease = received(client, queue)
    assert sum(map(len, lease.headers.values())) < 8_192
    assert lease.headers["dray-left-out"] == "Dray-Extension"
    assert lease.headers["dray-label"] == "long"
    told = client.get(f"{lease.headers['location']}/properties").json()
    assert base64.b64decode(told["Dray-Extension"]) == extension
    assert told["Dray-Label"] == "long"
    assert client.get(lease.headers["location"]).headers["dray-left-out"] == "Dray-Extension"
    client.delete(lease.headers["location"])


@pytest.mark.parametrize("name", ["日本 #1?", "100%", "a/b"])
def test_the_location_of_a_new_queue_leads_to_it(client, name):
    made = client.put(f"/v1/queues/{quote(name, safe='')}", json={})
    if "/" in name:
        assert code_of(made)[0] == 400
        return
    assert client.get(made.headers["location"]).json()["name"] == name
    assert client.delete(made.headers["location"]).status_code == 204
