"""Limits of the narrowest authority, enforced on every authority."""

from typing import Final

COMMIT_ACTIONS_MAX: Final = 100
"""Records one commit may write, remove or check. Source: DynamoDB TransactWriteItems."""

COMMIT_BYTES_MAX: Final = 4_000_000
"""Bytes of all records of one commit. Source: DynamoDB TransactWriteItems (4 MB)."""

RECORD_BYTES_MAX: Final = 400_000
"""Bytes of one record with its key. Source: DynamoDB item size (400 KB)."""

PARTITION_BYTES_MAX: Final = 2_048
"""Bytes of a partition. Source: DynamoDB partition key."""

SORT_BYTES_MAX: Final = 1_024
"""Bytes of a sort key. Source: DynamoDB sort key."""

LOAD_KEYS_MAX: Final = 100
"""Records one snapshot may name. Source: DynamoDB TransactGetItems and BatchGetItem."""

BODY_INLINE_BYTES_MAX: Final = 64_000
"""Bytes of a packed body that stay in its record; a larger one is put first, in chunks."""

BODY_CHUNK_BYTES: Final = 350_000
"""Bytes of one chunk of a large body: below RECORD_BYTES_MAX with room for the key."""

BODY_BYTES_MAX: Final = 256 * 1_024 * 1_024
"""Bytes of a body before it is packed: what unpacks to more is not from here, and is not unpacked."""

BODY_PACKED_BYTES_MAX: Final = 100 * BODY_CHUNK_BYTES
"""Bytes of a packed body: as many chunks as one load may name."""

DEFLATE_ABOVE_BYTES: Final = 1_024
"""Bodies above this are deflated. Source: DynamoDB bills writes in units of 1 KB."""

ITEM_BYTES: Final = len("pkskrevtokbody") + 21 + 36 + 1
"""Bytes of a stored record beside its key and body: names of attributes, revision, token, and
the tag of its body. Source: DynamoDB item sizes."""

HEAD_BYTES_MAX: Final = 1_024
"""Bytes of a head as it is stored: one write unit. Source: DynamoDB write unit of 1 KB."""

PAGE_BYTES_MAX: Final = 1_024
"""Bytes up to which a page, as it is stored, is appended to: one write unit."""

PAGE_ENTRY_BYTES_MAX: Final = 64
"""Bytes of a fresh entry: `[seq,group,count],` with numbers of nineteen digits."""

PAGE_ENTRIES_MAX: Final = 64
"""Entries of one page."""

ID_BYTES_MAX: Final = 128
"""Bytes of an id that a caller chooses."""

BATCH_ID_BYTES_MAX: Final = 120
"""Bytes of a batch id: the id of its last command, `.9999` appended, stays an id."""

NAME_BYTES_MAX: Final = 128
"""Bytes of a world's name."""

HOLDER_BYTES_MAX: Final = 36
"""Bytes of a fence holder. Source: the size of a UUID in text, as Lambda request ids are."""

BATCH_COMMANDS_MAX: Final = 10_000
"""Commands of one batch."""

BATCH_BYTES_MAX: Final = 6_000_000
"""Canonical bytes of one batch. Source: 6 MB, the payload of a synchronous Lambda call."""

BATCH_GROUPS_MAX: Final = 90
"""(tick, priority) groups plus caller-chosen command ids of one batch: one record each,
beside head, log entry and key, within COMMIT_ACTIONS_MAX."""

COMMAND_BYTES_MAX: Final = 64_000
"""Canonical bytes of one command."""

ATTEMPTS_DEFAULT: Final = 3
"""Attempts of a command that does not say."""

ATTEMPTS_MAX: Final = 100
"""Attempts a command may ask for."""

PRIORITY_MAX: Final = 2**31 - 1
"""Priorities lie in ±PRIORITY_MAX: shifted, they sort as ten digits."""

TICK_MAX: Final = 10**15
"""Ticks sort as nineteen digits and fit float64 exactly."""

INTEGER_MIN: Final = -(2**63)
"""Least integer of a field. Source: Iceberg and Arrow int64."""

INTEGER_MAX: Final = 2**63 - 1
"""Greatest integer of a field. Source: Iceberg and Arrow int64."""

DRAIN_PAGES_MAX: Final = 60
"""Pages one tick reads."""

DRAIN_COMMANDS_MAX: Final = 10_000
"""Commands one tick applies; the rest waits for the next tick."""

DRAIN_RECORDS_MAX: Final = 90
"""Pages read and pages to be written by one publish, beside head, manifest, log and wake."""

FORK_PAGES_MAX: Final = 60
"""Pages with open commands that a fork copies: one commit writes them all, beside some ten
records more, within COMMIT_ACTIONS_MAX."""

FORK_PAGES_FOUND_MAX: Final = 240
"""Pages that a fork looks through for those: cancelled ones stay until their tick."""

BACKOFF_TICKS_MAX: Final = 64
"""Ticks that a retried command waits at most; it waits 1, 2, 4, …"""

ERROR_DETAIL_CHARACTERS_MAX: Final = 300
"""Characters of an error's detail in a manifest; when it must shrink, details go before codes."""

EVENT_DETAIL_CHARACTERS_MAX: Final = 2_000
"""Characters of the facts that an event of a world repeats; its log entry has them all."""

LEASE_MS_MAX: Final = 900_000
"""Longest lease of a fence. Source: the longest Lambda invocation, 15 minutes. An `until`
further ahead than this was written by a wrong clock and counts as expired."""

PROBE_FROM_STARTS: Final = 3
"""Deaths of a tick's writers from which the writer names what it is about to apply."""

CULPRITS_MAX: Final = 3
"""Commands of one tick that are remembered as deadly. Source: HEAD_BYTES_MAX; each costs its
tick several writers, between which a stalled world waits."""

STALLED_FROM_STARTS: Final = 6
"""Deaths in compute from which a world is reported `stalled`."""

INLINE_ROWS_BYTES_MAX: Final = 4_096
"""Canonical bytes up to which a table's rows of one tick ride in the manifest itself."""

REQUIRED_CONSUMERS_MAX: Final = 4
"""Consumers that may hold a world's ticks: each is looked at before every tick."""

CONSUMERS_MAX: Final = 32
"""Consumers of one world beside the storage's own: each is told of with the world."""

CONSUMER_NAME_BYTES_MAX: Final = 32
"""Bytes of a consumer's name."""

CONFIGURATIONS_MAX: Final = 1_000_000
"""Times a world's choice of processors, hooks and resources may change. Source: HEAD_BYTES_MAX."""

CAPABILITIES_MAX: Final = 100
"""Processors, hooks or resources that a world's own choice may name, of each kind: with names of
ID_BYTES_MAX all three lists stay inline in their record (BODY_INLINE_BYTES_MAX)."""

CHECKPOINT_TICKS: Final = 64
"""Ticks after which a world writes a checkpoint: the manifests a cold process reads to resume,
and their tables, fit one load of LOAD_KEYS_MAX."""

CHECKPOINT_GROWTH: Final = 4
"""Times the world's own rows that may be written as changes before a checkpoint: it then costs
at most a quarter on top of them, and a cold process reads at most five times the world."""

CHECKPOINT_ROWS_MIN: Final = 10_000
"""Changed rows below which growth alone asks for no checkpoint: they are read in milliseconds."""

ROUNDS_MAX: Final = 64
"""Times one decision may ask for one more record."""

JOURNAL_BYTES_MAX: Final = 1_073_741_824
"""Bytes of one session's journal, payload objects included: 1 GiB, as recovery must read it."""

PAYLOAD_INLINE_BYTES_MAX: Final = 65_536
"""Bytes of a frame's payload that stay in the journal; a larger one is an object of its own."""

FRAME_BYTES_MAX: Final = 4_194_304
"""Bytes of a frame's payload: 4 MiB."""

FRAME_ENVELOPE_BYTES: Final = 256
"""Bytes that a frame counts for beside its payload: digest, numbers, type, features."""

CALLS_MAX: Final = 64
"""Tool calls of one model step; a message that asks for more is a failed step."""

CALL_ARGS_BYTES_MAX: Final = 262_144
"""Canonical bytes of a call's arguments: 256 KiB, the payload of an asynchronous Lambda call."""

TOOL_CALL_ID_BYTES_MAX: Final = 128
"""Bytes of a model's name for a call; a longer one is replaced. Source: CLOSE_OUT_BYTES."""

CLOSE_OUT_BYTES: Final = (CALLS_MAX + 8) * 2_048
"""Bytes of a journal kept free for the end of a run: plan and result of each call of the largest
batch, and eight frames more."""

INPUT_BYTES_MAX: Final = 1_048_576
"""Bytes of one input to a session: 1 MiB."""

SEND_ID_BYTES_MAX: Final = 128
"""Bytes of a send id or of an agent run's id."""

DETAIL_CHARACTERS_MAX: Final = 2_000
"""Characters of what somebody says with a decision on a call: it always fits the journal inline."""

TITLE_CHARACTERS_MAX: Final = 200
"""Characters of the title of a send."""

QUEUED_SENDS_MAX: Final = 100
"""Sends of one session that wait for its run to end."""

RESUMES_MAX: Final = 5
"""Processes in a row that went on with one turn and did not finish it, after which its run ends."""
