"""Uploads from a page in a real browser: tus-js-client, through a connection that breaks."""

from __future__ import annotations

import hashlib
import os
from types import SimpleNamespace

import pytest

import dray
from tests.browser.conftest import CACHE
from tests.browser.programs import Stage, managed
from tests.integration.commands import dray as command
from tests.integration.commands import until
from tests.lines.line import Line

pytestmark = pytest.mark.slow
CLIENT = CACHE / "node_modules" / "tus-js-client" / "dist" / "tus.min.js"
SIZE = 4_000_000
PASSED = 2_500_000
RULES = '[[access]]\nwho = ["token:app"]\nqueues = ["*"]\nmay = ["send", "receive"]\n'
START = """
([token, size]) => {
  const body = Uint8Array.from({ length: size }, (_, at) => (at * 7 + (at >> 8)) % 251);
  window.offsets = [];
  window.sent = new Promise((resolve, reject) => {
    window.upload = new tus.Upload(new File([body], "film.mkv"), {
      endpoint: "/v1/uploads",
      headers: { Authorization: `Bearer ${token}` },
      metadata: { queue: "films", filename: "film.mkv" },
      retryDelays: [0, 100, 500, 1000, 1000, 1000],
      onBeforeRequest: (request) => {
        const offset = request.getHeader("Upload-Offset");
        if (request.getMethod() === "PATCH") window.offsets.push(Number(offset));
      },
      onError: reject,
      onSuccess: resolve,
    });
    window.upload.start();
  });
  window.sent.catch(() => null);
}
"""


@pytest.fixture
def stage(tmp_path):
    (tmp_path / "dray.toml").write_text(RULES)
    made = command("token", "create", "app", "--data", tmp_path / "data").assert_good()
    with managed(tmp_path, "--config", str(tmp_path / "dray.toml")) as url:
        stage = Stage(url, tmp_path)
        stage.token = made.out.strip()
        try:
            yield stage
        finally:
            assert stage.console.stop() == 0
            assert stage.console.logged() == ""


def stored_bytes(data):
    """Bytes of large messages in the files of a queue manager, room ahead of them left out."""
    return sum(len(each.read_bytes().rstrip(b"\0")) for each in data.glob("storage/p*.mq"))


def test_tus_js_client_in_a_browser_goes_on_after_a_dropped_connection(open_page, stage, tmp_path):
    if not CLIENT.exists():
        said = "no tus-js-client: run `make browser`"
        (pytest.fail if os.environ.get("DRAY_BROWSER") == "required" else pytest.skip)(said)
    port = int(stage.address.rpartition(":")[2])
    with stage.connect() as manager, Line(port).listen() as line:
        films = dray.LargeMessageQueue(manager.create_queue("films"))
        through = SimpleNamespace(address=f"http://127.0.0.1:{line.port}", cookie=stage.cookie)
        page = open_page("/sample", at=through)
        # Chromium itself repeats a request whose connection was reset, from the same offset.
        page.provoked += ["net::ERR", "423", "409"]
        # Not as an element of the page: its policy allows the console's own scripts only.
        page.evaluate(CLIENT.read_text("utf-8"))
        line.stall_behind(PASSED)
        page.evaluate(START, [stage.token, SIZE])
        until(lambda: line.stands_still)
        # A console that has read nothing yet when the connection breaks begins anew, and may.
        until(lambda: stored_bytes(tmp_path / "data") > PASSED // 2)
        line.cut()
        line.stall(0)
        page.evaluate("() => window.sent")
        first, *others = page.evaluate("() => window.offsets")
        assert first == 0
        assert others
        assert all(0 < each <= PASSED for each in others), f"it went on at {others}"
        with films.receive(timeout=10) as message:
            body = bytes((at * 7 + (at >> 8)) % 251 for at in range(SIZE))
            assert message.label == "film.mkv"
            assert hashlib.sha256(message.body()).digest() == hashlib.sha256(body).digest()
