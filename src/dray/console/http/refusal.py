"""Answers that the server gives by itself, where no error of Dray says why."""

from __future__ import annotations

from collections.abc import Mapping


class HttpRefusal(Exception):  # noqa: N818 - named like the errors of Dray
    """A refusal: a status, a code, and one sentence with what to do."""

    def __init__(
        self, status: int, code: str, sentence: str, headers: Mapping[str, str] | None = None
    ) -> None:
        """Take the status, the code that never changes, and the sentence."""
        super().__init__(sentence)
        self.status = status
        self.code = code
        self.headers = dict(headers or {})
