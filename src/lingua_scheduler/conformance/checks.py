"""What a node and a client must do, one entry each: the table that the scripts judge by and the documents show."""

from enum import StrEnum
from typing import NamedTuple


class PeerProfile(StrEnum):
    """`existing`: peers of the first generation, which cannot do what was added since."""

    STANDARD = "standard"
    EXISTING = "existing"


class Check(NamedTuple):
    """A requirement. `anchor` is its place in docs/; `standard_only`: peers of the profile `existing` need not."""

    name: str
    must: str
    anchor: str
    standard_only: bool = False


_RULES = "protocol.md#rules"
_EXTENSIONS = "protocol.md#extensions"
_CLOSE_CODES = "errors.md#close-codes"

NODE_CHECKS = (
    Check(
        "registers-first",
        "The first frame of every connection is `node_register`; only `node_heartbeat` may come before it.",
        _RULES,
    ),
    Check(
        "register-fields",
        "`node_register` has every required field, each of its type.",
        "protocol.md#node_register",
    ),
    Check(
        "languages",
        "`language_capabilities` names at least one pair that the node translates, as language tags.",
        "protocol.md#languagecapabilities",
    ),
    Check(
        "readable-frames",
        "Every frame is text with one JSON object of a known `type`, with its required fields.",
        _RULES,
    ),
    Check(
        "heartbeat-fields",
        "`node_heartbeat` follows the acknowledgement, with the `node_id` from it and every required field.",
        "protocol.md#node_heartbeat",
    ),
    Check(
        "heartbeat-interval",
        "Heartbeats are never further apart than three times `heartbeat_interval_ms` (15 s if absent).",
        _EXTENSIONS,
    ),
    Check(
        "running-ids",
        "`running_job_ids` lists jobs that run, and none that the node has answered or was never given.",
        _EXTENSIONS,
    ),
    Check("result", "Every job is answered with `job_result`.", "protocol.md#job_result"),
    Check(
        "result-ids",
        "What a node says of a job repeats its `job_id`, `attempt_id`, `session_id`, `utterance_index` and `trace_id`, "
        "with the node's own `node_id`.",
        "protocol.md#job_result",
    ),
    Check(
        "result-fields",
        "A result with `success: true` has a text or `extra.reason`, and speech as base64; one with `success: false` "
        "has an `error` with `code` and `message`.",
        "protocol.md#job_result",
    ),
    Check("job-ack", "A node that lists `job_ack` sends `job_ack` before it starts a job.", _EXTENSIONS, True),
    Check("waits-for-grant", "Such a node starts a job only after `job_grant` says `granted`.", _EXTENSIONS, True),
    Check(
        "keeps-results",
        "Such a node keeps a result until `result_ack`, and sends it again after a reconnect.",
        _EXTENSIONS,
        True,
    ),
    Check("unknown-fields", "Unknown fields, and optional fields that are null, change nothing.", _RULES),
    Check("unknown-types", "A message of an unknown type is ignored, and the socket stays open.", _RULES),
    Check("errors-survived", "An `error` of the scheduler does not end the node's work.", _RULES),
    Check("answers-once", "A `job_assign` that comes twice gives no second successful result.", _RULES),
    Check(
        "cancel", "After `job_cancel`, also of an unknown job, the node stays connected and takes the next job.", _RULES
    ),
    Check(
        "slots-used",
        "The node takes as many jobs at once as `max_concurrent_jobs` says.",
        _EXTENSIONS,
        True,
    ),
    Check(
        "slots-limit",
        "The node never reports more running jobs than `max_concurrent_jobs`, and answers a job too many.",
        _EXTENSIONS,
        True,
    ),
    Check("large-audio", "A job with 40 seconds of audio, a frame of 1.7 MB, is answered.", "protocol.md#audio"),
    Check("bad-audio", "Empty or damaged audio is answered with a result, and the node goes on.", "protocol.md#audio"),
    Check(
        "binary-audio",
        "A node that lists `binary_audio` takes the audio from the binary frame that follows.",
        _EXTENSIONS,
        True,
    ),
    Check("text-input", "A node that lists `text_input` translates a job that brings text.", _EXTENSIONS, True),
    Check(
        "drain",
        "A node that lists `drain` registers with `accept_public_jobs: false` at `drain`, and with true at `resume`.",
        _EXTENSIONS,
        True,
    ),
    Check("ping", "A WebSocket ping is answered with a pong, also while a job runs.", _RULES),
    Check("reconnects", "The node comes back after its connection was cut, and after close code 1012.", _CLOSE_CODES),
    Check(
        "keeps-id",
        "After a reconnect `node_register` has the `node_id` of the acknowledgement.",
        "protocol.md#node_register",
    ),
    Check(
        "keeps-boot-id", "`boot_id`, if there is one, stays the same for the life of the process.", _EXTENSIONS, True
    ),
    Check("backs-off", "A node that is refused waits before it tries again: 50 ms or more on average.", _CLOSE_CODES),
    Check("leaves", "At SIGTERM the node finishes what runs, sends the results, and ends.", _RULES, True),
    Check(
        "stops-after-4003",
        "After close code 4003 the node does not come back with the same credential.",
        _CLOSE_CODES,
        True,
    ),
    Check(
        "stops-after-4004",
        "After close code 4004 the node does not come back with the same credential.",
        _CLOSE_CODES,
        True,
    ),
)

CLIENT_CHECKS = (
    Check("init-first", "The first frame of every connection is `session_init`.", _RULES),
    Check(
        "init-fields",
        "`session_init` has every required field, and language tags (`src_lang` may be `auto`).",
        "protocol.md#session_init",
    ),
    Check("waits-for-ack", "Nothing but `session_init` is sent before `session_init_ack`.", _RULES),
    Check(
        "readable-frames", "Every text frame is one JSON object of a known `type`, with its required fields.", _RULES
    ),
    Check(
        "binary-frames",
        "Binary frames are sent only after `use_binary_frame: true`, in the layout of the page.",
        "protocol.md#audio",
    ),
    Check(
        "speaks", "The client sends speech: `audio_chunk` and a final one, or `utterance`.", "protocol.md#audio_chunk"
    ),
    Check("session-id", "Every later frame has the `session_id` of the last acknowledgement.", _RULES),
    Check(
        "seq",
        "`seq` counts chunks and finals from 0 without a gap and without a repeat. It may count on in a session that "
        "takes the place of a lost one.",
        "protocol.md#audio_chunk",
    ),
    Check("utterance-index", "`utterance_index` of whole utterances increases.", "protocol.md#utterance"),
    Check("audio-format", "Audio is PCM16 in whole samples, or framed Opus.", "protocol.md#audio"),
    Check("unknown-fields", "Unknown fields, and optional fields that are null, change nothing.", _RULES),
    Check("unknown-types", "A message of an unknown type is ignored, and the client goes on.", _RULES),
    Check("missing-result", "After a `missing_result` the client goes on.", "protocol.md#missing_result"),
    Check("late-results", "Outcomes that overtake each other (`late: true`) are accepted.", "sessions.md#order"),
    Check(
        "honours-pause",
        "After `backpressure` `PAUSE` no speech is sent for `resume_after_ms`, and then again.",
        "protocol.md#backpressure",
        True,
    ),
    Check("ping", "A WebSocket ping is answered with a pong.", _RULES),
    Check("reconnects", "The client comes back after its connection was cut, and after close code 1012.", _CLOSE_CODES),
    Check(
        "resume-token",
        "After a reconnect `session_init` has the `resume_token` of the last acknowledgement.",
        "sessions.md#when-the-connection-breaks",
        True,
    ),
    Check(
        "last-index",
        "`last_utterance_index` names no outcome that the client was not sent, or that has a gap before it.",
        _EXTENSIONS,
        True,
    ),
    Check(
        "replay",
        "After a resume the client goes on at `next_seq`, and repeats whole utterances that had no outcome.",
        _EXTENSIONS,
        True,
    ),
    Check("no-repeats", "A whole utterance that had its outcome is not sent again.", _EXTENSIONS, True),
    Check(
        "shows-once",
        "Every translation is shown once, also one that comes again after a resume.",
        _EXTENSIONS,
        True,
    ),
    Check(
        "tries-later",
        "After a `session_init` that was refused with close code 1013 the client tries again.",
        _CLOSE_CODES,
    ),
    Check("backs-off", "A client that is refused waits before it tries again: 50 ms or more on average.", _CLOSE_CODES),
    Check("lost-session", "If the session was not resumed, the old `session_id` is used no more.", _EXTENSIONS, True),
    Check(
        "stops-after-4003",
        "After close code 4003 the client does not come back with the same credential.",
        _CLOSE_CODES,
        True,
    ),
    Check(
        "stops-after-4004",
        "After close code 4004 the client does not come back with the same credential.",
        _CLOSE_CODES,
        True,
    ),
    Check("stops-after-4007", "After close code 4007 the client does not come back.", _CLOSE_CODES, True),
)
