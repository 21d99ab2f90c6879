"""The hand-written part of the generated pages: introductions, and meanings that no code holds."""

SETTINGS = """
Every setting has a default, so none is required. Values come from four places; a later one overrides an earlier one:

1. the default in the table below;
2. a TOML file, named by `--config` or `LINGUA_CONFIG`; without either, `config.toml` of the working directory, if all
   its sections are ours (the command says that it reads it);
3. environment variables, `LINGUA_<SECTION>_<KEY>`;
4. flags of `lingua serve`: those with a name of their own, and `--set section.key=value` for all others.

```toml
[server]
port = 8000

[redis]
url = "redis://db.example:6379/0"

[sessions]
pause_ms = 2000
```

An unknown name is an error that suggests the nearest known one. A value out of range is an error that says what is
expected. All of them are named at once, and end the program with exit code 2. Sections of earlier schedulers
(`[scheduler]`, `[phase2]`, `[phase3]`, `[model_hub]`) are [translated](coming-from-earlier.md#settings).
`lingua serve --print-config` shows every effective value and its
source; add `--json` for scripts.

Units are in the names: `_ms` is milliseconds, `_bytes` is bytes. In the environment, booleans are `true` or `false`
(`1`, `0`, `yes`, `no`, `on` and `off` work too), and lists are comma-separated, `a,b`, or arrays
as in the file, `'["a", "b"]'`; the same holds for `--set`.
"""

KEYS = """
Everything the scheduler must not lose is in Redis under these keys. `…` stands for the prefix
(`redis.key_prefix`, `{prefix}` by default).

The word in braces is a *hash tag*: Redis Cluster puts keys with the same tag on the same server, so a script may touch
them together. There is one tag for each **shard**, a group of at most `pools.shard_size` nodes with everything about
them: `{{s0}}`, `{{s1}}` and so on (`{{s7}}` below stands for any of them). Choosing a node, leasing a slot and writing
the job is therefore one script on one server. One more tag, `{{shards}}`, holds which node lives in which shard. The
instances share `{{instances}}`, and each has a tag of its own for its mail.

What every selection of a node needs is kept as columns (`seen`, `free`, `limits` …: one key for all nodes of a shard)
rather than as one hash per node, so a selection takes a handful of commands however many candidates there are.
"""

SCRIPTS = """
Every race is settled in one of these scripts. They are in `src/lingua_scheduler/store/lua/`, one operation per file.
Python calls them by name with named arguments; the names come from the block of `local … = KEYS[…]` and
`ARGV[…]` lines at the top of each file. How to write one is in [CONTRIBUTING.md](../CONTRIBUTING.md#a-lua-script).

Each reply begins with one of the words listed. A key or argument marked *list* takes all remaining ones.
`now_ms` is empty except in tests: scripts use Redis's clock.
"""

METRICS = """
`GET /metrics` returns the Prometheus text format. All values are those of the instance that answers; with `lingua serve
--workers` any worker answers for all of them. Label values come from small fixed sets, never from a peer: sessions,
jobs and nodes are never labels, and an error code that a node invented is counted as `other`. Only language pairs are
named, up to `watch.max_pairs`, and quarantined nodes, at most 20 at once and 100 new names a day; all others are summed
under `other`. Acknowledgements that did not arrive in time are
`lingua_attempts_lost_total{reason="ack_timeout"}`. If scrapes are so frequent that generating the page would take more
than 10 % of a CPU core, the previous page is returned.

Alert rules and a dashboard are in `deploy/`; what to do when an alert fires is in the [runbook](runbook.md).

With several workers, counters and histograms are summed, and so are gauges, except where the table says otherwise. What
a worker counted before it ended stays in the sum, so a sum never decreases. A worker that does not answer within a
second is missing from the gauges and counted in `lingua_workers_silent_total`; its counters keep their last known
values.
"""

LOGS = """
Logs go to standard error, one event per line: as JSON, or coloured on a terminal (`logs.format`). `logs.level` is the
minimum severity. Files, rotation and shipping are left to the platform: journald, Docker and Kubernetes all collect
standard error, and `lingua serve 2>> lingua.log` with logrotate's `copytruncate` works too.

- **Speech is never logged**: no text, no audio, no error message of a node. An error code that a node invented is
  logged as `other`. Of an unexpected exception only its type and its place in the code are logged.
- **Event names** are `noun.verb` and static; ids are fields.
- **Ids are added automatically**: every line logged while a session, a job, a node or an HTTP request is being served
  has `session_id`, `utterance_index`, `job_id`, `node_id` and `request_id` as far as they are known, besides the fields
  below. `request_id` is the value of the `X-Request-Id` header. With several workers each line also has `worker`.
- **Rate limit**: at most `logs.storm_lines` lines per event are written in 10 s. Further ones are suppressed, and their
  number is logged as `log.limited` at the end of the 10 s. This applies to errors too; the metrics count everything.

Levels: **error** needs attention now; **warning** something was lost, refused or repaired, and the scheduler continued;
**info** normal changes.
"""

ALIASES = """
Older alerts and dashboards use these names. They are computed from the metrics above at each scrape, so they cost
nothing in between, and they work with several workers.
"""

PROTOCOL = """
The WebSocket protocol of clients and nodes. The tables are generated from the structs in
`lingua-sdk/src/lingua_sdk/protocol/`, which also encode and decode the frames. A running scheduler serves the
same messages at `/docs/messages`, as an AsyncAPI 3.0 document and as JSON Schema; see [schemas.md](schemas.md).

## Rules

- **One port** (default 5010). Clients open a WebSocket at `/ws/session`, nodes at `/ws/node`; HTTP is on the same port
  (`GET /` lists the paths).
- **Text frames** contain one JSON object each; its `type` names the message. Times are epoch milliseconds; durations
  end in `_ms`.
- **Reading is tolerant**: unknown fields are ignored, and an optional field may be absent or null. Writing is sparse:
  optional fields without a value are left out.
- **An invalid frame** (not JSON, an unknown type, a missing field, an invalid language code, too large) is answered
  with `error`, usually `INVALID_MESSAGE`, and a sentence that names the problem. The socket stays open, unless the
  frame is larger than four times `server.max_frame_bytes`, or is an `utterance` on a socket without a session. Codes:
  [errors.md](errors.md).
- **A node registers first**: before `node_register` only heartbeats are accepted, and they have no effect. A socket
  without a registration is closed after 30 s.
- **A session begins with `session_init`**; later frames name the `session_id` from its acknowledgement. If no connected
  node serves the languages at that moment, the acknowledgement says why in `unserved`. A session
  stays open for `sessions.grace_ms` after its socket closed, and is resumed with its token;
  see [sessions.md](sessions.md#when-the-connection-breaks).
- **A token expires** at `expires_at_ms` of the acknowledgement; it is absent if the credential has no end. Before
  that a client sends a newer token of the same user with `token_refresh`, and gets `token_refreshed`. A token that is
  not accepted, or is of another user, closes the socket with 4003. Without one the socket is closed with 4005 when
  `auth.expired_grace_ms` is over; the session can be resumed with a newer one. A client that has sent
  `token_refresh`, or has `refreshes_token: true` in its `session_init`, has 25 s.
- **Every utterance has one outcome**: a `translation_result`, or a `missing_result` with a reason: `no_text` (nothing
  was recognised), `silence_detected` (no audio), `job_failed` (with a `code`, such as `JOB_TIMEOUT` if no node answered
  in time or `JOB_CANCELLED`, and a `detail`). Outcomes are sent in the
  order of `utterance_index`, except that an outcome whose job takes long may be overtaken by later ones; it then has
  `late: true`. See [sessions.md](sessions.md#order). A failed job is also reported in a `ui_event` whose `event` is
  `ERROR`; `error` is for problems the user must act on. A cancelled job is also a `missing_result` with `job_failed`,
  and a `ui_event` without an error: `event` `INPUT_ENDED`, `status` `ok`, `hint` `cancelled`. A `ui_event` may be
  delayed by up to 20 ms, so that several are sent in one batch.

## Audio

Audio is 16 kHz mono, without a container, either raw PCM16 (little-endian) or framed Opus: packets of 20 ms, each
preceded by its length as an unsigned 16-bit little-endian number. The scheduler detects the format from the bytes: if
following the lengths leads exactly to the end, it is Opus.

In JSON, audio is base64. When the acknowledgement says `use_binary_frame: true`, a client may send audio in binary
frames instead (all numbers little-endian); everything else stays JSON. A client may request this with
`use_binary_frame: true` in its `session_init`; `sessions.use_binary_frame` enables it for all clients.

| frame | layout |
|---|---|
| chunk | `0x01` u8 · id length u8 · seq u32 · timestamp u32 · is_final u8 · reserved u8 · session id · audio |
| final | `0x02` u8 · id length u8 · seq u32 · timestamp u32 · session id |

The timestamp is the low 32 bits of epoch milliseconds.

An utterance ends with a chunk marked final, after a pause (`sessions.pause_ms` without speech), after
`sessions.max_duration_ms` of speech, or at `sessions.max_utterance_bytes`. After the end the scheduler waits a moment
(the hangover), because some clients send the final just before the last chunk. Silence makes no utterance: a final
after nothing but silence is ignored. A chunk whose payload is not base64 counts as an empty chunk.

## Extensions

Older peers ignore all of this. A node that lists `job_ack` in `advanced_features` asks before it starts a job:
it sends `job_ack` within `start_within_ms`, and starts only when `job_grant` says `granted`; `stale` means that the
job no longer belongs to it. Such a node also gets `node_heartbeat_ack`, and `result_ack` once its result is stored in
Redis, so that it knows when it may discard the result; a result that arrives too late is answered with `job_grant`,
`stale`. For nodes that do not list it, a job counts as accepted once its frame was written to the open socket.

**Features a node must announce.** An unexpected field may make a node fail, so these are sent only to nodes that list
them in `advanced_features`:

| feature | the node then gets |
|---|---|
| `lid` | `lid`, the languages to choose from |
| `context_text` | `context_text`, the last words of the group the job continues, if this node recognised them |
| `semantic` | `use_semantic: true` unless the client sets it to false; other nodes only if the client requests it |
| `quarantine` | `node_control` `quarantined` (also when it registers and still is) and `recovered`, for its log |
| `turns` | only the flag of the actual reason for a cut, and one `turn_id` for all parts of a long speech |
| `text_input` | jobs that bring `text_input`, text in `src_lang`, instead of audio |

Nodes built with the SDK list all of them, `text_input` if they translate or speak. A node that lists none gets only
what first-generation nodes can read. Such a node fails a job with `lid` if it has no model for it, and translates
immediately only speech that was cut by hand and is a turn of its own, so it gets `is_manual_cut` with every job and a
separate `turn_id` for every part.

`boot_id` is unique per node process. A node that registers again with the same `boot_id`, before its previous
connection was found closed, keeps its running jobs; after any other registration its jobs are retried elsewhere.
`max_concurrent_jobs` is the number of slots, `heartbeat_interval_ms` the interval of its heartbeats. `running_job_ids`
lists the jobs the node is running: a job that is missing from it is retried elsewhere, and one that the scheduler does
not know occupies a slot until the node no longer lists it.

**Jobs that bring text.** A `job_assign` with `text_input` has empty `audio`, with `use_asr` and `use_semantic` false.
The node translates the text if `use_nmt` is set, speaks the translation (without `use_nmt`: the text itself) if
`use_tts` is set, and answers with `job_result` as usual; `text_asr` may be absent. So an utterance that several
languages need is recognised once, and nodes that only translate or only speak are useful: for such jobs a node needs
neither `asr_languages` nor `semantic_languages`. It translates the pairs of `nmt_capabilities`; without any, all pairs
from the languages it recognises or repairs. One utterance may be several jobs at the same node, each with its own
`session_id`.

`audio_ref` replaces the audio in `job_assign` if an HTTP caller gave only a reference; its meaning is agreed between
the caller and the node.

`traceparent` is in `job_assign` while tracing is on: the W3C trace context to continue, see [traces](traces.md). A
client's `trace_id` is copied to every message that it gets about its speech; without one, while tracing is on, it is
the id of the utterance's trace.

`session_id`, `turn_id`, `group_id` and `trace_id` in `job_assign` are the node's own: no other node gets the same for a
session ([sessions](sessions.md#when-an-utterance-ends)). While tracing is on, `trace_id` is the id of the utterance's
trace.

**Resuming a session.** `session_init_ack` has a `resume_token`. A client that sends it in the `session_init` of a new
connection, while the session is open (up to `sessions.grace_ms` after its socket closed), continues the session: the
acknowledgement says `resumed`, with the `next_seq` and `next_utterance_index` to continue from. The scheduler then
sends the outcomes that may have been lost with the connection (those of about the last minute, bounded, except up to
`last_utterance_index`, the last one the client has without a gap before it), and those that arrived since. An unknown
or expired token opens a new session, without `resumed`.

A whole utterance may have a `request_id`, an idempotency key within its `tenant_id` and session: a repeat gets no
second job, and a repeat with other audio or languages is refused.

**Missing services.** A node that cannot process a job because a model is missing answers with `MODEL_NOT_AVAILABLE`; it
may also report this at any time with `node_error`. If `details` names `service_id`, `service_version` and `reason`,
only jobs that need this type of service go elsewhere for `nodes.unavailable_ms`; a service that is not among the node's
`installed_services` may be needed by any job. A repeat of the same report within 5 s, and more than 30 reports in 10 s,
have no effect.

**Failures.** If the `details` of a failed job's error name a `stage` (`recognise`, `repair`, `translate`, `speak`) and
an `exception` (one of Python's own, such as `ValueError`), people who look at the job see them. Any other value is
left out, because it may contain speech.

**Pairing.** The owner of a [private node](access.md#private-nodes) makes a pairing code: eight characters of base32,
for one session, valid for five minutes. A session whose `session_init` has it as `pairing_code` is translated by that
node alone, also after a resume. A code that is unknown, was used or has expired is answered with `error`
`INVALID_PAIRING_CODE` after `session_init_ack`, and the session goes on without the node; after five of them in a
minute, codes from that address are not looked at. Any other text, `null` and an empty text are ignored, because
existing apps let people type what they like.

Messages that are only declared are marked below.

**Rooms.** A message about rooms is of the session that its socket has initialised last. See [rooms.md](rooms.md).
"""

JOBS = """
A job is one utterance to be translated into one language. It has at most one live attempt at a time; each attempt runs
on one node and has a number and a lease. The table below comes from `src/lingua_scheduler/domain/jobs/jobs.py`. Scripts
get the allowed start states of a transition from it, and a transition that is not in it is rejected as stale.
"""

JOBS_DIAGRAM = """
*Live* is any state in which the job has a live attempt: an event drawn from it may occur in each state inside it.
"""

JOBS_IN_REDIS = """
A job's record is first written by `job_dispatch`: leasing the slot and writing the job as `DISPATCHED` is one step,
done before the frame is sent. `CREATED` is only a job that waits for its first node: `job_note` records it, and also a
job for which no node was found (as `FAILED`, attempt 0), up to 50 per second and instance; further ones are only
counted. An attempt may end from any live state, because a fast node's result may overtake its acknowledgement. Jobs of
nodes that never acknowledge go from `DISPATCHED` directly to an end state. A job whose request was taken over, or whose
caller disconnected before it was sent, is also `CANCELLED`.

`lingua cancel` and `POST /v1/jobs/{job_id}/cancel` end a job that is running, waiting for a retry, or waiting for its
first attempt and recorded. `job_cancel` does this in Redis; then a signal informs the job's owner. If the signal is
lost, the owner notices at its next step, at the latest at the attempt's deadline, and does not retry. Later messages
of the node about the job are stale.

The record is one string (`lingua job ID` shows it, `GET …:record:<job id>` returns it raw): a line of fields that every
job has, then a line `step state ms attempt node reason` for each of its last 24 transitions; the oldest are dropped
first.
"""

# What earlier schedulers and their documents called these states.
OLDER_NAMES = (
    ("NEW", "`CREATED`"),
    ("SELECTING", "`CREATED`: choosing and reserving are one step, so there is nothing in between"),
    ("ACKED", "`ACCEPTED`"),
    ("FINISHED", "`DONE` or `NO_TEXT`"),
    ("RELEASED", "not a state: the lease releases the slot, not the job"),
)

ERRORS = """
Codes are the same on WebSocket (`error`, `ui_event`, `job_result`) and HTTP (`{"error": "…", "detail": "…"}`).
*Sent by* names who sends a code today: the scheduler itself, or only nodes and peers (a node's code is passed on in
`ui_event` when the job finally fails; an unknown code counts as `PROCESSING_ERROR`). *Another node* says whether a job
is retried on another node if its node answers with the code, up to `job.max_retries` times and until `job.deadline_ms`.
"""

ERRORS_OF_HTTP = """
Operations that need Redis answer 503 with `SCHEDULER_DEPENDENCY_DOWN` while Redis is unavailable. Which operation
returns which code, and when, is in `/openapi.json` and at `/docs` of a running scheduler. These codes
exist only in HTTP:
"""

HTTP_MEANINGS = {
    "NOT_FOUND": "404: unknown path; `GET /` lists all paths",
    "METHOD_NOT_ALLOWED": "405: the path does not support this method; the `Allow` header lists those it supports",
    "ORIGIN_NOT_ALLOWED": "403: a web page of another origin requested a socket or a change; see "
    "`server.allowed_origins`. Or a client key was used by a page that is not one of its own",
    "UNAUTHENTICATED": "401: there is no credential, or it is not accepted; the log of the scheduler says why",
    "TOKEN_EXPIRED": "401: the key or token has expired; get a new one",
    "PERMISSION_DENIED": "403: the credential lacks a scope, or may not be used from this address",
    "ENROLMENT_REFUSED": "403: the node may not join: its enrolment key has ended or is used up, or it was banned",
    "NODE_NOT_APPROVED": "403: the node has joined, and an operator must approve it; it may try again shortly",
    "MISDIRECTED": "421: the `Host` header does not name this scheduler; see `server.allowed_hosts`",
    "RATE_LIMITED": "429: the address has too many connections (`server.max_sockets_per_address`), opens them too "
    "fast (`server.handshakes_per_address_s`), or has sent too many wrong credentials; `Retry-After` says when to try "
    "again",
    "REQUEST_TIMEOUT": "408: the body did not arrive within `server.body_timeout_ms`",
    "BODY_TOO_LARGE": "413: the body is larger than `server.max_body_bytes` (a sound file: `calls.max_upload_bytes`)",
    "UNSUPPORTED_MEDIA_TYPE": "415: the body is not sent as `application/json`, or is no sound file that can be read",
    "SERVICE_UNAVAILABLE": "503: no socket can be opened now, because the scheduler is stopping or full; or the "
    "instance that has the job or node did not answer in time",
    "UNKNOWN_NODE": "404: no such node; a node that uses HTTP must register again",
    "NOT_ACCEPTABLE": "406: the response cannot be given in a format of the `Accept` header",
    "AUDIO_TOO_LONG": "413: the audio of a sound file is longer than `calls.max_upload_ms`",
    "UNREADABLE_AUDIO": "422: a sound file is damaged, or takes too much time or memory to decode",
    "UNKNOWN_ROOM": "404: no such room, or it has ended; `GET /v1/rooms` lists them",
    "NODE_NOT_PRIVATE": "409: every session may use the node, so there is no pairing code for it",
    "UNKNOWN_ALARM": "404: no such alarm is raised; `GET /v1/alarms` lists them",
    "ALARM_KEPT": "409: the alarm is about a pair of `pools.wanted` and cannot be forgotten, or too many are silenced",
    "UNKNOWN_KEY": "404: no such key, or none of the caller's tenant; `GET /v1/keys` lists them",
    "UNKNOWN_ISSUER": "404: no such issuer of tokens, or none of the caller's tenant; `GET /v1/issuers` lists them",
    "KEY_CONFLICT": "409: the key has ended, was replaced already or is changed in `auth.keys_file` alone, or its id "
    "is taken; the detail says which",
    "STALE_ATTEMPT": "409: the attempt has ended or belongs to another node; nothing was changed, and "
    "the node should drop the job",
}

ERROR_MEANINGS = {
    "INVALID_MESSAGE": "The frame is unreadable or invalid; the message names the problem",
    "INTERNAL_ERROR": "An unexpected failure; see the log",
    "INVALID_SESSION": "No such session, or it is closed; send `session_init` first",
    "SESSION_CLOSED": "The session has ended",
    "NODE_UNAVAILABLE": "The node cannot be used; at registration: the fleet has no room for another node",
    "NODE_OVERLOADED": "Overloaded: a node's slots are in use, or there are too many sessions or utterances",
    "MODEL_NOT_AVAILABLE": "The node does not have the model this job needs",
    "MODEL_LOAD_FAILED": "The node could not load the model",
    "UNSUPPORTED_FEATURE": "The peer does not support the requested feature",
    "INVALID_PAIRING_CODE": "The pairing code is unknown, was used or has expired; the session goes on without it",
    "NO_AVAILABLE_NODE": "Older name of `NO_CAPABLE_NODE` and `ALL_CANDIDATES_FULL_OR_FAILED`",
    "WS_DISCONNECTED": "A connection was lost while the job was in progress",
    "NMT_TIMEOUT": "Translation took too long on the node",
    "TTS_TIMEOUT": "Speech synthesis took too long on the node",
    "JOB_TIMEOUT": "No node answered in time",
    "MODEL_VERIFY_FAILED": "The node's model failed its integrity check",
    "MODEL_CORRUPTED": "The node's model is damaged",
    "NO_GPU_AVAILABLE": "The node has no GPU for this job",
    "NODE_ID_CONFLICT": "Another node uses this id",
    "INVALID_CAPABILITY_SCHEMA": "The node's capabilities are invalid; the message names the problem",
    "SCHEDULER_DEPENDENCY_DOWN": "Redis is unavailable; no new job is dispatched until it is back",
    "PROCESSING_ERROR": "The node failed the job, for a reason without a code of its own",
    "NO_CAPABLE_NODE": "No connected node serves the language pair, and none that recently did reconnected in time",
    "ALL_CANDIDATES_FULL_OR_FAILED": "Nodes serve the pair, but none had a free slot in time, or every attempt failed",
    "PREFERRED_NODE_NOT_CAPABLE": "The requested node cannot take the job",
    "REQUEST_CONFLICT": "The same `request_id` was already used for a different request in this session",
    "JOB_ELSEWHERE": "Another instance has the job, and one of an older release runs; ask the instance in the detail",
    "RESULT_LOST": "The job's result was lost, perhaps with the instance that had it; send the request again",
    "JOB_CANCELLED": "The job was cancelled",
    "PERMISSION_DENIED": "The credential does not allow this: a language pair, a tenant, or a node id that belongs to "
    "another one",
    "QUOTA_EXCEEDED": "The credential has as many sessions at this instance as it allows (`max_sessions`)",
    "JOB_NOT_FOUND": "No such job, or its record has expired (`job.keep_ms`)",
    "JOB_ENDED": "The job has already ended and cannot be cancelled; the detail names its state",
}

CLOSE_CODES = """
When the scheduler closes a socket, the close code says why. After all but
`UNAUTHENTICATED`, `REVOKED` and `GUESSING` the peer should reconnect.
"""

CLOSE_MEANINGS = {
    "COME_BACK": "The scheduler is stopping or restarting, or an operator evicted the node",
    "TRY_LATER": "Try again later: Redis is unavailable, no registration arrived in time, or an internal error",
    "SUPERSEDED": "The node has a newer connection",
    "MISBEHAVED": "Too many unreadable frames (`server.max_bad_frames_per_min`), or, from a node, too many heartbeats "
    "or messages about jobs that it does not have",
    "TOO_SLOW": "The peer read too slowly: more than `server.outbox_max_bytes` were waiting for it",
    "UNAUTHENTICATED": "The new token was not accepted",
    "REVOKED": "The credential was revoked. Do not reconnect with it",
    "EXPIRED": "The token has expired. Get a new one, reconnect and resume",
    "GUESSING": "The socket named ten sessions of other sockets. Do not reconnect with these session ids",
}

WRITE_A_NODE = """
A node is a program that connects to the scheduler, gets jobs and answers each of them with a result. It needs a
WebSocket, JSON and base64, and nothing else. In Python, [the SDK](sdk.md#a-node) does all of this.
[examples/nodejs](../examples/nodejs/node.mjs) and [examples/go](../examples/go) are whole nodes without dependencies.

1. **Connect** to `ws://HOST:5010/ws/node`, with `Authorization: Bearer KEY` if the scheduler asks for keys
   ([access.md](access.md)).
2. **Register**: send [`node_register`](protocol.md#node_register) with the languages that you translate, and remember
   the `node_id` of the answer; with it the node is the same one after a reconnect.
3. **Send [`node_heartbeat`](protocol.md#node_heartbeat)** every `heartbeat_interval_ms`, also while jobs run.
4. **Answer every [`job_assign`](protocol.md#job_assign)** with one [`job_result`](protocol.md#job_result), which
   repeats the ids of the job. A job that fails is answered too: `success: false`, with an [error code](errors.md).
5. **Ignore what you do not know**: fields, message types, `null` in optional fields.
6. **Come back** when the connection ends, with a pause that grows from 0.2 s to 5 s and has jitter; not after the
   [close codes](errors.md#close-codes) 4003, 4004 and 4007.

That is a complete node. The [extensions](protocol.md#extensions) are optional, and each is listed in
`advanced_features` by the nodes that have it: `job_ack` (it asks before it starts a job, and keeps results until they
are acknowledged), `binary_audio`, `text_input`, `drain`.

## Test it

`lingua conformance node` listens as a scheduler that follows a script. It needs neither Redis nor a scheduler. It
sends speech, unknown messages, damaged audio, jobs twice and too many of them; it cuts the connection, refuses it,
and dismisses the node. Then it prints the verdict on each requirement:

```sh
lingua conformance node --command "node --experimental-websocket my-node.mjs"
```

- With `--command` the kit starts the program, and starts it again where a test ends it. The address is in the
  variable `LINGUA_URL` (`ws://127.0.0.1:5011/ws/node`). The program gets SIGTERM once, and must end by itself then.
- Without `--command`, point your node at the printed address. What needs a restart is *not tested: needs --command*.
- Exit code 0: every requirement that applies was tested and met. 1: one failed, was not tested, or was not reached.
- A failure names what was expected, what came, and the page to read.
- `--profile existing` leaves out the requirements that are marked *(standard)* below. Nodes and clients that were
  written for the first scheduler are served, and cannot meet them.
- `--json` is for build servers. `--patience` is how long to wait for an answer; raise it for models that are slow to
  load.

A client is tested with `lingua conformance client --command …`. It should keep speaking, in sentences of a
second or two, and print the translations; the kit finds out from its output whether one was shown twice.
"""

NODE_CHECKS = """
Checks of an extension apply to nodes that list it.
"""

CLIENT_CHECKS = """
Chunks and whole utterances have checks of their own; those of what a client does not send do not apply.
"""
