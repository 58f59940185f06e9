"""The sample, where the answer of the console is lost on its way to the browser."""

from __future__ import annotations

import dray


def test_a_file_is_offered_when_nobody_knows_whether_its_message_has_left(open_page, stage):
    with stage.connect() as manager:
        manager.create_queue("statusq", exist_ok=True)
        queue = manager.create_queue("largemessageq", exist_ok=True)
        dray.LargeMessageQueue(queue).send(b"the only copy", label="only.txt")
        page = open_page("/sample")
        page.provoked.append("Failed to load resource")

        def lose(route):
            route.fetch()
            route.abort()

        page.route("**/keep", lose)
        page.get_by_role("button", name="Complete Receive").click()
        page.get_by_role("alert").filter(has_text="whether the message has left").wait_for()
        assert queue.info().message_count == 0
        with page.expect_download() as waiting:
            page.get_by_role("link", name="Save").click()
        with open(waiting.value.path(), "rb") as file:  # noqa: PTH123 - as playwright gives it
            assert file.read() == b"the only copy"
