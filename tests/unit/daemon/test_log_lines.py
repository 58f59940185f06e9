"""Each line of the log about a connection names its caller and its address."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dray.manager.notices import NoticeKind
from dray.wire import frames, message_frames

DRAY = Path(__file__).parents[3] / "src/dray"
OF_CALLERS = (
    NoticeKind.ANSWER_UNSENT,
    NoticeKind.CONNECTION_ENDED,
    NoticeKind.CONNECTION_REFUSED,
    NoticeKind.KEY_NOT_SHOWN,
    NoticeKind.OLDER_COPY,
    NoticeKind.OTHER_COPY,
    NoticeKind.TLS_FAILED,
)
"""Kinds of notices about a connection that somebody else has made."""
NAMES_A_CALLER = re.compile(
    r"\{(session\.caller|newest\.caller|self\.caller|caller|stranger)\b[ }]"
)


def sayings(kind: NoticeKind) -> list[str]:
    """The functions that say a notice of a kind about a session or a connection."""
    found = []
    for path in sorted(DRAY.rglob("*.py")):
        text = path.read_text()
        for said in re.finditer(rf"(notices\.\w+\(|NoticeKind\.){kind.name}\b", text):
            begin = text.rfind("def ", 0, said.start())
            function = text[begin : said.end()]
            if "notices." in function and "context.peers" not in function:
                found.append(function)
    return found


@pytest.mark.parametrize("kind", OF_CALLERS)
def test_each_place_that_says_something_of_a_caller_names_it_with_its_address(kind):
    functions = sayings(kind)
    assert functions
    for function in functions:
        assert NAMES_A_CALLER.search(function), function


def test_bytes_that_are_no_frame_are_logged_with_caller_and_address(echo, caplog):
    with echo.tcp_client() as client:
        address = "{}:{}".format(*client.socket.getsockname())
        client.socket.sendall(b"no frame at all" * 10)
        client.hear()
        assert client.is_hung_up()
    assert f"(anyone ({address}))" in caplog.text


@pytest.mark.parametrize("head", [frames.Lease(), message_frames.Outcome("x")])
def test_a_frame_that_could_not_be_handled_is_logged_with_caller_and_address(echo, caplog, head):
    with echo.tcp_client() as client:
        address = "{}:{}".format(*client.socket.getsockname())
        client.ask(head)
    said = f"{type(head).__name__} of session 1 of anyone ({address}) could not be handled"
    assert said in caplog.text
