"""Clients that are not ours, over HTTP: curl, tus-js-client, and a program in Go."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.http.conftest import received

HERE = Path(__file__).parent
MODULES = (
    Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "dray/browser/node_modules"
)
BODY = os.urandom(5_000_000)


def needed(there, what):
    """Skip without a program, and say so; where the tests of pages are required, so is this."""
    if not there:
        said = f"no {what}: install it (`make browser` brings tus-js-client)"
        (pytest.fail if os.environ.get("DRAY_BROWSER") == "required" else pytest.skip)(said)


def run(*command, stdin=b""):
    # A program in Go needs no compiler of C, and is built in half of the time without.
    done = subprocess.run(
        command,
        input=stdin,
        capture_output=True,
        timeout=280,
        check=False,
        env={**os.environ, "CGO_ENABLED": "0"},
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "body.bin"
    path.write_bytes(BODY)
    return path


@pytest.mark.slow
def test_curl_sends_receives_and_resumes(client, queue, server, file):
    needed(shutil.which("curl"), "curl")
    curl = ["curl", "--silent", "--show-error", "--fail-with-body"]
    curl += ["-H", f"Authorization: Bearer {client.token}"]
    told = run(*curl, "-T", str(file), "-X", "POST", f"{server.base}/v1/queues/{queue}/messages")
    assert json.loads(told)["size"] == len(BODY)
    chunked = [*curl, "-T", "-", "-X", "POST", f"{server.base}/v1/queues/{queue}/messages"]
    run(*chunked, "-H", "Dray-Kind: large", stdin=b"from a pipe")
    for wanted in (BODY, b"from a pipe"):
        heads = run(*curl, "-i", "-X", "POST", f"{server.base}/v1/queues/{queue}/receive?wait=9")
        lease = f"/v1/leases/{heads.decode().split('/v1/leases/')[1].split()[0]}"
        into = file.with_name("received")
        half = len(wanted) // 2
        run(*curl, "-r", f"0-{half - 1}", "-o", str(into), server.base + lease)
        # curl goes on where the file ends, by Range.
        run(*curl, "-C", "-", "-o", str(into), server.base + lease)
        assert into.read_bytes() == wanted
        into.unlink()
        run(*curl, "-X", "DELETE", server.base + lease)
    assert client.get(f"/v1/queues/{queue}").json()["message_count"] == 0


@pytest.mark.slow
def test_tus_js_client_sends_in_chunks_and_goes_on_after_an_interruption(
    client, queue, server, file
):
    needed(shutil.which("node") and (MODULES / "tus-js-client").is_dir(), "tus-js-client in node")
    told = run(
        "node", str(HERE / "client.js"), str(MODULES), f"{server.base}/v1/uploads", client.token,
        queue, str(file), "900000",
    )  # fmt: skip
    assert b"/v1/uploads/" in told
    lease, body = received(client, queue)
    assert body == BODY
    assert lease.headers["dray-label"] == "from node"


@pytest.mark.slow
def test_a_program_in_go_sends_receives_and_resumes(client, queue, server, file):
    needed(shutil.which("go"), "go")
    go_client = str(file.with_name("client"))
    run("go", "build", "-o", go_client, str(HERE / "client.go"))
    asked = (server.base, client.token, queue)
    first, again = run(go_client, "send", *asked, "a key", stdin=b"from Go").splitlines()
    assert first == again
    assert run(go_client, "receive", *asked) == b"from Go"
    told = run(go_client, "upload", *asked, str(file), "3000000")
    assert b"goes on at" in told
    assert run(go_client, "receive", *asked) == BODY
    assert client.get(f"/v1/queues/{queue}").json()["message_count"] == 0
