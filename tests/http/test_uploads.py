"""Resumable uploads by tus: with a client of other people, by hand, and through restarts."""

from __future__ import annotations

import base64
import hashlib
import io
import os
import socket
from contextlib import contextmanager

import pytest
from tusclient.client import TusClient

from tests.http.conftest import received
from tests.integration.commands import until

PATCH = "application/offset+octet-stream"
SIZE = 3_000_000
BODY = os.urandom(SIZE)
PIECE = 256 * 1024


def tus(**more):
    said = {k.replace("_", "-"): v if isinstance(v, bytes) else str(v) for k, v in more.items()}
    return {"Tus-Resumable": "1.0.0", **said}


def metadata(**values):
    return ",".join(f"{k} {base64.b64encode(v.encode()).decode()}" for k, v in values.items())


def create(client, queue, length=SIZE, **more):
    headers = tus(upload_length=length, upload_metadata=metadata(queue=queue, **more))
    answer = client.post("/v1/uploads", headers=headers)
    assert answer.status_code == 201, answer.text
    assert answer.headers.get("upload-expires", "").endswith("GMT") == bool(length)
    return answer.headers["location"]


def patch(client, where, offset, body, **more):
    headers = {**tus(upload_offset=offset, **more), "Content-Type": PATCH}
    return client.patch(where, headers=headers, content=body)


def offset(client, where):
    answer = client.head(where, headers=tus())
    assert answer.status_code == 200, answer.text
    return int(answer.headers["upload-offset"])


def nothing_is_there(client, queue):
    return client.post(f"/v1/queues/{queue}/receive").status_code == 204


def test_tuspy_sends_a_file_in_chunks(client, queue, server):
    theirs = TusClient(f"{server.base}/v1/uploads", {"Authorization": f"Bearer {client.token}"})
    uploader = theirs.uploader(
        file_stream=io.BytesIO(BODY),
        chunk_size=700_001,
        metadata={"queue": queue, "filename": "b.bin", "dray-app-specific": "7"},
        upload_checksum=True,
    )
    uploader.upload()
    lease, body = received(client, queue)
    assert body == BODY
    assert lease.headers["dray-label"] == "b.bin"
    assert lease.headers["dray-app-specific"] == "7"


def test_tuspy_goes_on_where_another_one_was_interrupted(client, queue, server):
    theirs = TusClient(f"{server.base}/v1/uploads", {"Authorization": f"Bearer {client.token}"})
    first = theirs.uploader(
        file_stream=io.BytesIO(BODY), chunk_size=1_000_000, metadata={"queue": queue}
    )
    first.upload_chunk()
    second = theirs.uploader(
        file_stream=io.BytesIO(BODY), chunk_size=1_000_000, url=first.url, metadata={}
    )
    assert second.offset == 1_000_000
    second.upload()
    assert received(client, queue)[1] == BODY


def test_pieces_of_any_length_become_one_message(client, queue):
    where = create(client, queue)
    assert nothing_is_there(client, queue)
    at = 0
    for length in (1, 10, PIECE, PIECE - 11, 5, 0, 999_999):
        answer = patch(client, where, at, BODY[at : at + length])
        assert answer.status_code == 204, answer.text
        at += length
        assert int(answer.headers["upload-offset"]) == at == offset(client, where)
    assert nothing_is_there(client, queue)
    assert patch(client, where, at, BODY[at:]).status_code == 204
    assert offset(client, where) == len(BODY)
    # The last answer may have been lost: a client that asks is told that all is there.
    assert patch(client, where, len(BODY), b"").status_code == 204
    assert received(client, queue)[1] == BODY
    assert nothing_is_there(client, queue)


@contextmanager
def half_sent(client, server, where, body):
    """A request of which the server has taken the half, and whose connection is dead."""
    with socket.create_connection(("127.0.0.1", int(server.base.rpartition(":")[2]))) as dead:
        head = f"PATCH {where} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {client.token}\r\n"
        lines = {**tus(upload_offset=0, content_length=len(body)), "Content-Type": PATCH}
        head += "".join(f"{name}: {value}\r\n" for name, value in lines.items()) + "\r\n"
        dead.sendall(head.encode() + body[: len(body) // 2])
        # It is taken: others are told so.
        until(lambda: patch(client, where, 0, b"").status_code == 423)
        yield dead


@pytest.mark.slow
@pytest.mark.parametrize("length", [SIZE, 100_000], ids=["long", "short"])
def test_head_ends_a_request_whose_connection_is_dead_and_the_upload_goes_on(
    client, queue, server, length
):
    where, body = create(client, queue, length), BODY[:length]
    with half_sent(client, server, where, body) as dead:
        there = offset(client, where)
        assert there <= length // 2
        assert dead.recv(65536).startswith(b"HTTP/1.1 409")
    assert patch(client, where, there, body[there:]).status_code == 204
    assert received(client, queue)[1] == body


def test_delete_ends_a_request_whose_connection_is_dead_and_drops_the_upload(client, queue, server):
    where = create(client, queue, 100_000)
    with half_sent(client, server, where, BODY[:100_000]) as dead:
        assert client.delete(where, headers=tus()).status_code == 204
        assert dead.recv(65536).startswith(b"HTTP/1.1 409")
    assert client.head(where, headers=tus()).status_code == 404
    assert client.get(f"/v1/queues/{queue}").json()["byte_count"] == 0


def test_an_empty_upload_is_an_empty_message(client, queue):
    where = create(client, queue, 0)
    assert offset(client, where) == 0
    assert received(client, queue)[1] == b""


def test_bytes_that_do_not_fit_their_checksum_are_not_kept(client, queue):
    where = create(client, queue)
    wrong = base64.b64encode(b"x" * 20).decode()
    assert patch(client, where, 0, BODY[:100]).status_code == 204
    answer = patch(client, where, 100, BODY[100:700_000], upload_checksum=f"sha1 {wrong}")
    assert (answer.status_code, answer.json()["code"]) == (460, "checksum-mismatch")
    assert answer.headers["tus-resumable"] == "1.0.0"
    assert offset(client, where) == 100
    at = 100
    for name in ("sha1", "sha256", "md5"):
        piece = BODY[at : at + 500_000]
        said = base64.b64encode(getattr(hashlib, name)(piece).digest()).decode()
        assert patch(client, where, at, piece, upload_checksum=f"{name} {said}").is_success
        at += len(piece)
    unknown = patch(client, where, at, b"x", upload_checksum="crc99 eA==")
    assert (unknown.status_code, unknown.json()["code"]) == (400, "bad-checksum")
    strange = patch(client, where, at, b"x", upload_checksum=b"sha1 \xe9")
    assert (strange.status_code, strange.json()["code"]) == (400, "bad-checksum")
    assert patch(client, where, at, BODY[at:]).status_code == 204
    assert received(client, queue)[1] == BODY


def test_a_dropped_upload_is_gone_and_leaves_nothing(client, queue):
    where = create(client, queue)
    assert patch(client, where, 0, BODY[:1_000_000]).status_code == 204
    assert client.delete(where, headers=tus()).status_code == 204
    for answer in (
        client.head(where, headers=tus()),
        client.delete(where, headers=tus()),
        patch(client, where, 1_000_000, BODY[1_000_000:]),
    ):
        assert answer.status_code == 404
    assert client.get(f"/v1/queues/{queue}").json()["byte_count"] == 0


def test_an_upload_of_another_caller_is_not_found(client, queue, server):
    where = create(client, queue)
    with server.caller("thief") as thief:
        assert thief.head(where, headers=tus()).status_code == 404
        assert patch(thief, where, 0, b"x").status_code == 404
        assert thief.delete(where, headers=tus()).status_code == 404
    assert offset(client, where) == 0


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Upload-Length": "5", "Upload-Metadata": "queue YQ=="}, 412),
        ({"Tus-Resumable": "0.2.2", "Upload-Length": "5"}, 412),
        (tus(upload_metadata="queue YQ=="), 400),
        (tus(upload_length="-5", upload_metadata="queue YQ=="), 400),
        (tus(upload_length="5", upload_metadata="queue YQ==", upload_concat="partial"), 400),
        (tus(upload_length="5"), 400),
        (tus(upload_length="5", upload_metadata="queue ***"), 400),
        (tus(upload_length="5", upload_metadata=metadata(queue="missing")), 404),
        (tus(upload_length=9 * 10**18, upload_metadata="queue YQ=="), 413),
        (tus(upload_length="5", upload_metadata="queue " + "A" * 5000), 413),
        (tus(upload_length="5", upload_metadata="queue YQ==,Queue Yg=="), 400),
        (tus(upload_length="5", upload_metadata="queue /////w=="), 400),
        (tus(upload_length="5", upload_metadata=metadata(queue="a", **{"dray-x": "y"})), 400),
    ],
)
def test_a_wrong_creation_is_refused(client, headers, status):
    answer = client.post("/v1/uploads", headers=headers)
    assert answer.status_code == status, answer.text
    assert answer.headers["tus-resumable"] == "1.0.0"


def test_a_wrong_piece_is_refused_and_changes_nothing(client, queue):
    where = create(client, queue, 10)
    assert patch(client, where, 3, b"x").status_code == 409
    assert patch(client, where, "x", b"x").status_code == 400
    assert patch(client, where, 0, b"x" * 11).status_code == 400
    bare = client.patch(where, headers=tus(upload_offset=0), content=b"x")
    assert bare.status_code == 415
    assert offset(client, where) == 0
    assert client.head(f"{where}0", headers=tus()).status_code in (200, 404)
    told = client.options("/v1/uploads").headers
    assert told["tus-extension"] == "creation,expiration,termination,checksum"


@pytest.mark.parametrize("length", [10, 2 * SIZE], ids=["short", "long"])
def test_a_request_that_says_more_bytes_than_are_left_is_refused_before_its_first_byte(
    client, queue, length
):
    where = create(client, queue, length)
    assert patch(client, where, 0, bytes(length + 1)).status_code == 400
    assert offset(client, where) == 0


@pytest.mark.parametrize("chunked", [False, True])
def test_bytes_behind_the_end_of_an_upload_are_refused_and_not_dropped(client, queue, chunked):
    where = create(client, queue, 10)
    assert patch(client, where, 0, bytes(10)).status_code == 204
    more = iter([b"more"]) if chunked else b"more"
    answer = patch(client, where, 10, more)
    assert (answer.status_code, answer.json()["code"]) == (400, "upload-too-long")
    assert patch(client, where, 10, b"").status_code == 204


def test_every_answer_at_an_upload_names_the_version_also_a_refusal(client, queue, server):
    where = create(client, queue, 10)
    with server.client("wrong") as stranger:
        for answer, status in (
            (stranger.head(where, headers=tus()), 401),
            (client.put(where, headers=tus()), 405),
            (client.get("/v1/uploads"), 405),
            (client.head(f"{where}x", headers=tus()), 404),
            (client.head(where), 412),
            (client.head(where, headers=tus()), 200),
            (client.options("/v1/uploads"), 204),
        ):
            assert answer.status_code == status
            assert answer.headers["tus-resumable"] == "1.0.0"
            assert answer.headers["cache-control"] == "no-store"
            assert ("tus-version" in answer.headers) == (status in {412, 204})


def test_a_header_names_the_method_for_clients_that_send_few_methods(client, queue):
    where = create(client, queue, 4)

    def post(method, body=b"", **more):
        named = {"X-HTTP-Method-Override": method, "Content-Type": PATCH}
        return client.post(where, headers=tus(**more) | named, content=body)

    assert post("PATCH", b"ab", upload_offset=0).headers["upload-offset"] == "2"
    assert post("HEAD").headers["upload-offset"] == "2"
    # Where nothing speaks tus, the header means nothing.
    override = {"X-HTTP-Method-Override": "DELETE"}
    assert client.get(f"/v1/queues/{queue}", headers=override).status_code == 200
    assert post("DELETE").status_code == 204
    assert client.head(where, headers=tus()).status_code == 404


def test_head_repeats_the_metadata_of_an_unfinished_upload(client, queue):
    said = f"{metadata(queue=queue, filename='b.bin')},of-others /////w==,empty"
    headers = tus(upload_length=4, upload_metadata=said)
    where = client.post("/v1/uploads", headers=headers).headers["location"]
    told = client.head(where, headers=tus()).headers
    assert told["upload-metadata"] == said
    done = patch(client, where, 0, b"abcd")
    assert "upload-expires" not in done.headers, "it is finished, so it does not expire"
    assert received(client, queue)[0].headers["dray-label"] == "b.bin"
