"""Events and effects of the two cores of a transfer, as plain values.

Effects are to be done in their order: what is kept is on disk before what is told goes out.
"""

from __future__ import annotations

from typing import NamedTuple

from dray.errors import DrayError
from dray.machine import Tick
from dray.wire.transfer_frames import AnyMessage


class Terms(NamedTuple):
    """Properties of the offered file and of its fragments; both ends know them before it moves."""

    size: int
    fragment_size: int
    window_size: int

    @property
    def fragment_count(self) -> int:
        """Fragments of the file; none of an empty one."""
        return -(-self.size // self.fragment_size)

    def length(self, number: int) -> int:
        """Bytes of a fragment, in which only the last one may be shorter."""
        return min(self.fragment_size, self.size - number * self.fragment_size)

    def bytes_before(self, number: int) -> int:
        """Bytes of all fragments before one."""
        return min(self.size, number * self.fragment_size)


class Heard(NamedTuple):
    """A message of the other end came; a fragment comes as FragmentCame."""

    message: AnyMessage


class FragmentCame(NamedTuple):
    """A fragment came; `intact` says that its CRC32C fits."""

    number: int
    size: int
    intact: bool


class Stirred(NamedTuple):
    """Bytes of something came that is not whole yet: the line is slow, not dead."""


class Room(NamedTuple):
    """The way to a consumer takes one more fragment."""

    key: str


class Disconnected(NamedTuple):
    """The connection to the other end broke; what was on it may be lost."""

    key: str


class Suspend(NamedTuple):
    """Stop for now; to one consumer, or to all of them."""

    key: str = ""


class Resume(NamedTuple):
    """Go on."""

    key: str = ""


class Cancel(NamedTuple):
    """End it for good."""

    key: str = ""


class SourceChecked(NamedTuple):
    """The file that is offered was read again for a consumer whose digest does not fit."""

    key: str


class SourceBroke(NamedTuple):
    """The file that is offered has changed or cannot be read."""

    error: DrayError


class Checked(NamedTuple):
    """The file that came was checked; if it is good, it is durable under its name by now."""

    good: bool


class Begin(NamedTuple):
    """Begin to ask for the file."""


AtProducer = Room | Disconnected | Suspend | Resume | Cancel | SourceChecked | SourceBroke | Tick
"""The events of a producer besides messages."""
AtConsumer = (
    Begin | FragmentCame | Stirred | Disconnected | Suspend | Resume | Cancel | Checked | Tick
)
"""The events of a consumer besides messages."""
ProducerEvent = Heard | AtProducer
ConsumerEvent = Heard | AtConsumer


class Tell(NamedTuple):
    """Send a message to the other end; at a producer, to the consumer that the message names."""

    message: AnyMessage


class SendFragment(NamedTuple):
    """Send a fragment to a consumer."""

    key: str
    number: int


class Keep(NamedTuple):
    """Make the state of the transfer durable."""


class CheckSource(NamedTuple):
    """Read the offered file again; SourceChecked or SourceBroke says what was found."""

    key: str


class WriteFragment(NamedTuple):
    """Write the fragment that has just come."""

    number: int


class Check(NamedTuple):
    """Compare the digest of what came; if it fits, put the file under its name. Then Checked."""


class StartOver(NamedTuple):
    """Drop everything that came."""


ProducerEffect = Tell | SendFragment | Keep | CheckSource
ConsumerEffect = Tell | Keep | WriteFragment | Check | StartOver
