"""The observer of worlds notices what nobody may be told."""

from __future__ import annotations

import pytest

from dray.model.classes import Acknowledge, MessageClass
from dray.model.message import Message
from dray.testing.fates import Asked, Fates
from dray.testing.shadow import BrokenPromiseError


@pytest.mark.parametrize("asked_for", [Acknowledge(0), Acknowledge(8), Acknowledge(15)])
def test_a_doubt_that_is_told_breaks_a_promise_whatever_else_is_known(asked_for):
    fates = Fates()
    sent = fates.begin("producer", "a", 1)
    message = Message(body=b"", acknowledge=asked_for)
    asked = Asked(sent, "a", "b", "plain", b"", message, 0.0, transactional=True, told_at="a")
    fates.add("an id", asked)
    with pytest.raises(BrokenPromiseError, match="an id was told to be in doubt"):
        fates.found_told("a/acks", "an id", MessageClass.NACK_RECEIVE_TIMEOUT_AT_SENDER)
