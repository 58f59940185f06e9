"""The properties of a large message, from its header and trailer."""

from __future__ import annotations

from typing import NamedTuple

from dray.large.split import Control
from dray.model.classes import Acknowledge
from dray.model.files import decode_file
from dray.model.message import Message


class Said(NamedTuple):
    """The contents of header and trailer."""

    sequence_id: str
    control: Control
    header: Message


class Described:
    """Properties of a large message, as attributes."""

    def __init__(self, said: Said) -> None:
        """Keep the contents of header and trailer."""
        self.said = said
        sequence_id, control, header = said
        self.sequence_id = sequence_id
        self.label = control.label
        self.correlation_id = control.correlation_id
        self.app_specific = control.app_specific
        self.size = control.size
        self.digest = control.digest
        self.digest_kind = control.digest_kind
        self.fragment_count = control.fragment_count
        self.extension = control.extension
        self.response_queue = control.response_queue
        self.administration_queue = control.administration_queue
        self.traceparent = control.traceparent
        self.acknowledge = Acknowledge(control.acknowledge)
        self.file = None if control.file is None else decode_file(control.file)
        self.transaction_id = header.transaction_id
        self.source = header.source
        self.sent_time = header.sent_time
        self.arrived_time = header.arrived_time
        self.abort_count = header.abort_count
