"""The hand-written part of the generated pages: introductions, and meanings that no code holds."""

SETTINGS = """
Every setting has a default, so none has to be given. Values come from four places; a later one wins:

1. the default in the table below;
2. a TOML file, named by `--config` or `LINGUA_CONFIG`;
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

An unknown name is an error that suggests the nearest known one, a value out of range is an error that says what
was expected, and both end the program with exit code 2. `lingua serve --print-config` shows every value in force
and where it came from; add `--json` for scripts.

Units are in the names: `_ms` is milliseconds, `_bytes` is bytes. In the environment, booleans are `true` or `false`
(`1`, `0`, `yes`, `no`, `on` and `off` work too), and lists are written with commas: `a,b`. In the file they are arrays.
"""

KEYS = """
Everything the scheduler must not lose is in Redis under these keys. `…` stands for the prefix
(`redis.key_prefix`, `{prefix}` by default).

The word in braces is a *hash tag*: Redis Cluster puts keys with the same tag on the same server, so a script may touch
them together. There is one tag for each **shard**, a group of at most `pools.shard_size` nodes with everything about
them: `{{s0}}`, `{{s1}}` and so on (`{{s7}}` below stands for any of them). Choosing a node, leasing a slot and writing
the job is therefore one script on one server. One more tag, `{{shards}}`, holds which node lives in which shard. The
instances share `{{instances}}`, and each has a tag of its own for its mail.

Facts that every choice needs are kept as columns (`seen`, `free`, `limits` …: one key for all nodes of a shard)
rather than as one hash for each node, so a choice costs a handful of commands however many candidates it looks at.
"""

SCRIPTS = """
Every race is settled in one of these scripts. They are in `src/lingua_scheduler/store/lua/`, one verb a file.
Python calls them by name with named arguments; the names come from the block of `local … = KEYS[…]` and
`ARGV[…]` lines at the top of each file. How to write one is in [CONTRIBUTING.md](../CONTRIBUTING.md#a-lua-script).

Each reply begins with one of the words listed. A key or argument marked *list* takes all that are left.
`now_ms` is empty except in tests: the clock is Redis's own.
"""

METRICS = """
`GET /metrics` answers in the Prometheus text format. All values are those of the instance that is asked; with
`lingua serve --workers` any worker answers for all of them. Label values come from small fixed sets, never from a peer:
no session, job or node is ever a label, and an error code that a node made up is counted as `other`. Only language
pairs are named, as many as `watch.max_pairs`, and all others summed under `other`. Acknowledgements that did not come
in time are `lingua_attempts_lost_total{reason="ack_timeout"}`. Whoever asks so often that making the page takes more
than a tenth of a core gets the last one again.

Rules for alerts and a dashboard are in `deploy/`; what to do when one fires is in the [runbook](runbook.md). What
counting costs is measured with `lingua bench --scenario metrics`.

Of several workers, counters and histograms are added up, and so are gauges, except where the table says otherwise. What
a worker counted before it ended stays in the sum, so a sum never shrinks. A worker that does not answer within a second
is left out of the gauges and counted in `lingua_workers_silent_total`; of its counters the last known values are taken.
"""

LOGS = """
One event a line, to standard error: as JSON, or in colours when a person watches (`logs.format`). `logs.level` says how
severe an event must be to be written. Files, rotation and shipping are left to the platform: journald, Docker and
Kubernetes all take standard error, and `lingua serve 2>> lingua.log` with logrotate's `copytruncate` does too.

- **Speech is never in a log**: no text, no audio, no error message of a node. An error code that a node made up is
  written as `other`, and of a surprise only its kind and where it happened.
- **Names** are `noun.verb` and never change with what they tell; ids are fields.
- **Ids come by themselves**: what is said while a session, a job, a node or an HTTP request is being served carries
  `session_id`, `utterance_index`, `job_id`, `node_id`, `request_id` as far as they are known, besides the fields below.
  `request_id` is that of the `X-Request-Id` header. With several workers each line also has `worker`.
- **Storms**: of one event at most `logs.storm_lines` lines are written in ten seconds. Of the rest the number is told,
  as `log.limited`, when the ten seconds are over. This holds for errors too; the metrics count everything.

Levels: **error** somebody should look now; **warning** something was lost, refused or repaired, and the scheduler went
on; **info** what came, went and changed.
"""

ALIASES = """
Alerts and dashboards from before find these names too. They are made from the figures above when somebody asks, so they
cost nothing until then, and they work with several workers.
"""

PROTOCOL = """
How clients and nodes talk to the scheduler. The tables are printed from the structs in
`src/lingua_scheduler/protocol/`, which are also what reads and writes the frames. For programs, the same messages are
in [asyncapi.json](asyncapi.json), an AsyncAPI 3.0 document with JSON Schemas; a running scheduler serves its own at
`/asyncapi.json`.

## Rules

- **One port** (5010 unless set otherwise). Clients open a WebSocket at `/ws/session`, nodes at `/ws/node`; the HTTP
  pages are on the same port (`GET /` lists them).
- **Text frames** hold one JSON object each; its `type` says which message it is. Times are epoch milliseconds;
  durations end in `_ms`.
- **Reading is tolerant**: unknown fields are ignored, and an optional field may be absent or null. Writing is sparse:
  optional fields without a value are left out.
- **A frame that cannot be used** (not JSON, an unknown type, a missing field, a language that is no code, too large) is
  answered with `error`, usually `INVALID_MESSAGE`, and a sentence that names the fault. The socket stays open, unless
  the frame is more than four times `server.max_frame_bytes`, or an `utterance` on a socket without a session. Codes:
  [errors.md](errors.md).
- **A node registers first**: before `node_register` only heartbeats are tolerated, without effect. A socket without a
  registration is closed after 30 s.
- **A session begins with `session_init`**; later frames name the `session_id` from its acknowledgement. A session
  outlives its socket by `sessions.grace_ms`, and is resumed with its token;
  [sessions.md](sessions.md#when-the-connection-breaks) says how.
- **Every utterance has one outcome**: a `translation_result`, or a `missing_result` with a reason:
  `no_text` (nothing was said, or the node never answered), `silence_detected` (it had no audio), `job_failed`. Outcomes
  come in the order of `utterance_index`, except that one may be overtaken by later ones when its job takes long; it
  carries `late: true` then. [sessions.md](sessions.md#order) says when.
  A failed job is also explained by a `ui_event` whose `event` is `ERROR`; `error` is for what the person must act on.
  A cancelled job is a `missing_result` with `job_failed` too, and a `ui_event` without an error: `event` `INPUT_ENDED`,
  `status` `ok`, `hint` `cancelled`. A `ui_event` may wait 20 ms for others.

## Audio

Audio is 16 kHz mono, without a container, either raw PCM16 (little-endian) or framed Opus: packets of 20 ms, each
preceded by its length as an unsigned 16-bit little-endian number. The scheduler tells them apart by looking: bytes
that can be walked from length to length exactly to their end are Opus.

In JSON, audio is base64. When the acknowledgement says `use_binary_frame: true`, a client may send audio in binary
frames instead (all numbers little-endian); everything else stays JSON. A client may ask for that with
`use_binary_frame: true` in its `session_init`; `sessions.use_binary_frame` offers it to all.

| frame | layout |
|---|---|
| chunk | `0x01` u8 · id length u8 · seq u32 · timestamp u32 · is_final u8 · reserved u8 · session id · audio |
| final | `0x02` u8 · id length u8 · seq u32 · timestamp u32 · session id |

The timestamp is the low 32 bits of epoch milliseconds.

An utterance ends with a chunk marked final, after a pause (`sessions.pause_ms` without speech), after
`sessions.max_duration_ms` of speech, or at `sessions.max_utterance_bytes`. Before it is taken there is a short
hangover, because some clients send the final a moment before the last chunk. Silence makes no utterance: a final after
nothing but silence is ignored. A chunk whose payload is not base64 counts as an empty chunk.

## What we add

Older peers ignore all of this. A node that lists `job_ack` in `advanced_features` promises to ask before it starts:
it sends `job_ack` within `start_within_ms`, and begins only when `job_grant` says `granted`; `stale` means that the
job is somebody else's by now. Such a node also gets `node_heartbeat_ack`, and `result_ack` once its result is in
Redis, so that it knows when it may forget it; a result that comes too late is answered with `job_grant`, `stale`.
For nodes that do not list it, a frame handed to an open socket counts as accepted.

**What a node must announce to get it.** A field that a node does not expect may make it fail, so these are sent only to
nodes that list them in `advanced_features`:

| listed | the node then gets |
|---|---|
| `lid` | `lid`, the languages to choose from |
| `context_text` | `context_text`, the last words of the group the job continues |
| `semantic` | `use_semantic: true` unless the client said otherwise; others only when the client asks for it |
| `turns` | only the flag of the real reason for a cut, and one `turn_id` for all parts of a long speech |

Nodes built with our SDK list all of them. A node that lists none gets what the first generation of nodes can read. Such
a node fails a job with `lid` if it has no model for it, and translates at once only what was cut by hand and is a turn
of its own, so it gets `is_manual_cut` with every job and a `turn_id` for every part.

`boot_id` is one per node process: a node that registers again with the same one, before its former connection was
found closed, keeps its running jobs; any other registration hands them back. `max_concurrent_jobs` says how many
slots the node has, `heartbeat_interval_ms` how often it beats. `running_job_ids` lists what the node really runs: a job
that it no longer lists is tried elsewhere, and one that we do not know of takes a slot until the node lets go of it.

`audio_ref` stands in `job_assign` instead of audio when a caller over HTTP gave no more than a reference; what it means
is between the caller and the node.

`traceparent` stands in `job_assign` while the scheduler is traced: the W3C trace context to go on under, see
[traces](traces.md). A `trace_id` that a client gives is kept in every message about its speech; without one it is,
while the scheduler is traced, the id of the utterance's trace.

**Coming back.** `session_init_ack` carries a `resume_token`. A client that sends it in the `session_init` of a new
connection, while the session lives (`sessions.grace_ms` after its socket closed), goes on with the same session: the
acknowledgement says `resumed`, with the `next_seq` and `next_utterance_index` to go on from. Outcomes that came
meanwhile follow, and before them those that may have been lost in the broken connection: what was sent during the last
minute or so (bounded), except up to `last_utterance_index`, the last one the client has without one missing before it.
A token that is not known any more opens a new session, without `resumed`.

A whole utterance may carry a `request_id`, which means something within its `tenant_id` and session: sent again, it
gets no second job; sent with other audio or languages, it is refused.

**Lacking a service.** A node that cannot serve a job because a model is missing answers with `MODEL_NOT_AVAILABLE`; it
may also say so at any time with `node_error`. With `details` of `service_id`, `service_version` and `reason`, only jobs
that need this kind of service go elsewhere for `nodes.unavailable_ms`; a service that is not among the node's
`installed_services` may be needed by any job. Saying the same again within 5 s, or more than 30 complaints in 10 s, has
no effect.

`pairing_code` is declared but changes nothing yet. Messages that are declared only are marked below. Any message about
rooms is answered with `room_error`.
"""

JOBS = """
A job is one utterance to be translated into one language. It has at most one live attempt at a time; each attempt is
one node's try, with a number and a lease. The table below is the one in `src/lingua_scheduler/domain/jobs/jobs.py`;
scripts are told by it which states a move may start from, and a move that is not in it is answered as stale.
"""

JOBS_DIAGRAM = """
*Live* is any state in which the job has a live attempt: an event drawn from it may happen in each of the states inside.
"""

JOBS_IN_REDIS = """
A job's record is first written by `job_dispatch`, which takes the first two moves at once: reserving the slot and
writing the job as `DISPATCHED` is one step, done before the frame leaves. So `RESERVED` is never seen in Redis, and
`CREATED` only of a job that waits for its first node: `job_note` writes it down, and one that found nobody too (as
`FAILED`, attempt 0), up to 50 of them a second and instance; more are only counted. An attempt may end from any live
state, because a fast node's result may overtake its acknowledgement. Nodes that never acknowledge go from
`DISPATCHED` straight to an end. A job whose request was taken over, or whose caller has left before it was sent, is
`CANCELLED` too.

`lingua cancel` and `POST /v1/jobs/{job_id}/cancel` end a job that runs, waits for another try, or waits for its first
one and was written down. `job_cancel` does it in Redis, then its owner is told by a signal; if that is lost, the owner
finds out with its next step, at the latest when the attempt's time is up, and does not try again. What the node still
says of the job is stale.

The record is one string (`lingua job ID` shows it, `GET …:record:<job id>` reads it as it is): a line of words that
every job has, then a line `step state ms attempt node reason` for each of its last 24 moves; the oldest are forgotten
first.
"""

# What earlier schedulers and their documents called these states.
OLDER_NAMES = (
    ("NEW", "`CREATED`"),
    ("SELECTING", "`CREATED`: choosing and reserving are one step, so there is nothing in between"),
    ("ACKED", "`ACCEPTED`"),
    ("FINISHED", "`DONE` or `NO_TEXT`"),
    ("RELEASED", "no state: giving the slot back is the lease's affair, not the job's"),
)

ERRORS = """
Codes are the same on WebSocket (`error`, `ui_event`, `job_result`) and HTTP (`{"error": "…", "detail": "…"}`).
*Said by* tells who uses a code today: the scheduler itself, or only nodes and peers (a node's code is passed on in
`ui_event` when the job fails for good; a code we do not know counts as `PROCESSING_ERROR`). *Another node* tells
whether a job whose node answers with the code is tried elsewhere, up to `job.max_retries` times and until
`job.deadline_ms`.
"""

ERRORS_OF_HTTP = """
What needs Redis answers 503 with `SCHEDULER_DEPENDENCY_DOWN` while Redis is away. Which operation answers with which
code, and when, is in [openapi.json](openapi.json), and for people at `/docs` of a running scheduler. These codes are
known to HTTP alone:
"""

HTTP_MEANINGS = {
    "NOT_FOUND": "404: there is nothing at this address; `GET /` lists what there is",
    "METHOD_NOT_ALLOWED": "405: the address takes other methods; the header `Allow` lists them",
    "ORIGIN_NOT_ALLOWED": "403: a web page of another origin asks for a socket or for a change; see "
    "`server.allowed_origins`",
    "MISDIRECTED": "421: the `Host` header is no name of this scheduler; see `server.allowed_hosts`",
    "RATE_LIMITED": "429: the address has too many connections (`server.max_sockets_per_address`) or opens them too "
    "fast (`server.handshakes_per_address_s`); `Retry-After` says when to try again",
    "REQUEST_TIMEOUT": "408: the body did not arrive within `server.body_timeout_ms`",
    "BODY_TOO_LARGE": "413: the body has more than `server.max_body_bytes`",
    "UNSUPPORTED_MEDIA_TYPE": "415: a body has to be sent as `application/json`",
    "SERVICE_UNAVAILABLE": "503: no socket is opened now, because the scheduler stops or has enough of them",
    "UNKNOWN_NODE": "404: there is no such node; one that is driven over HTTP registers again",
    "STALE_ATTEMPT": "409: the attempt is over or another node's; nothing was changed, and the node drops it",
}

ERROR_MEANINGS = {
    "INVALID_MESSAGE": "The frame cannot be read, or asks for something impossible; the message says what",
    "INTERNAL_ERROR": "Something failed that should not have; the log has more",
    "INVALID_SESSION": "No such session here, or it is closed: send `session_init` first",
    "SESSION_CLOSED": "The session has ended",
    "NODE_UNAVAILABLE": "The node cannot be used; at registration: the fleet has no room for another node",
    "NODE_OVERLOADED": "No room: a node's slots are taken, or too many sessions or utterances are under way",
    "MODEL_NOT_AVAILABLE": "The node does not have the model this job needs",
    "MODEL_LOAD_FAILED": "The node could not load the model",
    "UNSUPPORTED_FEATURE": "The peer does not know the feature that was asked for",
    "INVALID_PAIRING_CODE": "The pairing code is unknown or has expired",
    "NO_AVAILABLE_NODE": "Older word for `NO_CAPABLE_NODE` and `ALL_CANDIDATES_FULL_OR_FAILED`",
    "WS_DISCONNECTED": "A connection broke while the job was under way",
    "NMT_TIMEOUT": "Translation took too long on the node",
    "TTS_TIMEOUT": "Speech synthesis took too long on the node",
    "JOB_TIMEOUT": "The job's time is up without an answer; listeners hear of it as `no_text`",
    "MODEL_VERIFY_FAILED": "The node's model failed its check",
    "MODEL_CORRUPTED": "The node's model is damaged",
    "NO_GPU_AVAILABLE": "The node has no GPU for this job",
    "NODE_ID_CONFLICT": "Another node uses this id",
    "INVALID_CAPABILITY_SCHEMA": "What the node says it can do has an unknown form",
    "SCHEDULER_DEPENDENCY_DOWN": "Redis is away; nothing new is dispatched until it is back",
    "PROCESSING_ERROR": "The node failed the job, for a reason with no code of its own",
    "NO_CAPABLE_NODE": "No connected node serves the pair, and none that did a moment ago came back",
    "ALL_CANDIDATES_FULL_OR_FAILED": "Nodes serve the pair, but none had a free slot in time, or every try failed",
    "PREFERRED_NODE_NOT_CAPABLE": "The node that was demanded cannot take the job",
    "REQUEST_CONFLICT": "The same `request_id` was used for something else in this session",
    "JOB_ELSEWHERE": "Another instance has the job and its result; the detail says which",
    "RESULT_LOST": "The job's result was lost, perhaps with the instance that had it; send the request again",
    "JOB_NOT_FOUND": "No such job, or it is forgotten by now (`job.keep_ms`)",
    "JOB_ENDED": "The job has ended already, so it cannot be cancelled; the detail names its state",
}

CLOSE_CODES = """
When the scheduler closes a socket, the close code says why. All but `GUESSING` invite the peer to come back.
"""

CLOSE_MEANINGS = {
    "COME_BACK": "The scheduler stops or restarts, or somebody evicted the node",
    "TRY_LATER": "Not now: Redis was away during registration, no registration came, or something went wrong here",
    "SUPERSEDED": "The node connected again, and the newer connection has it",
    "MISBEHAVED": "Too many frames that cannot be read: more than `server.max_bad_frames_per_min` in a minute",
    "TOO_SLOW": "The peer did not read: more than `server.outbox_max_bytes` were waiting for it",
    "GUESSING": "The socket named ten sessions that are not its own. Do not come back with these ids",
}
