"""Every bound of the daemon, and where it came from. Sizes in bytes, times in seconds."""

from __future__ import annotations

from typing import Final

READ_BYTES_PER_PASS: Final = 1 << 20
"""One connection's share of a pass of the loop: half a millisecond, and two more in the pass in
which one of the largest frames becomes whole. Everyone else waits as long."""
READ_FRAMES_PER_PASS: Final = 2_000
"""The same for small frames: about 50 ms at 40,000 a second."""
CALLER_S: Final = 0.01
"""The time in a round of the loop for frames of a caller other than the owner: a hundred
small ones, or a costly one. So others wait no longer than for its next frame. Time in which the
thread was ready and other programs had the processor does not count."""
DELAYED_S_MIN: Final = 0.0005
"""A frame that took less is not asked about it: asking costs some microseconds."""
ENOUGH_TO_READ_ON: Final = 64 << 10
"""A read that gave less has emptied the socket; asking again would cost a call for nothing."""
WRITE_BYTES_PER_PASS: Final = 8 << 20
"""As `READ_BYTES_PER_PASS`, in the other direction."""

INTAKE_BYTES_MAX: Final = 128 << 20
"""Memory for frames that are not whole yet, all connections together: 32 of the largest. A daemon
takes in one at a time at the speed of memory; the others wait in the kernel's buffers. The holder
of a cut frame may hold two bodies more without asking, so that nobody holds one for ever."""
INTAKE_SMALL_BYTES_MAX: Final = 128 << 10
"""Frames up to this are small: requests, and messages of the usual kind."""
INTAKE_BYTES_OF_SMALL: Final = 32 << 20
"""Memory for small frames beyond that, so that they pass while large ones wait."""
READ_BYTES_WHILE_TIGHT: Final = 4 << 10
"""A connection may bring along this much of a frame whose memory it waits for: ten thousand
connections hold 40 MB."""
INTAKE_SHARE: Final = 2
"""A caller other than the owner has at most one part in so many of this memory."""
FRAME_S: Final = 30.0
"""The time for which one frame may hold its memory while others wait: the largest at 140 kB/s."""
FRAME_GRACE_S: Final = 3.0
"""A frame that has come for so long while others wait must come at that rate from then on. A line
that stalls for less is not blamed."""
FRAME_LOOK_S: Final = 1.0
"""The interval at which that is looked at while others wait."""

BACKLOG_S: Final = 0.02
"""Written and not yet synced is at most what the disk takes in this time: a small commit waits for
it, once for the sync that is under way and once for its own."""
BACKLOG_BYTES_MIN: Final = 8 << 20
"""And at least two fragments: one that is flushed and one that comes in meanwhile."""
BACKLOG_BYTES_MAX: Final = 64 << 20
"""On the fastest disk. More keeps no disk busier."""
BACKLOG_RATE_S: Final = 0.5
"""The disk's rate is learned from so much time of flushing, the last half counting most."""

QUEUE_FILES_UNWRITTEN_MAX: Final = 16
"""Files of queues that wait for a sync before sessions that changed some are held back: a disk
takes 1 to 2 ms for each, and every commit beside them waits for all."""

OUTBOX_BYTES_MAX: Final = 64 << 20
"""Unsent bytes held in memory for one connection before it is no longer read from. Extents in heap
files do not count: they are not in memory."""
OUTBOX_TOTAL_BYTES_MAX: Final = 256 << 20
"""The same for all connections together: four that fetch nothing at all."""
OUTBOX_SHARE: Final = 2
"""A caller other than the owner has at most one part in so many of these bytes: two connections
that fetch nothing at all. Beyond it only its own connections are not read from."""
OUTBOX_BYTES_WHILE_TIGHT: Final = 16 << 10
"""Beyond that a connection may leave so little unfetched if it is to be read from: ten thousand
of them hold 160 MB. Clients that fetch are served as before, a little later."""
ACCOUNT_NAMES_KEPT: Final = 1_000
"""Names of accounts and groups that are not looked up again for each connection: some 100 kB."""
NOTICE_S: Final = 60.0
"""The silence of the log about a subject after a warning: an operator can read one a minute."""
NOTICE_RETRY_S: Final = 0.1
"""The loop may call a little early by the clock; it is not asked again at once."""
NOTICE_SUBJECTS_MAX: Final = 1_000
"""Subjects whose warnings are held back, 1 MB with long names; others share a line a kind."""
NOTICE_SUBJECTS_SHARE: Final = 4
"""One caller has at most one part in so many of the subjects of the access log, and one kind of
warning of those of the log. So none hides what another does."""
ACCESS_LINES_MAX: Final = 1_000
"""Lines of the access log in a minute for what one caller manages; more are counted together. So a
caller needs 8 hours to push the lines of others out of the log."""
ACCESS_LINES_WAITING_MAX: Final = 10_000
"""Lines of the access log that wait for the disk, some 3 MB; beyond that they are counted."""
ACCESS_RETRY_S: Final = 1.0
"""After a failure to write them."""
OUTBOX_ITEMS_MAX: Final = 20_000
"""The same for pieces of any kind, about 200 bytes of bookkeeping each."""
GATHERED_EFFECTS_MAX: Final = 50_000
"""Effects that may wait for a sync before nobody is read from any more: two seconds' worth of small
frames, far more than the slowest healthy disk takes for one sync."""
GATHERED_BYTES_MAX: Final = 256 << 20
"""Bytes received since the last sync began: what a sync then has to move at most."""
GATHER_SESSIONS_MIN: Final = 4
"""Fewer are not waited for: what one sync less would save is not worth anyone's time."""
GATHER_TURNS: Final = 4
"""The daemon learns from so many turns which sessions come again: from two, a small turn would
make the next turn small."""
GATHER_S_MAX: Final = 0.004
"""The longest that a commit waits for others: about what 20 of them take to arrive from 64 clients
on two cores. Only sessions that hardly ever come alone pay it, and never all of it for long."""
STALE_TURN_S: Final = 0.05
"""A turn longer ago says nothing about who comes next."""
QUICK_SYNC_BYTES: Final = 64 << 10
"""Above this a sync takes longer than handing it over."""
QUICK_SYNC_S: Final = 0.001
"""The loop waits for a sync itself where this was enough, handing over included; its other callers
are held up that long."""
QUICK_SYNCS: Final = 16
"""About so many quick syncs earn the disk that trust at first. Later a slow one has to be made good
by as many quick ones as it took milliseconds, so a disk that hangs for a second is not waited for
by the loop in the next thousand syncs."""
SLOW_SYNCS: Final = 8
"""A disk is slow if none of so many syncs took less than QUICK_SYNC_S. On a quick disk of a busy
machine a few of eight are quick: a quarter took 0.6 ms where the mean was 1 to 2."""
SLICE_S: Final = 0.0005
"""The slice of the processor that the loop and its workers ask for: longer than what they do
between two waits, shorter than the milliseconds that others get. Linux takes 0.1 to 100 ms."""
GROUP_SHARE: Final = 4
"""A group is written when its facts take one part in this many of what the log could hold."""

KERNEL_SEND_BYTES_MIN: Final = 16 << 10
"""Below this `sendfile` costs more than reading: a call of its own against a part of one."""
SCRATCH_BYTES: Final = 1 << 20
"""Heap bytes on their way through memory, one buffer for the whole daemon; larger is no faster."""
KEPT_BODY_BYTES_MIN: Final = 64 << 10
"""Smaller bodies are cheaper to allocate than to keep."""
SPARE_BODIES_MAX: Final = 8
"""Connections that keep the memory of their last large frame for the next one: 32 MiB in all."""
PIECES_PER_CALL: Final = 512
"""Buffers in one `sendmsg`; Linux takes 1,024."""
UNIX_BUFFER_BYTES: Final = 1 << 20
"""Socket buffers of Unix connections: 25 GB/s by `sendfile` against 12 GB/s at the default size.
TCP keeps the kernel's own tuning, which was faster than any fixed size (docs/decisions/0010)."""

SHARE_BYTES_MIN: Final = 64 << 10
"""A stream's turn on a link to another manager, and what the socket takes beyond what is under way
(`TCP_NOTSENT_LOWAT`), where the line is slow or its rate unknown: 5 ms at 100 Mbit/s."""
SHARE_BYTES_MAX: Final = 1 << 20
"""The same on the fastest line; a larger share saves no more calls worth speaking of."""
SHARE_QUICK_TURNS: Final = 8
"""Turns in half that time before a share is doubled: more than fit into the buffers of a slow line
before the first of them has to wait for it."""
SHARE_SLOW_TURNS: Final = 2
"""Turns that took longer before it is halved: one may have been our own processor's fault."""
SHARE_S: Final = 0.005
"""The longest that one share keeps a line busy: a small message waits for two or three of them."""

FILES_PER_SESSION: Final = 8
"""Files that one session lends at a time: more than our own client does, which has up to six
fragments under way and is read from all the time."""
FETCH_BUFFERS: Final = 3
"""Buffers of 4 MiB for what is fetched, for the whole daemon: one for each thread to fill and one
for the loop to empty."""
COPY_THREADS: Final = 2
"""Threads that copy: enough for two large messages at a time, few enough to leave others room."""
COPY_PIECE_BYTES: Final = 1 << 20
"""Bytes to copy at a time through memory, where the kernel cannot copy by itself."""
COPY_S: Final = 30.0
"""One of them may work on one fragment for as long as a frame may take: 140 kB/s."""
COPIES_STUCK_MAX: Final = 6
"""Threads made for those that wait for a file system which does not answer, each of them with a
buffer of 4 MiB and two descriptors. When all are stuck, files are refused."""

FILES_UNCLAIMED_MAX: Final = 64
"""Connections that have lent a file before its frame was whole. A client says both in one call, so
these are few; beyond it the one that has waited longest is ended."""
CLAIM_S: Final = 5.0
"""The longest wait of such a file for the rest of its frame, which is some hundred bytes."""
FILES_LENT_MANY: Final = 64
"""Files lent by all sessions together from which on each may lend but one at a time."""

FILES_PER_CALLER_MAX: Final = 256
"""Files that a caller other than the owner lends at a time on all its connections: as many as 32
clients have under way that each send a large message. Beyond it the connection is ended."""

DESCRIPTORS_FOR_LINKS: Final = 128
"""Log, checkpoints, audit, listeners, and links to other queue managers."""
SESSIONS_OF_EMBEDDED_MIN: Final = 16
"""In somebody else's process the limit is not ours to raise, and a few callers must always fit."""
KEEPALIVE_IDLE_S: Final = 30
"""After so long a silence the kernel asks whether the machine is still there."""
KEEPALIVE_INTERVAL_S: Final = 10
"""So often, while it is not answered."""
KEEPALIVE_PROBES: Final = 3
"""So many times: a machine that vanished is noticed after a minute."""
LINK_SILENCE_MS: Final = 60_000
"""The same for a link on which bytes are under way (`TCP_USER_TIMEOUT`)."""
LINK_BUFFER_BYTES: Final = 32 << 20
"""Sent to a peer and not acknowledged by its machine: 300 MB/s at 100 ms, like the window. The
share of a turn bounds unsent bytes, so a short line fills no more of it than before."""
DIAL_TIMEOUT_S: Final = 5.0
"""The original's reconnect delay; a host that needs longer is dialled again."""
LINGER_S: Final = 2.0
"""The time that a connection that we end has to fetch what was said to it last."""
HELLO_S: Final = 10.0
"""The time that an accepted connection has for one whole frame; then its place is free."""
STOP_S: Final = 5.0
"""The wait of a clean stop for turns to end, then for clients to fetch their last answers, then
for copies of files: so long for each."""
ACCEPT_RETRY_S: Final = 1.0
"""Pause after running out of descriptors."""
ACCEPTS_PER_PASS: Final = 64
"""Callers let in before those that are here already are served again."""
CALLERS_UNACCEPTED_MAX: Final = 512
"""Callers that the kernel keeps waiting at the door: eight passes' worth."""
TICK_S_MIN: Final = 0.001
"""No deadline is served more often than this."""
TICK_S_MAX: Final = 60.0
"""The longest sleep, so that a clock that is set forward is noticed."""
TICK_S_AFTER_FAILURE: Final = 1.0
"""Until the manager is asked again to do what it failed to do when its time had come."""
UNIX_PATH_BYTES_MAX: Final = 107
"""Length of a path in the kernel's address structure."""
CHECKPOINT_RETRY_S: Final = 1.0
"""After a full disk refused one."""
QUIET_S: Final = 1.0
"""Without work for so long, the log is sealed, which spares the next start its doubts."""
CERTIFICATE_LOOK_S: Final = 86_400.0
"""Between two looks at the ends of certificates: a warning each day."""
SESSIONS_SHARE: Final = 4
"""A caller other than the owner has at most one part in so many of all sessions: four strangers
would have to agree to keep others out, and 2,500 are more than a cluster opens."""
