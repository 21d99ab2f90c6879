"""Every setting: its type, limits, default and description, all in one place.

Declarations alone: `configuration/` loads and checks them."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

_DAY_MS = 86_400_000

Admission = Literal["strict", "asr_tts", "asr_semantic"]
Affinity = Literal["turn", "session"]
UiEvents = Literal["steps", "errors"]
LogLevel = Literal["debug", "info", "warning", "error"]
SealLetters = Literal["auto", "always", "never"]
LogFormat = Literal["auto", "json", "console"]
AuthMode = Literal["auto", "required", "off"]

_Count = Annotated[int, Meta(ge=1, le=1_000_000)]
_UpToThousand = Annotated[int, Meta(ge=1, le=1000)]
_QueueMax = Annotated[int, Meta(ge=0, le=1_000_000)]
_KeepMs = Annotated[int, Meta(ge=1, le=30 * _DAY_MS)]
_AuditKeepMs = Annotated[int, Meta(ge=_DAY_MS, le=3650 * _DAY_MS)]
_AuditMax = Annotated[int, Meta(ge=1000, le=1_000_000)]
_Megabytes = Annotated[int, Meta(ge=0, le=1_000_000)]
_Percent = Annotated[int, Meta(ge=1, le=100)]
_Factor = Annotated[float, Meta(ge=0, le=100)]
_Bytes = Annotated[int, Meta(ge=1024, le=2**30)]
# An ordinary registration needs at least this much.
_MessageBytes = Annotated[int, Meta(ge=16_384, le=2**30)]
# If it were shorter than a job takes, a repeated request would start a second job.
_RepeatMs = Annotated[int, Meta(ge=1000, le=30 * _DAY_MS)]
_PeriodMs = Annotated[int, Meta(ge=1, le=_DAY_MS)]
_WindowMs = Annotated[int, Meta(ge=1_000, le=_DAY_MS)]
_Headroom = Annotated[float, Meta(ge=0, le=10)]
_LookMs = Annotated[int, Meta(ge=100, le=_DAY_MS)]
_WatchersMax = Annotated[int, Meta(ge=0, le=10_000)]
_PairsMax = Annotated[int, Meta(ge=0, le=10_000)]
_WaitMs = Annotated[int, Meta(ge=0, le=_DAY_MS)]
# An empty host would listen on every interface, which must not happen by accident.
_Host = Annotated[str, Meta(min_length=1, extra={"expected": "a host name or address"})]
# Braces would choose a Redis Cluster slot, and glob characters would widen a key scan.
_KeyPrefix = Annotated[
    str, Meta(pattern=r"\A[A-Za-z0-9:_-]+\Z", extra={"expected": 'only letters, digits, ":", "_" and "-"'})
]

_HeaderName = Annotated[str, Meta(pattern=r"\A[A-Za-z0-9-]{0,64}\Z", extra={"expected": "the name of a header"})]
_TrustDomain = Annotated[
    str, Meta(pattern=r"\A[a-z0-9._-]{1,255}\Z", extra={"expected": 'lower-case letters, digits, ".", "_" and "-"'})
]
_Texts = tuple[str, ...]

# Loopback and private networks: our own peers, or the proxy in front of us.
_OWN_NETWORKS = (
    "127.0.0.0/8",
    "::1/128",
    "10.0.0.0/8",
    "172.16.0.0/12",
    "192.168.0.0/16",
    "169.254.0.0/16",
    "100.64.0.0/10",
    "fc00::/7",
    "fe80::/10",
)

# Part of key names and of owners, where spaces separate words.
_InstanceId = Annotated[
    str,
    Meta(
        pattern=r"\A[A-Za-z0-9_.-]{1,64}\Z",
        extra={"expected": 'up to 64 letters, digits, "_", "." and "-", or "auto"'},
    ),
]


def _doc(description: str) -> Meta:
    return Meta(description=description)


class ServerSettings(msgspec.Struct, frozen=True, kw_only=True):
    host: Annotated[_Host, _doc("Address to listen on")] = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=65_535), _doc("Port to listen on; 0 = any free port")] = 5010
    internal_host: Annotated[_Host, _doc("Address of the internal port; that of a private network, or loopback")] = (
        "127.0.0.1"
    )
    internal_port: Annotated[
        int,
        Meta(ge=0, le=65_535),
        _doc(
            "A second port for health, metrics (without a key), the dashboard and the operations of operators, which "
            "are then no longer served at `server.port`; 0 = none"
        ),
    ] = 0
    tls_cert_file: Annotated[
        str,
        _doc(
            "PEM file with the certificate and its chain. `server.port` then speaks TLS (1.2 or newer) and nothing "
            "else. Read again when it changes; empty = no TLS"
        ),
    ] = ""
    tls_key_file: Annotated[
        str, _doc("PEM file with the private key of that certificate; not readable by other users")
    ] = ""
    tls_client_ca_file: Annotated[
        str,
        _doc(
            "PEM file with the authorities whose client certificates are accepted from nodes; the certificates stay "
            "optional. Empty = none are asked for"
        ),
    ] = ""
    tls_client_domain: Annotated[
        _TrustDomain,
        _doc("Trust domain in the certificates of nodes: spiffe://`DOMAIN`/`TENANT`/node/`NODE`; one per cluster"),
    ] = "lingua"
    client_cert_header: Annotated[
        bool,
        _doc(
            "Accept certificates of nodes in the X-Forwarded-Client-Cert header of `server.trusted_proxies`, which "
            "verify them and remove the header from requests that have it already"
        ),
    ] = False
    workers: Annotated[int, Meta(ge=0, le=1024), _doc("Worker processes that share the port; 0 = one per CPU core")] = 1
    instance_id: Annotated[
        _InstanceId, _doc("Unique name of this instance; auto = made of host name, process id and random characters")
    ] = "auto"
    stop_timeout_ms: Annotated[_WaitMs, _doc("Time running jobs get to finish after SIGTERM")] = 15_000
    max_frame_bytes: Annotated[
        _Bytes, _doc("Maximum size of a WebSocket frame; a larger one is answered with an error")
    ] = 4_194_304
    max_body_bytes: Annotated[
        _Bytes, _doc("Maximum size of an HTTP request body; a larger one is answered with 413")
    ] = 4_194_304
    outbox_max_bytes: Annotated[
        _Bytes, _doc("Maximum bytes buffered for one socket; a peer that reads too slowly is disconnected")
    ] = 8_388_608
    outboxes_max_bytes: Annotated[
        _Bytes,
        _doc("Maximum bytes buffered for all sockets together; above it the socket with the most is disconnected"),
    ] = 268_435_456
    max_unfinished_bytes: Annotated[
        _Bytes,
        _doc(
            "Maximum bytes buffered of incomplete WebSocket messages, all sockets together; above it the socket "
            "with the most is disconnected. The same limit applies to incomplete HTTP bodies"
        ),
    ] = 134_217_728
    message_timeout_ms: Annotated[_PeriodMs, _doc("Maximum time from a message's first byte to its last")] = 120_000
    max_bad_frames_per_min: Annotated[_Count, _doc("Unreadable frames per socket and minute before it is closed")] = 120
    max_connection_cpu_percent: Annotated[
        _Percent,
        _doc(
            "Share of one CPU core that parsing one connection's input may use; above it the connection is read "
            "more slowly. The same share limits the registrations from one address, which are delayed"
        ),
    ] = 20
    max_shared_loop_percent: Annotated[
        _Percent,
        _doc(
            "Share of the event loop's time that all HTTP requests, and reading from rate-limited sockets, may use "
            "together; above it they are served in turn"
        ),
    ] = 50
    ping_interval_ms: Annotated[_PeriodMs, _doc("Interval of WebSocket pings, which detect dead connections")] = 20_000
    max_sessions: Annotated[_Count, _doc("Maximum open sessions; further ones are refused")] = 20_000
    max_audio_bytes: Annotated[
        _Bytes,
        _doc("Maximum audio waiting for translation, all sessions and HTTP callers together; callers get half of it"),
    ] = 536_870_912
    max_remembered_bytes: Annotated[
        _Bytes,
        _doc(
            "Maximum memory for outcomes kept for clients that may reconnect; above it the oldest outcomes lose "
            "their speech first, then are dropped"
        ),
    ] = 268_435_456
    max_nodes: Annotated[_Count, _doc("Maximum connected nodes; further ones are refused")] = 20_000
    allow_calls_to: Annotated[
        _Texts,
        _doc("Non-public addresses and networks that `callback_url` and `catalogue.url` may point to"),
    ] = ()
    max_registrations_per_s: Annotated[
        _Count,
        _doc(
            "Maximum node registrations per second; further ones are delayed, so that a mass reconnect does not "
            "overload the scheduler"
        ),
    ] = 500
    allowed_origins: Annotated[
        _Texts,
        _doc(
            "Origins of web pages that may connect (WebSocket) and call the HTTP operations for apps (CORS), such as "
            "`https://app.example`; `*` = all. The scheduler's own pages always may"
        ),
    ] = ()
    allowed_hosts: Annotated[
        _Texts,
        _doc(
            "Host names accepted in requests, such as `translate.example`. Empty = all, or only loopback names "
            "while listening on loopback"
        ),
    ] = ()
    trusted_proxies: Annotated[
        _Texts, _doc("Networks of trusted reverse proxies, such as `10.0.0.5/32`; their X-Forwarded-For header is used")
    ] = ()
    unmetered_addresses: Annotated[
        _Texts,
        _doc(
            "Networks that are exempt from all per-address limits, such as nodes, gateways and proxies that are "
            "not in `server.trusted_proxies`"
        ),
    ] = _OWN_NETWORKS
    max_sockets_per_address: Annotated[
        _Count, _doc("Maximum connections and HTTP nodes per address (IPv6: per /64); further ones get 429")
    ] = 200
    handshakes_per_address_s: Annotated[
        _Count,
        _doc(
            "New WebSockets and HTTP nodes per address and second, with bursts of five times as many; further "
            "ones get 429"
        ),
    ] = 20
    header_timeout_ms: Annotated[
        _PeriodMs, _doc("Maximum time until a new connection has sent its first request headers")
    ] = 10_000
    body_timeout_ms: Annotated[
        _PeriodMs, _doc("Maximum time for an HTTP body to arrive, or for a response to be read")
    ] = 30_000
    keepalive_ms: Annotated[_PeriodMs, _doc("Maximum idle time of an HTTP connection between two requests")] = 30_000


class RedisSettings(msgspec.Struct, frozen=True, kw_only=True):
    url: Annotated[str, _doc("URL of Redis or Valkey; empty = start an embedded server")] = ""
    password_file: Annotated[
        str, _doc("File with the password for `redis.url`, where that has none; an empty file holds no password")
    ] = ""
    data_dir: Annotated[str, _doc("Data directory of the embedded server; empty = the per-user default")] = ""
    server_binary: Annotated[
        str, _doc("Path of the redis-server or valkey-server to embed; empty = the bundled one")
    ] = ""
    max_memory_mb: Annotated[_Megabytes, _doc("Memory limit of the embedded server; 0 = no limit")] = 1024
    wait: Annotated[bool, _doc("Keep retrying if Redis is unreachable at startup, instead of exiting")] = False
    key_prefix: Annotated[_KeyPrefix, _doc("Prefix of every Redis key")] = "lingua:v1"
    timeout_ms: Annotated[_PeriodMs, _doc("Maximum time to wait for a reply before Redis counts as unavailable")] = 2000
    max_pending: Annotated[
        _Count,
        _doc("Maximum unanswered commands, and maximum script calls waiting in batches; further ones fail immediately"),
    ] = 20_000
    allow_eviction: Annotated[bool, _doc("Accept a Redis whose maxmemory policy may evict keys")] = False


class NodesSettings(msgspec.Struct, frozen=True, kw_only=True):
    heartbeat_interval_ms: Annotated[
        _PeriodMs, _doc("Heartbeat interval assumed for nodes that do not announce their own")
    ] = 15_000
    missed_heartbeats: Annotated[_UpToThousand, _doc("Missed heartbeats after which a node is considered gone")] = 3
    default_max_jobs: Annotated[_Count, _doc("Slots of a node that does not announce `max_concurrent_jobs`")] = 4
    max_jobs: Annotated[_Count, _doc("Maximum slots a node may announce")] = 256
    register_within_ms: Annotated[_PeriodMs, _doc("Time a new node connection has to register before it is closed")] = (
        30_000
    )
    max_frames_per_s: Annotated[
        _Count, _doc("Maximum frames per second from one node; above it the node is read more slowly")
    ] = 1000
    max_bytes_per_s: Annotated[
        _Bytes, _doc("Maximum bytes per second from one node; above it the node is read more slowly")
    ] = 33_554_432
    believed_slots: Annotated[
        int,
        Meta(ge=0, le=1_000_000),
        _doc("Slots that a new node is given at first, of those it announces; 0 = all, for fleets you trust"),
    ] = 8
    believed_after: Annotated[
        _Count, _doc("Successful jobs after which a node's usable slots double, up to what it announces")
    ] = 20
    max_heartbeats_per_s: Annotated[
        _Count,
        _doc("Maximum heartbeats per second from one node; faster ones are coalesced, and only the newest is applied"),
    ] = 10
    max_changes_per_min: Annotated[
        _Count,
        _doc(
            "Maximum capability changes per minute from one node; faster ones are coalesced, and only the newest "
            "is applied"
        ),
    ] = 20
    callback_timeout_ms: Annotated[_PeriodMs, _doc("Maximum time for a node's `callback_url` to respond")] = 2_000
    max_cpu_percent: Annotated[_Percent, _doc("CPU usage above which a node is degraded and gets no new jobs")] = 100
    max_memory_percent: Annotated[
        _Percent, _doc("Memory usage above which a node is degraded and gets no new jobs")
    ] = 95
    max_gpu_percent: Annotated[_Percent, _doc("GPU usage above which a node is degraded and gets no new jobs")] = 100
    max_gpu_memory_percent: Annotated[
        _Percent, _doc("GPU memory usage above which a node is degraded and gets no new jobs")
    ] = 100
    quarantine_failures: Annotated[
        _UpToThousand,
        _doc(
            "Circuit breaker: a node is quarantined after this many failures among its last "
            "`nodes.quarantine_window` jobs"
        ),
    ] = 5
    quarantine_window: Annotated[
        _UpToThousand, _doc("Number of a node's most recent jobs in which failures are counted")
    ] = 20
    quarantine_consecutive: Annotated[
        _UpToThousand, _doc("A node is also quarantined after this many failures in a row")
    ] = 3
    quarantine_ms: Annotated[
        _PeriodMs,
        _doc(
            "Duration of the first quarantine. A failed probe doubles it, up to ten times the first; a restarted node"
            " gets its probe sooner"
        ),
    ] = 60_000
    unavailable_ms: Annotated[
        _PeriodMs, _doc("Time a node gets no jobs that need a service after it reported that the service is missing")
    ] = 60_000


class PoolsSettings(msgspec.Struct, frozen=True, kw_only=True):
    admission: Annotated[
        Admission,
        _doc(
            "Which of a node's languages admit it to a language pair. `strict`: it recognises (ASR) and repairs "
            "(semantic) the source and translates into the target. `asr_tts`: it recognises the source, speaks "
            "the target (TTS) and repairs any language. `asr_semantic`: it recognises the source and repairs the "
            "target"
        ),
    ] = "strict"
    wanted: Annotated[
        _Texts,
        _doc(
            "Language pairs that must always be served, such as `en:pt` (or `en:pt:text`, without speech): an alarm is "
            "raised when no node serves one. `history` = all pairs asked for in the last 7 days. Pairs asked for in "
            "the last hour always count"
        ),
    ] = ()
    pivot_langs: Annotated[
        _Texts,
        _doc(
            "Languages by way of which a pair is translated that no node serves, the first that works, such as `en`: "
            "zh→en, then en→ja. Needs nodes that take text (`text_input`). Empty = never. Clients are told, "
            "and may forbid it (`allow_pivot: false`)"
        ),
    ] = ()
    text_fallback: Annotated[
        bool, _doc("true = if no node speaks the target language, the client gets the text without speech, and is told")
    ] = False
    private_only: Annotated[
        _Texts,
        _doc(
            "Tenants whose jobs go to their private nodes alone: without one that serves the pair they fail. Jobs of "
            "other tenants go to their private nodes first, if there are any, and to public ones if those are full or "
            "do not serve the pair. To be the same on all instances"
        ),
    ] = ()
    shard_size: Annotated[_UpToThousand, _doc("Maximum nodes per shard")] = 100
    max_shards: Annotated[_UpToThousand, _doc("Maximum shards")] = 1000
    refresh_ms: Annotated[_PeriodMs, _doc("Interval at which an instance checks for a newer pool map")] = 10_000
    leader_ms: Annotated[
        _PeriodMs, _doc("Leader election: lease time of the leader. If it does not renew, another instance takes over")
    ] = 6000


class SelectionSettings(msgspec.Struct, frozen=True, kw_only=True):
    sample_k: Annotated[_UpToThousand, _doc("Nodes sampled for a job before the whole shard is searched")] = 20
    affinity: Annotated[
        Affinity, _doc("What stays on one node while it can: the utterances of a `turn`, or of a whole `session`")
    ] = "turn"
    affinity_ttl_ms: Annotated[_PeriodMs, _doc("Time for which the node of a caller's affinity key is remembered")] = (
        600_000
    )


class DispatchSettings(msgspec.Struct, frozen=True, kw_only=True):
    queue_wait_ms: Annotated[
        _WaitMs,
        _doc(
            "Maximum time a job waits for a free slot. Load shedding: while the queue is long and does not "
            "shrink, new jobs are rejected once the expected wait exceeds 10 % of this"
        ),
    ] = 10_000
    queue_max: Annotated[_QueueMax, _doc("Maximum jobs waiting per language pair; further ones are rejected")] = 5_000


class JobSettings(msgspec.Struct, frozen=True, kw_only=True):
    reservation_ttl_ms: Annotated[_PeriodMs, _doc("Maximum time for a node to acknowledge a job")] = 5000
    timeout_base_ms: Annotated[_PeriodMs, _doc("Base of a job's timeout, which applies however short its audio is")] = (
        15_000
    )
    timeout_factor: Annotated[_Factor, _doc("Added to the timeout: this factor times the length of the audio")] = 2.0
    timeout_max_ms: Annotated[_PeriodMs, _doc("Upper limit of a job's timeout, however long its audio is")] = 60_000
    linger_ms: Annotated[
        _WaitMs, _doc("Time a slot stays occupied after its job was given up while the node may still be running it")
    ] = 30_000
    max_retries: Annotated[int, Meta(ge=0, le=100), _doc("Maximum retries after the first attempt fails")] = 2
    deadline_ms: Annotated[_PeriodMs, _doc("Time after the end of an utterance when no further attempt is started")] = (
        120_000
    )
    retry_percent: Annotated[_Percent, _doc("Retry budget: retries as a percentage of an instance's jobs")] = 10
    retry_burst: Annotated[_Count, _doc("Retries allowed beyond that budget when many attempts fail at once")] = 1000
    keep_ms: Annotated[_KeepMs, _doc("Time for which a finished job can be looked up")] = 3_600_000
    failures_max: Annotated[
        _Count, _doc("Maximum entries in the failure history of the fleet; the oldest go first")
    ] = 10_000
    failures_keep_ms: Annotated[_KeepMs, _doc("Time for which a failed job stays in the failure history")] = 604_800_000


class SessionsSettings(msgspec.Struct, frozen=True, kw_only=True):
    pause_ms: Annotated[_PeriodMs, _doc("Time without speech that ends an utterance")] = 3000
    silence_opus_bytes: Annotated[
        int, Meta(ge=0, le=1275), _doc("Opus packets up to this size count as silence; 0 = everything counts as speech")
    ] = 12
    silence_pcm_rms: Annotated[
        int,
        Meta(ge=0, le=32_767),
        _doc("PCM16 audio below this root mean square counts as silence; 0 = everything counts as speech"),
    ] = 130
    merge_below_ms: Annotated[
        _WaitMs,
        _doc(
            "Whole utterances shorter than this, and not marked as cut by hand, are joined (the mobile app sends "
            "such pieces); 0 = never"
        ),
    ] = 1000
    short_merge_ms: Annotated[
        _WaitMs, _doc("Speech shorter than this waits for one more pause, so that what follows can be joined to it")
    ] = 400
    max_duration_ms: Annotated[
        _PeriodMs, _doc("Maximum speech in one utterance before it is cut; silence at its end does not count")
    ] = 10_000
    max_utterance_bytes: Annotated[_Bytes, _doc("Maximum audio in one utterance before the stream is cut")] = 512_000
    hangover_auto_ms: Annotated[_WaitMs, _doc("Time to wait for remaining audio after an automatic cut")] = 150
    hangover_manual_ms: Annotated[_WaitMs, _doc("Time to wait for remaining audio after a manual cut")] = 260
    grace_ms: Annotated[
        _WaitMs, _doc("Time a session stays open after its socket closed, so that the client can resume it")
    ] = 30_000
    max_per_socket: Annotated[_Count, _doc("Maximum open sessions per socket; further ones are refused")] = 16
    max_opens_per_s: Annotated[
        _Count,
        _doc("Sessions one socket may open per second, with bursts of four times as many; further ones are delayed"),
    ] = 5
    max_per_address: Annotated[
        _Count, _doc("Maximum open sessions per address; `server.unmetered_addresses` are exempt")
    ] = 200
    idle_socket_ms: Annotated[
        _PeriodMs, _doc("Time after which a client's socket without an open session is closed")
    ] = 120_000
    idle_ms: Annotated[
        _WaitMs, _doc("Time without speech after which a session that is in no room is closed; 0 = never")
    ] = 14_400_000
    max_audio_bytes: Annotated[_Bytes, _doc("Maximum audio of one session waiting for translation")] = 16_777_216
    max_frames_per_s: Annotated[
        _Count, _doc("Maximum frames per second from one client; above it the client is read more slowly")
    ] = 500
    max_bytes_per_s: Annotated[
        _Bytes, _doc("Maximum bytes per second from one client; above it the client is read more slowly")
    ] = 4_194_304
    max_message_bytes: Annotated[_MessageBytes, _doc("Maximum size of a client's frame, not counting speech")] = 65_536
    ui_events: Annotated[
        UiEvents, _doc("`ui_event` messages sent to clients: `steps` = progress and errors, `errors` = errors only")
    ] = "steps"
    use_binary_frame: Annotated[bool, _doc("Ask clients to send audio as binary frames")] = False


class RoomsSettings(msgspec.Struct, frozen=True, kw_only=True):
    max_members: Annotated[_UpToThousand, _doc("Maximum members of a room; further ones get `ROOM_FULL`")] = 50
    max_guests: Annotated[
        int, Meta(ge=0, le=1_000_000), _doc("Maximum guests of a room, who only listen; further ones get `ROOM_FULL`")
    ] = 5000
    max_rooms: Annotated[
        _Count, _doc("Maximum rooms with members at one instance; further ones cannot be created there")
    ] = 10_000
    max_languages: Annotated[
        _UpToThousand,
        _doc("Maximum languages into which one utterance in a room is translated; those of members come first"),
    ] = 16
    max_jobs: Annotated[
        _UpToThousand,
        _doc(
            "Maximum jobs of one room under way at one instance; a further utterance is refused whole. A speaker "
            "gets at most half of what the others leave of it"
        ),
    ] = 128
    shared_recognition: Annotated[
        bool,
        _doc(
            "true = speech for several languages is recognised once, and then translated from text, where nodes take "
            "text (`text_input`); false = each language is a whole job"
        ),
    ] = True
    expire_ms: Annotated[
        int, Meta(ge=1000, le=_DAY_MS), _doc("Time after the last join or speech when a room ends")
    ] = 1_800_000
    joins_per_min: Annotated[
        _Count,
        _doc(
            "Rooms that one principal may create or join per minute from one address; without a credential: one session"
        ),
    ] = 10
    misses_per_min: Annotated[
        _Count,
        _doc("Wrong room codes per address and minute before it is refused; `server.unmetered_addresses` are exempt"),
    ] = 5
    all_misses_per_min: Annotated[
        _Count,
        _doc(
            "Wrong room codes per tenant and minute, from all addresses and at all instances, after which each address "
            "has one try"
        ),
    ] = 60
    max_sdp_bytes: Annotated[_Bytes, _doc("Maximum size of a WebRTC offer or answer; larger ones are dropped")] = 32_768
    max_candidate_bytes: Annotated[_Bytes, _doc("Maximum size of a WebRTC candidate; larger ones are dropped")] = 4096
    max_signals_per_s: Annotated[
        _Count, _doc("WebRTC frames per second from one member, with bursts of ten times as many; the rest is dropped")
    ] = 200
    messages_per_min: Annotated[_Count, _doc("Text messages per minute from one member; further ones are refused")] = 30
    history_ms: Annotated[
        int, Meta(ge=0, le=_DAY_MS), _doc("Text of the last minutes for those who join a room; in memory; 0 = none")
    ] = 300_000
    history_bytes: Annotated[
        _Bytes, _doc("Maximum memory of that text of all rooms at one instance; the oldest is forgotten first")
    ] = 67_108_864
    turn_urls: Annotated[
        tuple[str, ...], _doc("STUN and TURN servers told to clients that ask, e.g. turn:turn.example:3478")
    ] = ()
    turn_secret_file: Annotated[
        str,
        _doc("File with the shared secret of the TURN servers (coturn: static-auth-secret); empty = no credentials"),
    ] = ""
    turn_credential_ms: Annotated[_PeriodMs, _doc("Time for which a TURN credential is valid")] = 3_600_000


class DeliverySettings(msgspec.Struct, frozen=True, kw_only=True):
    hold_ms: Annotated[_WaitMs, _doc("Maximum time a result waits for an earlier one; then it is delivered first")] = (
        2500
    )
    silent_hold_ms: Annotated[
        _WaitMs,
        _doc(
            "The same if the node of the earlier one has already answered a later job and may never answer the earlier"
        ),
    ] = 1200
    max_held: Annotated[_Count, _doc("Maximum results held back per session")] = 64


class InstancesSettings(msgspec.Struct, frozen=True, kw_only=True):
    beat_ms: Annotated[_PeriodMs, _doc("Interval of an instance's heartbeat in Redis")] = 2000
    dead_ms: Annotated[
        _PeriodMs, _doc("Time without a heartbeat after which an instance is dead and others adopt its inbox")
    ] = 6000
    forget_ms: Annotated[
        _PeriodMs, _doc("Time without a heartbeat after which a dead instance with an empty inbox is forgotten")
    ] = 600_000
    rebalance_ms: Annotated[
        _WaitMs,
        _doc(
            "Interval at which an instance with too many peers asks a few idle nodes and quiet sessions to connect "
            "again, so that they spread over all instances; 0 = never"
        ),
    ] = 10_000
    rebalance_percent: Annotated[
        _Percent, _doc("How many more nodes or sessions than the mean of all instances one may have before it does so")
    ] = 20


class InboxSettings(msgspec.Struct, frozen=True, kw_only=True):
    max_length: Annotated[
        _Count, _doc("Maximum letters (messages between instances) in an inbox; further ones are rejected")
    ] = 10_000
    max_bytes: Annotated[_Bytes, _doc("Maximum memory of an inbox in Redis; further letters are rejected")] = (
        268_435_456
    )
    max_deliveries: Annotated[_UpToThousand, _doc("Attempts to handle a letter before it becomes a dead letter")] = 5
    handle_timeout_ms: Annotated[_PeriodMs, _doc("Maximum time for one attempt to handle a letter")] = 4000
    retry_ms: Annotated[_PeriodMs, _doc("Delay before a letter that was not handled is retried")] = 5000
    keep_ms: Annotated[_KeepMs, _doc("Time for which unread letters and dead letters are kept")] = 86_400_000
    keep_speech: Annotated[
        bool, _doc("Keep speech and text in dead letters, so that orders and results can be replayed")
    ] = False


class PrivacySettings(msgspec.Struct, frozen=True, kw_only=True):
    cluster_key_file: Annotated[
        str,
        _doc(
            "File with the keys that encrypt letters between instances; every instance needs the same one. "
            "Created at the first start. A bare file name is relative to `redis.data_dir`; empty = no key"
        ),
    ] = "cluster.key"
    seal_letters: Annotated[
        SealLetters, _doc("Encrypt letters between instances: auto = once every live instance has the key")
    ] = "auto"
    share_context: Annotated[
        bool,
        _doc(
            "Give a node the words before an utterance also if another node recognised them. Two nodes can then tell "
            "that they serve the same conversation"
        ),
    ] = False


class RequestsSettings(msgspec.Struct, frozen=True, kw_only=True):
    claim_ms: Annotated[
        _PeriodMs, _doc("Time to place the job of an idempotent request before a repeat of the request takes over")
    ] = 15_000
    keep_ms: Annotated[_RepeatMs, _doc("Time for which a repeat of an idempotent request is answered with its job")] = (
        600_000
    )


class CallsSettings(msgspec.Struct, frozen=True, kw_only=True):
    max_jobs: Annotated[_Count, _doc("Maximum unfinished jobs of HTTP callers; further ones are rejected")] = 1000
    max_results: Annotated[_Count, _doc("Maximum results kept for HTTP callers; above it the oldest are dropped")] = (
        10_000
    )
    max_result_bytes: Annotated[
        _Bytes, _doc("Maximum memory of all results kept for HTTP callers; above it the oldest are dropped")
    ] = 67_108_864
    keep_ms: Annotated[_KeepMs, _doc("Time for which the result of an HTTP caller's job can be fetched")] = 600_000
    max_upload_bytes: Annotated[_Bytes, _doc("Maximum size of a sound file sent to `POST /v1/translate`")] = 33_554_432
    max_upload_ms: Annotated[_PeriodMs, _doc("Maximum length of the audio in such a file")] = 120_000
    max_decoders: Annotated[_UpToThousand, _doc("Maximum processes that decode sound files at the same time")] = 2
    decode_timeout_ms: Annotated[_PeriodMs, _doc("Maximum time to decode one sound file")] = 30_000
    translate_timeout_ms: Annotated[
        _PeriodMs, _doc("Maximum time for `POST /v1/translate` to respond; also the default of its `timeout_ms`")
    ] = 120_000


class WatchSettings(msgspec.Struct, frozen=True, kw_only=True):
    interval_ms: Annotated[_LookMs, _doc("Interval of the snapshot that dashboard, gauges and alarms are made of")] = (
        5000
    )
    watched_interval_ms: Annotated[_LookMs, _doc("The same interval while a dashboard or terminal is open")] = 1000
    slow_ms: Annotated[
        _PeriodMs, _doc("A job that takes longer counts as slow; an alarm is raised when one in twenty does")
    ] = 5000
    max_watchers: Annotated[_WatchersMax, _doc("Maximum open watch streams; further ones are refused")] = 200
    max_watchers_per_address: Annotated[
        _Count, _doc("Maximum open watch streams per address; `server.unmetered_addresses` are exempt")
    ] = 50
    max_pairs: Annotated[
        _PairsMax, _doc("Maximum language pairs with gauges of their own; the rest are summed under `other`")
    ] = 200


class ScalingSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How many slots GET /v1/scaling asks for."""

    window_ms: Annotated[_WindowMs, _doc("Time over which arrivals and the time of jobs are averaged")] = 30_000
    hold_ms: Annotated[
        _WindowMs, _doc("Time for which the highest load counts before fewer slots are wanted; more are at once")
    ] = 300_000
    headroom: Annotated[
        _Headroom, _doc("Slots beyond the load, in square roots of the load: with 1.5 about one job in ten waits")
    ] = 1.5


class CatalogueSettings(msgspec.Struct, frozen=True, kw_only=True):
    url: Annotated[str, _doc("URL of a model hub's list of services (JSON); empty = no hub")] = ""
    file: Annotated[
        str,
        _doc(
            "Copy of the list for when the hub is unavailable. A bare file name is relative to `redis.data_dir`; "
            "empty = no copy"
        ),
    ] = "services_index.json"
    interval_ms: Annotated[_LookMs, _doc("Interval at which the hub is polled")] = 30_000


class OidcSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Login of operators through an identity provider. Off while `issuer` is empty."""

    issuer: Annotated[
        str,
        _doc(
            "Address of the identity provider with which operators log in (OpenID Connect), as it names itself in "
            "`iss`; needs the extra `oidc`; empty = none"
        ),
    ] = ""
    client_id: Annotated[str, _doc("Id of this scheduler at the identity provider")] = ""
    client_secret_file: Annotated[
        str,
        _doc(
            "File with the client secret. No other user may be able to read it; empty = a public client, which has none"
        ),
    ] = ""
    scopes: Annotated[_Texts, _doc("Scopes to ask the identity provider for")] = ("openid", "profile", "email")
    groups_claim: Annotated[
        Annotated[str, Meta(min_length=1, max_length=256)],
        _doc("Claim of the ID token that holds the groups of a person, as a list or one string"),
    ] = "groups"
    callback_url: Annotated[
        str,
        _doc(
            "Address to which the identity provider sends people back, ending in `/v1/login/oidc/callback`; empty = "
            "made of the `Host` header of the request"
        ),
    ] = ""
    roles: Annotated[
        dict[str, str],
        _doc(
            'Roles of groups: `group = "role@tenant"`, with the tenant `*` for all. The first row of which a person '
            "has the group counts; without one they may not log in. Also for `auth.proxy_user_header`"
        ),
    ] = {}


class AuthSettings(msgspec.Struct, frozen=True, kw_only=True):
    mode: Annotated[
        AuthMode,
        _doc(
            "Whether callers need a credential; auto = not from this computer while `server.host` is a loopback "
            "address, else yes; required = always; off = never"
        ),
    ] = "auto"
    audience: Annotated[Annotated[str, Meta(min_length=1, max_length=256)], _doc("What `aud` of a token must name")] = (
        "lingua"
    )
    keys_file: Annotated[
        str,
        _doc(
            "TOML file with further keys and issuers of tokens, without secrets; read again when it changes. "
            "No other user may be able to read it"
        ),
    ] = ""
    backup_file: Annotated[
        str,
        _doc(
            "Copy of all credentials, without secrets, in case Redis loses its data. A bare file name is relative to "
            "`redis.data_dir`, and each `redis.url` has its own; empty = no copy"
        ),
    ] = "credentials.json"
    refresh_ms: Annotated[
        _LookMs, _doc("Interval at which credentials are read again, in case a notification was lost")
    ] = 5000
    max_token_ms: Annotated[_KeepMs, _doc("Maximum lifetime of a token, from `iat` to `exp`")] = _DAY_MS
    expired_grace_ms: Annotated[
        _WaitMs, _doc("Time for which an open connection may outlive its token, unless a new one is sent")
    ] = 3_600_000
    query_tokens: Annotated[
        bool,
        _doc(
            "Whether a key or token may be in a URL (`?access_token=`), as peers need that take nothing else; false = "
            "every caller sends it in a header or as a sub-protocol, which no log has"
        ),
    ] = True
    login_ms: Annotated[_KeepMs, _doc("Maximum duration of a login to the dashboard")] = 43_200_000
    login_idle_ms: Annotated[_KeepMs, _doc("A login ends when it was not used for so long")] = 1_800_000
    proxy_user_header: Annotated[
        _HeaderName,
        _doc(
            "Header in which a proxy in `server.trusted_proxies` names the operator who has logged in there, e.g. "
            "X-Forwarded-User; ignored from any other peer; empty = none"
        ),
    ] = ""
    proxy_groups_header: Annotated[
        _HeaderName, _doc("Header in which the same proxy lists the groups of that operator, separated by commas")
    ] = "X-Forwarded-Groups"
    oidc: OidcSettings = OidcSettings()


class AuditSettings(msgspec.Struct, frozen=True, kw_only=True):
    key_file: Annotated[
        str,
        _doc(
            "File with the keys of the audit log, one per line as 64 hexadecimal digits: the first writes, all of them "
            "verify. Every instance needs the same one. A bare file name is relative to `redis.data_dir`; empty = "
            "derived from the cluster key"
        ),
    ] = ""
    max_entries: Annotated[_AuditMax, _doc("Maximum entries of the audit log; above it the oldest are removed")] = (
        100_000
    )
    keep_ms: Annotated[_AuditKeepMs, _doc("Time for which an entry of the audit log is kept")] = 365 * _DAY_MS
    anchor_every: Annotated[
        _Count, _doc("Entries after which the head of the audit log is signed and logged, if not 5 minutes before")
    ] = 100


class LogsSettings(msgspec.Struct, frozen=True, kw_only=True):
    level: Annotated[LogLevel, _doc("Minimum severity of events that are logged")] = "info"
    format: Annotated[LogFormat, _doc("Log format; auto = console on a terminal, else json")] = "auto"
    storm_lines: Annotated[
        _Count, _doc("Maximum log lines per event and 10 s; further ones are suppressed and counted")
    ] = 100


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    server: ServerSettings = ServerSettings()
    redis: RedisSettings = RedisSettings()
    nodes: NodesSettings = NodesSettings()
    pools: PoolsSettings = PoolsSettings()
    selection: SelectionSettings = SelectionSettings()
    dispatch: DispatchSettings = DispatchSettings()
    job: JobSettings = JobSettings()
    sessions: SessionsSettings = SessionsSettings()
    rooms: RoomsSettings = RoomsSettings()
    delivery: DeliverySettings = DeliverySettings()
    instances: InstancesSettings = InstancesSettings()
    inbox: InboxSettings = InboxSettings()
    privacy: PrivacySettings = PrivacySettings()
    auth: AuthSettings = AuthSettings()
    audit: AuditSettings = AuditSettings()
    requests: RequestsSettings = RequestsSettings()
    calls: CallsSettings = CallsSettings()
    watch: WatchSettings = WatchSettings()
    scaling: ScalingSettings = ScalingSettings()
    catalogue: CatalogueSettings = CatalogueSettings()
    logs: LogsSettings = LogsSettings()
