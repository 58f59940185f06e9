"""Promises about streams that arrive: frames, and when their room looks at them again."""

from __future__ import annotations

from dray.manager.incoming import streams
from tests.inspection import look_into


def test_each_frame_of_a_stream_is_handled(driver):
    arriving = look_into(driver.manager).subjects.streams
    assert arriving.without_body.keys() == streams.STREAM_FRAMES_WITHOUT_BODY
    assert arriving.with_body.keys() == streams.STREAM_FRAMES_WITH_BODY
