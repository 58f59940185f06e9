"""Browsers of a console, as far as a benchmark needs them: they poll a page."""

from __future__ import annotations

import http.client
import os
import threading
import time


def poll_pages(
    *,
    host: str,
    port: int,
    cookie: str,
    path: str,
    browsers: int,
    every_s: float,
    for_s: float,
    nice: int = 0,
) -> dict[str, list[float]]:
    """Ask for a page by turns, as so many browsers do; the milliseconds of each answer.

    `nice`: leave the processor to others, as browsers on other machines would.
    """
    os.nice(nice)
    taken: list[float] = []
    ends = time.monotonic() + for_s

    def poll(first_s: float) -> None:
        connection = http.client.HTTPConnection(host, port, timeout=60)
        due = time.monotonic() + first_s
        while max(due, time.monotonic()) < ends:
            time.sleep(max(0.0, due - time.monotonic()))
            began = time.perf_counter()
            # The script of a page asks for a part of it only.
            connection.request("GET", path, headers={"Cookie": cookie, "Dray-Fragment": "1"})
            answer = connection.getresponse()
            answer.read()
            if answer.status != http.HTTPStatus.OK:
                raise RuntimeError(f"{path}: {answer.status}")
            taken.append(1_000 * (time.perf_counter() - began))
            due += every_s
        connection.close()

    threads = [
        threading.Thread(target=poll, args=(every_s * number / browsers,))
        for number in range(browsers)
    ]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    return {"taken": taken}
