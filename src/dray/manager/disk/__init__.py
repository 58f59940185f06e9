"""The disk as the manager sees it: where records lie, and how much room is left.

`RoomLeft` is the room on the disk, and in the log for the facts of one turn. This room also places
the records of a frame, reads those of an answer, and writes the text files of queues.

These ask it: `change`, `context`, `incoming`, `peers`, `requests`, `transactions`, `turn` and
`dray.offline`.
"""

from dray.manager.disk.envelopes import (
    bodies_in,
    envelopes_in,
    records_of_answer,
    stream_bodies_in,
    stream_envelopes_in,
)
from dray.manager.disk.placing import Span, check_records, place_all, place_batch
from dray.manager.disk.queue_files import FollowedFiles, describe_in_file, path_in_file
from dray.manager.disk.room import Promise, RoomLeft, window_of
