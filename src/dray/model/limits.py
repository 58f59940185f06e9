"""Bounds that several packages share, and where they come from. Bytes and seconds."""

from __future__ import annotations

from typing import Final

KIB: Final = 1 << 10
MIB: Final = 1 << 20
GIB: Final = 1 << 30
"""Units, no bounds."""

MESSAGE_BYTES_MAX: Final = 4 * MIB
"""A message with its properties fits one heap file (S3-13)."""
FRAGMENT_BYTES_MAX: Final = 4_000_000
"""Leaves room for a fragment's properties under the message limit (semantics 4.2)."""
FRAGMENTS_MAX: Final = (1 << 31) - 1
"""The fragment number travels in app_specific, a signed 32-bit integer (S0-10)."""
FRAME_HEAD_BYTES_MAX: Final = 64 * KIB
"""Names, ids and numbers; the source of an upload is 8 KiB. Reading one takes a millisecond."""
PAGE_HEAD_BYTES_MAX: Final = 4 * MIB
"""A head with a page of entries: 10,000 envelopes are about 1 MB."""
FIRST_HEAD_BYTES_MAX: Final = 4 * KIB
"""A Hello, which a stranger may send too: 64 incarnations of a store are 1.2 KB."""
FRAME_BODY_BYTES_MAX: Final = 4 * MIB
"""One frame's records go into one heap file in one piece."""
FRAME_CHANNELS_MAX: Final = 2
"""Frames that may come in pieces on one connection at a time; each needs the memory of a body."""
BACKUP_PIECE_BYTES: Final = MIB
"""Bytes of a backup in one answer, unless one record is longer."""
BACKUP_PIECE_RECORDS: Final = 4_096
"""Their lengths and checksums travel in the head: 100 KB."""
ARCHIVE_PIECE_BYTES_MAX: Final = 5 * MIB
"""One record of the longest kind, or many with the places of each."""
BATCH_MESSAGES_MAX: Final = 10_000
"""Messages in one frame; bounds what one turn can be asked to do."""
WORKERS_MAX: Final = 64
"""Messages that one receiver handles side by side; a queue manager gains nothing from more."""
LARGE_TAKEN_MAX: Final = 64
"""Large messages that one request takes: their files are synced together, and more gain little."""
LARGE_TAKEN_BYTES_MAX: Final = MIB
"""Records of large messages that are taken together; a longer message is taken alone."""
OPEN_TRANSACTIONS_TOLD_MAX: Final = 1_000
"""Open transactions that one answer tells of: 100 KB, and enough to find one that is idle."""
IDS_MAX: Final = 1_000_000
"""Ids that one call takes: some 100 MB of the caller's own memory."""
MOVED_AT_ONCE_MAX: Final = 1_000
"""Messages that one request moves to another queue: their facts take 80 KB of the log, and a
transaction of them is small for its receiver. A large message counts as one."""
RANGE_RUNS_MAX: Final = 8_192
"""Steps of one measurement of a queue: 2 million messages in pages, and some 50 ms of a turn."""
RANGE_LIMITS_TIMES: Final = 4
"""A measured range passes its limits by this factor, to end where no transaction is open: a batch
may be four times as large as was asked for, and no larger."""
RANGE_PIECES_MAX: Final = 4_096
"""Tasks that one range of a queue is cut into, at most: a cluster has fewer at work."""
QUEUE_NAME_CHARACTERS_MAX: Final = 124
"""MSMQ's bound (semantics 1.1)."""
SUB_QUEUE_NAME_CHARACTERS_MAX: Final = 32
"""MSMQ's bound (semantics 1.1)."""
NAMES_REMEMBERED: Final = 512
"""Names of queues that were taken apart and checked need not be again: those used of late."""
NAME_CHARACTERS_REMEMBERED_MAX: Final = 512
"""A name with the address of a manager; of what is longer nothing is kept."""
DELETED_QUEUES_REMEMBERED: Final = 512
"""Queues whose names a commit can tell after they were deleted: those deleted last."""
ACTS_REMEMBERED_MAX: Final = 200
"""Acts of callers that a queue manager shows without the access log: two screens of them."""
SESSIONS_SHOWN_MAX: Final = 500
"""Connections of one answer: 100 bytes each, so that they and the acts fit a page."""
LABEL_CHARACTERS_MAX: Final = 249
"""MSMQ's bound (semantics 1.3)."""
CORRELATION_ID_CHARACTERS_MAX: Final = 255
"""A message id has 52 at most; programs may make longer ones of their own."""
TRACEPARENT_CHARACTERS_MAX: Final = 255
"""W3C's version 00 has 55; later versions may be longer."""
TIME_TO_LIVE_S_MAX: Final = 1e10
"""Three centuries: in microseconds since 1970 it still fits the 63 bits of an expiry."""
PROPERTIES_BYTES_MAX: Final = 64 * KIB
"""Label, ids, queue names and extension together."""
APP_SPECIFIC_MIN: Final = -(1 << 31)
"""A signed 32-bit integer, as in a record."""
APP_SPECIFIC_MAX: Final = (1 << 31) - 1
"""A signed 32-bit integer, as in a record."""
ACKNOWLEDGE_MAX: Final = 15
"""All acknowledgments that there are; a bit above means nothing to a receiver."""
ARGUMENT_CHARACTERS_MAX: Final = 64 * KIB
"""A text that is given to a call, such as an id or an address: longer ones name nothing."""
HOST_CHARACTERS_MAX: Final = 253
"""The bound of a name in DNS; an address is shorter."""
SIZE_BYTES_MAX: Final = 1 << 62
"""A size that is configured; rounded up it still fits the 63 bits of an offset in a file."""
PATH_BYTES_MAX: Final = 4_095
"""The maximum of Linux (PATH_MAX, without the zero at the end)."""
PRIORITY_MAX: Final = 7
"""MSMQ's bound (semantics 1.3), from 0."""
PRIORITY_DEFAULT: Final = 3
"""MSMQ's default (semantics 1.3)."""
QUOTA_BYTES_DEFAULT: Final = 8 * GIB
"""Computer quota and computer journal quota (S3-4)."""
LOW_WATER_BYTES: Final = 64 * MIB
"""Free disk that new messages must leave: the log and two checkpoints of a million messages."""
ROOM_LOOK_S: Final = 2.0
"""The interval at which a full disk is looked at while a source waits for room on it."""
STREAMS_PER_PEER_MAX: Final = 10_000
"""Streams of one queue manager, each an outgoing queue there: 300 bytes each, for ever."""
PEERS_MET_MAX: Final = 10_000
"""Sources whose incarnations a destination keeps: 2 KB each, and more if they were copied."""
SOURCES_OF_CALLER_MAX: Final = PEERS_MET_MAX // 4
"""Managers that are bound to one caller: it leaves room for those of three others."""
MESSAGE_NUMBER_MAX: Final = (1 << 63) - 1
"""Message numbers start at 1; transactions are numbered from the same range."""
NUMBERS_LEASED: Final = 1 << 20
"""Message numbers a client is granted at a time; a 63-bit space lasts for 2^43 grants."""
EXPRESS_POSITIONS_RESERVED: Final = 4096
"""Positions that a queue sets aside for express messages by one fact, of 63 bits."""
TRANSACTIONS_REMEMBERED: Final = 65_536
"""The number of committed transactions that `outcome` can still vouch for."""
TRANSACTION_OPERATIONS_MAX: Final = 4_000_000
"""Messages in one transaction: 16 TB of fragments; bounds the memory of an open transaction. All
open transactions of a caller other than the owner together have no more."""
OPEN_TRANSACTIONS_MAX: Final = 100_000
"""Open transactions, receives that are not confirmed yet among them: ten for each session that
there may be. Each takes about 2 KB besides what it has gathered."""
OPEN_TRANSACTIONS_SHARE: Final = 4
"""A caller other than the owner has at most one part in so many of these."""
ABORTED_A_TURN: Final = 256
"""Transactions that are aborted in one turn because their session has ended, or nobody used them:
20 us each if they hold one message."""
UNUSED_QUEUES_A_TURN: Final = 64
"""Sub-queues that go in one turn because nobody uses them: the sync removes the file of each."""
LEAVING_A_TURN: Final = 10_000
"""Messages that one turn takes out of their queues because of a purge, a deletion or an expiry, if
nothing follows from their end: about 10 ms."""
TOLD_WEIGHT: Final = 20
"""So many of these a message counts of whose end somebody is told, or of which a copy is kept: its
record is read, and another is written, in 10 to 20 us."""
LOOKUP_READ_AT_ONCE: Final = 1_000
"""Messages that are read in one turn to find one by its correlation id: 10 to 20 ms."""
LOOKUP_UNUSED_S: Final = 60.0
"""Receives that name an id come often or hardly ever; then 100 bytes a message are given back."""
LOOKUPS_MAX: Final = 64
"""Queues in which messages are looked up by an id at a time, as a rule one for a program. Beyond it
the caller that has the most loses the one that it used least recently."""
WAITERS_PER_QUEUE_MAX: Final = 10_000
"""Receives that wait at one queue: as many as there may be sessions."""
WAITERS_SHARE: Final = 4
"""A caller other than the owner has at most one part in so many of the receives that may wait at a
queue, as of the sessions."""
STAGED_MAX: Final = 100_000
"""Transactions prepared, or staged for batches: more tasks than one Spark job has."""
PREPARED_SHARE: Final = 4
"""A caller other than the owner has at most one part in so many of the transactions that are
prepared or staged: each is kept until it is settled, also over restarts."""
STAGED_AGE_S_MAX: Final = 86400.0
"""No task of a batch stages anything for a day: its query is dead."""
QUERIES_REMEMBERED: Final = 10_000
"""Queries whose last batches a manager remembers: 4 MB of state."""
UNNAMED_WRITES_REMEMBERED: Final = 100
"""Writes without a query id: nobody repeats one but its driver, which asks again for 30 seconds."""
REQUEST_KEYS_REMEMBERED: Final = 65_536
"""Keys of requests over HTTP: as many as transactions whose outcomes are known; 20 MB of state."""
BATCHES_REMEMBERED: Final = 2
"""Batches of a query: those that a checkpoint of Spark can replay."""
QUERY_ID_CHARACTERS_MAX: Final = 200
"""A query id is 36 characters of Spark's, or a name that a person gave."""
BATCH_DIGEST_BYTES_MAX: Final = 64
"""A digest of 512 bits, the longest in use."""
UPLOADS_MAX: Final = 256
"""Unfinished uploads of a manager: each has room reserved that nobody else can use."""
UPLOADS_SHARE: Final = 4
"""A caller other than the owner has at most one part in so many of these: 64 files on their way."""
UPLOAD_AGE_S_MAX: Final = 7 * 86400.0
"""An upload that nobody goes on with keeps its room for a week."""
RESERVATION_UNUSED_S: Final = 60.0
"""Room that was reserved and of which nothing is used for so long is given back: a client that
connects again, or waits for its source, needs some seconds."""
RESERVATION_SHARE: Final = 2
"""A caller reserves at most one part in so many of the room that is free; the owner, all of it."""
UPLOAD_SOURCE_BYTES_MAX: Final = 8 * KIB
"""A client notes the source of an upload: a path has 4,096 bytes at most."""
UPLOAD_MARK_BYTES: Final = 64 * MIB
"""Most bytes of an upload that are sent again, besides those that were in flight."""
UPLOAD_MARK_PARTS: Final = 1_024
"""The same for short fragments: a mark's fact stays under 100 KB."""
HOLES_NAMED_MAX: Final = 10_000
"""Missing ranges of one large message in a frame: 10 ms to read. The last covers all behind it."""
REPAIRS_MAX: Final = 1_000
"""Large messages whose sources are asked to fill a hole, at a time. Each turn looks at all."""
REPAIRS_SHARE: Final = 10
"""All managers that are bound to one caller have at most one part in so many of these: 100 are more
than its receivers wait for, and cost a turn 0.1 ms."""
REPAIR_PARTS_A_TURN: Final = 256
"""Parts that the source of a repair looks at in one turn: 25 us each, as their records are read."""
STATUSES_SEEN_MAX: Final = 1_000
"""Status messages that one receive reads: there is one for each receiver that was interrupted."""
STATUS_BYTES_MAX: Final = 64 * KIB
"""A status message names a queue, a sub-queue and what is missing; what is longer is none."""
SESSIONS_MAX: Final = 10_000
"""Callers at a time; what each may hold is measured by this number (`daemon/limits.py`)."""
QUEUES_MAX: Final = 100_000
"""Queues and sub-queues, which any caller can make: each has a text file in one folder."""
LISTED_QUEUES_MAX: Final = 200
"""Queues in one page of a list: 2 ms of the queue manager, for which commits wait, and 40 KB."""
QUEUES_SHARE: Final = 4
"""A caller other than the owner makes at most one part in so many of all queues and sub-queues,
counted since the manager started: 25,000 are more than a program makes."""
UNUSED_OUTGOING_MAX: Final = 256
"""Outgoing queues that a caller has made and never sent to: each is a name on the disk, and a host
to dial. A program with more destinations sends to the first before it opens the last."""
TOKENS_MAX: Final = 1_000
"""Tokens of a queue manager, which only its owner makes: each Hello with one looks at all."""
LINK_WINDOW_BYTES: Final = 64 * MIB
"""Unacknowledged bytes between two managers: 100 MB/s at 100 ms wants 10 MB, a disk beside it that
takes 50 ms for a sync 15 MB; 64 MiB let 300 MB/s through such a line (docs/decisions/0095)."""
FRAME_BYTES_UNTRIED: Final = 256 * KIB
"""The bytes of a frame between managers, unless one message is longer, before the line has shown
that it is fast. A line that stalls holds back no more."""
FRAME_LINE_S: Final = 0.1
"""A frame holds what the line carries in that time: 4 MiB at 42 MB/s and above, and the least below
2.6 MB/s."""
WINDOW_FRAMES_MIN: Final = 16
"""A window that is full is filled again when a frame's bytes are free in it, and no more than its
sixteenth: that is the longest frame in a window of 64 MiB."""
LINK_WINDOW_MESSAGES: Final = 20_000
"""The same for small messages: two frames of the most that one may carry."""
AHEAD_PIECE_BYTES_MIN: Final = 256 * KIB
"""Fragments of a large message that travel ahead of their commit have so many bytes: below it the
frame and its answer cost as much as the wait that they spare."""
AHEAD_PIECES_UNDER_WAY: Final = 4
"""Pieces of one large message that are sent ahead and not answered, on a quick line: 16 MB."""
AHEAD_QUICK_S: Final = 0.25
"""An answer within this time shows that the line is quick; else one piece travels at a time, so
that a small message committed meanwhile waits no longer for it than for any message of 4 MB."""
AHEAD_WEIGHT_BYTES: Final = 256
"""A message whose record is there already counts so much in a frame and in the window: its
envelope."""
AHEAD_BYTES_MAX: Final = 16 * GIB
"""Bytes that one peer may have sent ahead of commits: twice the default quota, which bounds them
first. It bounds a peer where no quota is set."""
AHEAD_PIECES_MAX: Final = 16_384
"""Pieces of one peer that are kept ahead: 16 GiB in the shortest that are worth it would be four
times as many, but each takes about 1 KB of memory."""
AHEAD_SHARE: Final = 2
"""Pieces kept ahead take at most one part in so many of the room that is free, so that committed
messages find room."""
AHEAD_HEAD_BYTES_MAX: Final = 4 * KIB
"""Header and properties of a record that is kept ahead, which stay in memory. Fragments of large
messages have some hundred bytes."""
AHEAD_AGE_S_MAX: Final = 600.0
"""A piece that was not committed for so long is dropped; the commit then sends it again. A sender
of 1 GiB at 1.8 MB/s needs as long."""
CONFIRMATIONS_AHEAD_MAX: Final = 10_000
"""Confirmations of one stream that are under way; a source takes them a frame at a time."""
CONFIRMATION_ORDINAL_MAX: Final = 1 << 62
"""After a restore ordinals go on at the microseconds since 1970; a checkpoint has 64 bits."""
RECEIPT_BYTES: Final = 56
"""A receipt of a destination; a source keeps one of each stream (`delivery/receipts.py`)."""
ENDS_REMEMBERED_MAX: Final = 10_000
"""Streams that have ended and whose destinations do not know yet: 100 bytes each."""
TRUNCATED_MAX: Final = 64
"""Origins of which a transaction was truncated in one outgoing queue, and whose destination has not
heard of it yet: it notes all of them in one fact, which a log of 16 KiB must hold."""
ARRIVAL_ROUTES_MAX: Final = 100_000
"""Routes by which messages come into queues, each a stream and a sender: 500 bytes each. A frame by
another route is refused, and its source keeps the messages."""
ARRIVAL_ROUTES_SHARE: Final = 4
"""All managers that are bound to one caller have at most one part in so many of these."""
END_AGE_S_MAX: Final = 30 * 86400.0
"""A destination that cannot be reached for so long is taken to be gone for good."""
HOPS_MAX: Final = 15
"""Managers that may forward a message: MSMQ's bound (semantics 1.6)."""
WELCOME_TIMEOUT_S: Final = 10.0
"""A peer that accepts a connection and says nothing is dialled again."""
LINK_CHANGES_KEPT: Final = 10
"""State changes of a connection between managers that `info()` shows."""
IDLE_TRANSACTION_S: Final = 3600.0
"""A client that began a transaction and forgot it holds messages no longer than this."""
RESEND_SCHEDULE_S: Final = (30.0,) * 3 + (300.0,) * 3 + (1800.0,) * 3 + (21600.0,)
"""The original's (semantics 2.5); the last step repeats until the message expires."""
RECONNECT_DELAY_S: Final = 5.0
"""The original's (semantics 2.5), as the ceiling of a backoff from 0.2 s."""
TRANSFER_WINDOW: Final = 50
"""Fragments under way by default; of 1 MiB each, 500 MB/s at 100 ms."""
TRANSFER_REQUEST_TIMEOUT_S: Final = 30.0
"""Consumers may ask for an offer for this time, unless it says another (S1-2)."""
TRANSFER_FRAGMENT_BYTES_MAX: Final = FRAME_BODY_BYTES_MAX
"""A fragment of a file transfer travels in one frame."""
TRANSFER_FRAGMENTS_MAX: Final = 1 << 26
"""Their checksums are held while a file is offered, 4 bytes each: 256 MiB for 64 TiB."""
TRANSFER_WINDOW_MAX: Final = 1 << 16
"""64 GiB in flight with fragments of 1 MiB: more than any line holds."""
TRANSFER_KEY_CHARACTERS_MAX: Final = 64
"""Ids are 32 hexadecimal digits; what others make up for them is bounded, too."""
TRANSFER_CONSUMERS_MAX: Final = 1_000
"""Consumers of one offer: each has a window and a row in the offer's state file."""
TRANSFER_RETRY_S: Final = 2.0
"""A consumer that hears nothing for so long asks again; doubled each time, up to the next."""
TRANSFER_RETRY_S_MAX: Final = 8.0
"""The longest of these waits."""
TRANSFER_ACK_DELAY_S: Final = 0.2
"""A consumer acknowledges after this time even less than a quarter of a window."""
TRANSFER_SILENCE_S: Final = 30.0
"""Nothing heard for so long: the other end is gone for now, and the transfer can be resumed."""
TRANSFER_FAREWELL_S: Final = 10.0
"""A file that is whole does not wait longer than this to hear that its producer knows."""
DAMAGED_NAMED_MAX: Final = 20
"""Damaged messages that one start names; `dray check` names all."""
BOXES_MAX: Final = 10_000
"""Boxes known at one queue manager: two a transfer."""
BOXES_SHARE: Final = 4
"""A caller other than the owner has at most one part in so many boxes: 2,500 transfers."""
BOX_CHARACTERS_MAX: Final = 2 * TRANSFER_KEY_CHARACTERS_MAX + 1
"""A box is named by two keys and what stands between them."""
RELAYED_BYTES_MAX: Final = 16 * MIB
"""Posted frames on their way to one connection; what would be more is dropped, and sent again."""
END_STREAMS_MAX: Final = 10_000
"""Streams whose sources are still to be told how many messages ended: some megabytes."""
END_STREAMS_SHARE: Final = 4
"""The streams of one source are at most one part in so many of these."""
END_COUNTS_MAX: Final = 64
"""Counts of one stream, by class and origin; each is about 50 bytes of a frame."""
END_COUNT_MAX: Final = 1 << 40
"""Messages in one count of ends: more than a queue manager holds in its incarnation."""
ENDS_TOLD_EVERY_S: Final = 1.0
"""Sources are told of ends once in so long: an operator reads a line a minute."""
MISSING_QUEUES_MAX: Final = 10_000
"""Streams that are told when the queue that they were refused for is made: some megabytes."""
LEASES_KNOWN_MAX: Final = 50_000
"""Leases whose callers are remembered: some 10 MB. One connection takes one. Beyond it the caller
with the most leases loses its oldest one. They are fewer than `TRANSACTIONS_REMEMBERED`, so that
what is noted of each of them finds its place."""
CALLERS_WITH_RULES_KEPT: Final = 1_000
"""Callers whose rules are found without a look at the rules of others: as many as tokens."""
CALLER_NAME_CHARACTERS_MAX: Final = 255
"""Names of accounts and tokens, and DNS names in certificates, are no longer."""
NOTICES_MAX: Final = 1_000
"""Different warnings that one pass of the daemon may hold; more of a kind are counted together."""
CERTIFICATE_WARNING_DAYS: Final = 14
"""The log and `dray doctor` warn of a certificate that ends within so many days: its owner has time
to make a new one."""
RELAY_WINDOW_BYTES: Final = 4 * MIB
"""Bytes in flight from a producer through queue managers to one consumer; at least one fragment."""
