"""Every setting: its type, limits, default and one line of documentation, all in one place.

File, environment and flags are handed in, in rising order; each value remembers where it came from."""

import json
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal, NamedTuple, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Meta

from lingua_scheduler.domain.guards.addresses import read_networks
from lingua_scheduler.domain.guards.origins import ANY, read_host, read_origin

_APP_DIR = "lingua-scheduler"
_NOTHING: Mapping[str, str] = MappingProxyType({})
_DAY_MS = 86_400_000
_AROUND_AUDIO_BYTES = 8_192
_EXPECTED = {
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "str": "text",
    "list": "a list of texts",
}
_META_KEYS = ("description", "ge", "le", "extra")
_TRUTH = dict.fromkeys(("true", "1", "yes", "on"), True) | dict.fromkeys(("false", "0", "no", "off"), False)

Admission = Literal["strict", "asr_tts", "asr_semantic"]
Affinity = Literal["turn", "session"]
UiEvents = Literal["steps", "errors"]
LogLevel = Literal["debug", "info", "warning", "error"]
SealLetters = Literal["auto", "always", "never"]
LogFormat = Literal["auto", "json", "console"]

_Count = Annotated[int, Meta(ge=1, le=1_000_000)]
_UpToThousand = Annotated[int, Meta(ge=1, le=1000)]
_QueueMax = Annotated[int, Meta(ge=0, le=1_000_000)]
_KeepMs = Annotated[int, Meta(ge=1, le=30 * _DAY_MS)]
_Megabytes = Annotated[int, Meta(ge=0, le=1_000_000)]
_Percent = Annotated[int, Meta(ge=1, le=100)]
_Factor = Annotated[float, Meta(ge=0, le=100)]
_Bytes = Annotated[int, Meta(ge=1024, le=2**30)]
# No less than an ordinary registration needs.
_MessageBytes = Annotated[int, Meta(ge=16_384, le=2**30)]
# Shorter than a job takes, and a repeat would start a second one.
_RepeatMs = Annotated[int, Meta(ge=1000, le=30 * _DAY_MS)]
_PeriodMs = Annotated[int, Meta(ge=1, le=_DAY_MS)]
_LookMs = Annotated[int, Meta(ge=100, le=_DAY_MS)]
_Moments = Annotated[int, Meta(ge=1, le=18_000)]
_WatchersMax = Annotated[int, Meta(ge=0, le=10_000)]
_PairsMax = Annotated[int, Meta(ge=0, le=10_000)]
_WaitMs = Annotated[int, Meta(ge=0, le=_DAY_MS)]
# An empty host would listen on every interface, which nobody should get by accident.
_Host = Annotated[str, Meta(min_length=1, extra={"expected": "a host name or address"})]
# Braces would choose a Redis Cluster slot, and glob characters would widen a key scan.
_KeyPrefix = Annotated[
    str, Meta(pattern=r"\A[A-Za-z0-9:_-]+\Z", extra={"expected": 'only letters, digits, ":", "_" and "-"'})
]

_Texts = tuple[str, ...]

# Loopback and private networks: whoever is there is ours, or the proxy in front of us.
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
    port: Annotated[int, Meta(ge=0, le=65_535), _doc("Port to listen on; 0 takes any free port")] = 5010
    workers: Annotated[int, Meta(ge=0, le=1024), _doc("Processes that share the port; 0 = one for each core")] = 1
    instance_id: Annotated[_InstanceId, _doc("Name of this instance, unlike all others; auto = host, pid, random")] = (
        "auto"
    )
    stop_timeout_ms: Annotated[_WaitMs, _doc("How long running jobs may finish after SIGTERM")] = 15_000
    max_frame_bytes: Annotated[_Bytes, _doc("Larger frames are answered with an error")] = 4_194_304
    max_body_bytes: Annotated[_Bytes, _doc("Larger HTTP bodies are answered with 413")] = 4_194_304
    outbox_max_bytes: Annotated[_Bytes, _doc("Unsent bytes before a slow socket is closed")] = 8_388_608
    outboxes_max_bytes: Annotated[
        _Bytes, _doc("Unsent bytes of all sockets together before the one with most is cut off")
    ] = 268_435_456
    max_unfinished_bytes: Annotated[
        _Bytes,
        _doc(
            "Held of messages that have not come whole, all sockets together, then the largest is cut off; so of bodies"
        ),
    ] = 134_217_728
    message_timeout_ms: Annotated[_PeriodMs, _doc("Longest a message may take from its first byte to its last")] = (
        120_000
    )
    max_bad_frames_per_min: Annotated[_Count, _doc("Frames of one socket that cannot be read, before it is closed")] = (
        120
    )
    max_connection_cpu_percent: Annotated[
        _Percent,
        _doc(
            "Share of a core that reading one connection, its long frames or HTTP, may take, or the nodes that one "
            "address registers; then it is read slowly, or they wait"
        ),
    ] = 20
    ping_interval_ms: Annotated[_PeriodMs, _doc("Time between pings that find a silent socket")] = 20_000
    max_sessions: Annotated[_Count, _doc("Open sessions before newcomers are refused")] = 20_000
    max_audio_bytes: Annotated[_Bytes, _doc("Audio of all sessions and callers that may wait for its translation")] = (
        536_870_912
    )
    max_remembered_bytes: Annotated[
        _Bytes,
        _doc("Outcomes remembered for clients that may come back; beyond it the oldest lose their speech, then go"),
    ] = 268_435_456
    max_nodes: Annotated[_Count, _doc("Connected nodes before newcomers are refused")] = 20_000
    allow_calls_to: Annotated[
        _Texts,
        _doc("Addresses and networks that `callback_url` and `catalogue.url` may lead to though they are not public"),
    ] = ()
    max_registrations_per_s: Annotated[
        _Count, _doc("Nodes that may register; when a herd comes back, the rest wait")
    ] = 500
    allowed_origins: Annotated[
        _Texts, _doc("Web pages that may use us from another origin, e.g. `https://app.example`; `*` = all")
    ] = ()
    allowed_hosts: Annotated[
        _Texts,
        _doc("Names we are called by, e.g. `translate.example`; empty = all, but only loopback when on loopback"),
    ] = ()
    trusted_proxies: Annotated[
        _Texts, _doc("Networks of our proxies (`10.0.0.5/32`), whose X-Forwarded-For is believed")
    ] = ()
    unmetered_addresses: Annotated[
        _Texts, _doc("Networks without limits per address: nodes, gateways, proxies that are not trusted")
    ] = _OWN_NETWORKS
    max_sockets_per_address: Annotated[
        _Count, _doc("Connections and HTTP nodes of one address (IPv6: one /64) before newcomers get 429")
    ] = 200
    handshakes_per_address_s: Annotated[
        _Count, _doc("New WebSockets and HTTP nodes of one address in a second, five times that at once; then 429")
    ] = 20
    header_timeout_ms: Annotated[_PeriodMs, _doc("Longest a new connection may take to send its first headers")] = (
        10_000
    )
    body_timeout_ms: Annotated[_PeriodMs, _doc("Longest an HTTP body may take to arrive, or an answer to be read")] = (
        30_000
    )
    keepalive_ms: Annotated[_PeriodMs, _doc("Longest an HTTP connection may wait for its next request")] = 30_000


class RedisSettings(msgspec.Struct, frozen=True, kw_only=True):
    url: Annotated[str, _doc("Redis or Valkey to use; empty starts an embedded server")] = ""
    data_dir: Annotated[str, _doc("The embedded server's data; empty = per-user default")] = ""
    server_binary: Annotated[str, _doc("redis-server or valkey-server to embed, not the shipped one")] = ""
    max_memory_mb: Annotated[_Megabytes, _doc("Most memory the embedded server may use; 0 = no limit")] = 1024
    wait: Annotated[bool, _doc("Keep trying when Redis cannot be reached at start")] = False
    key_prefix: Annotated[_KeyPrefix, _doc("What every key in Redis begins with")] = "lingua:v1"
    timeout_ms: Annotated[_PeriodMs, _doc("Longest wait for an answer before Redis counts as away")] = 2000
    max_pending: Annotated[_Count, _doc("Unanswered commands, or calls in them, before callers are refused")] = 20_000
    allow_eviction: Annotated[bool, _doc("Accept a Redis that may evict keys when memory is full")] = False


class NodesSettings(msgspec.Struct, frozen=True, kw_only=True):
    heartbeat_interval_ms: Annotated[_PeriodMs, _doc("Assumed of a node that does not tell its own")] = 15_000
    missed_heartbeats: Annotated[_UpToThousand, _doc("Missed heartbeats after which a node is gone")] = 3
    default_max_jobs: Annotated[_Count, _doc("Slots of a node that names none")] = 4
    max_jobs: Annotated[_Count, _doc("Most slots a node may claim")] = 256
    register_within_ms: Annotated[_PeriodMs, _doc("A node that has not registered by then is closed")] = 30_000
    max_frames_per_s: Annotated[_Count, _doc("Frames a node may send; a faster one is read more slowly")] = 1000
    max_message_bytes: Annotated[
        _MessageBytes, _doc("Most a node may say of itself at once; of a job a quarter of it, besides speech")
    ] = 1_048_576
    max_bytes_per_s: Annotated[_Bytes, _doc("Bytes a node may send; a faster one is read more slowly")] = 33_554_432
    believed_slots: Annotated[
        int, Meta(ge=0, le=1_000_000), _doc("Slots a new node gets of those it claims; 0 = all, for fleets you trust")
    ] = 8
    believed_after: Annotated[_Count, _doc("Good results after which a node gets twice as many of them")] = 20
    max_heartbeats_per_s: Annotated[_Count, _doc("Of those that come faster, the newest is heeded later")] = 10
    max_changes_per_min: Annotated[_Count, _doc("Changes of what a node says it can do; more wait, the last wins")] = 20
    callback_timeout_ms: Annotated[_PeriodMs, _doc("Longest a node's callback_url may take to answer")] = 2_000
    max_cpu_percent: Annotated[_Percent, _doc("Above this a node is degraded and gets no new work")] = 100
    max_memory_percent: Annotated[_Percent, _doc("Likewise for its memory")] = 95
    max_gpu_percent: Annotated[_Percent, _doc("Likewise for its GPU")] = 100
    max_gpu_memory_percent: Annotated[_Percent, _doc("Likewise for its GPU's memory")] = 100
    quarantine_failures: Annotated[_UpToThousand, _doc("Failures among its last jobs that quarantine a node")] = 5
    quarantine_window: Annotated[_UpToThousand, _doc("How many of its last jobs count")] = 20
    quarantine_consecutive: Annotated[_UpToThousand, _doc("Failures in a row that quarantine it too")] = 3
    quarantine_ms: Annotated[_PeriodMs, _doc("First quarantine; a failed probe doubles it, up to ten times")] = 60_000
    unavailable_ms: Annotated[_PeriodMs, _doc("No jobs that need a service after its node said it has none")] = 60_000


class PoolsSettings(msgspec.Struct, frozen=True, kw_only=True):
    admission: Annotated[
        Admission,
        _doc(
            "Which languages of a node admit it to a pair: `strict`, it hears and repairs (semantic) the one and "
            "translates to the other; `asr_tts`, it hears the one, speaks the other and repairs any; `asr_semantic`, "
            "it hears the one and repairs the other"
        ),
    ] = "strict"
    shard_size: Annotated[_UpToThousand, _doc("Most nodes in one shard")] = 100
    max_shards: Annotated[_UpToThousand, _doc("Most shards the fleet may grow to")] = 1000
    refresh_ms: Annotated[_PeriodMs, _doc("Time between looks for a newer pool map")] = 10_000
    leader_ms: Annotated[_PeriodMs, _doc("How long a leader that says nothing still leads")] = 6000


class SelectionSettings(msgspec.Struct, frozen=True, kw_only=True):
    sample_k: Annotated[_UpToThousand, _doc("Nodes sampled before the whole shard is looked at")] = 20
    affinity: Annotated[Affinity, _doc("What sticks to the node it began on")] = "turn"
    affinity_ttl_ms: Annotated[_PeriodMs, _doc("How long a caller's affinity key remembers its node")] = 600_000


class DispatchSettings(msgspec.Struct, frozen=True, kw_only=True):
    queue_wait_ms: Annotated[
        _WaitMs, _doc("Longest a job waits for a free slot; lines that only grow keep to a tenth")
    ] = 10_000
    queue_max: Annotated[_QueueMax, _doc("Waiting jobs per pair before newcomers are refused")] = 5_000


class JobSettings(msgspec.Struct, frozen=True, kw_only=True):
    reservation_ttl_ms: Annotated[_PeriodMs, _doc("Longest wait for a node to acknowledge a job")] = 5000
    timeout_base_ms: Annotated[_PeriodMs, _doc("Time any job gets, however short its audio")] = 15_000
    timeout_factor: Annotated[_Factor, _doc("Times the audio's length, added to the base")] = 2.0
    timeout_max_ms: Annotated[_PeriodMs, _doc("Most time a job gets, however long its audio")] = 60_000
    linger_ms: Annotated[_WaitMs, _doc("Slot kept after a job was given up that its node may still run")] = 30_000
    max_retries: Annotated[int, Meta(ge=0, le=100), _doc("Further attempts after the first one fails")] = 2
    deadline_ms: Annotated[_PeriodMs, _doc("No attempt begins later than this after the utterance ended")] = 120_000
    retry_percent: Annotated[_Percent, _doc("Most retries, as a share of all jobs of an instance")] = 10
    retry_burst: Annotated[_Count, _doc("Retries beyond that share when many attempts are lost at once")] = 1000
    keep_ms: Annotated[_KeepMs, _doc("How long a finished job can be looked up")] = 3_600_000


class SessionsSettings(msgspec.Struct, frozen=True, kw_only=True):
    pause_ms: Annotated[_PeriodMs, _doc("Time without speech that ends an utterance")] = 3000
    silence_opus_bytes: Annotated[
        int, Meta(ge=0, le=1275), _doc("Opus packets of at most this size are silence; 0 = everything is speech")
    ] = 12
    silence_pcm_rms: Annotated[
        int, Meta(ge=0, le=32_767), _doc("PCM16 quieter than this (root mean square) is silence; 0 = all is speech")
    ] = 130
    merge_below_ms: Annotated[
        _WaitMs, _doc("Utterances shorter than this and not cut by hand are joined, as the mobile app needs; 0 = never")
    ] = 1000
    short_merge_ms: Annotated[_WaitMs, _doc("Speech shorter than this waits one more pause for what follows")] = 400
    max_duration_ms: Annotated[_PeriodMs, _doc("Longest speech before it is cut; silence after it does not count")] = (
        10_000
    )
    max_utterance_bytes: Annotated[_Bytes, _doc("Largest utterance before a stream is cut")] = 512_000
    hangover_auto_ms: Annotated[_WaitMs, _doc("Audio still awaited after an automatic cut")] = 150
    hangover_manual_ms: Annotated[_WaitMs, _doc("Audio still awaited after a manual cut")] = 260
    padding_auto_ms: Annotated[_WaitMs, _doc("Padding a node is asked for after an automatic cut")] = 220
    padding_manual_ms: Annotated[_WaitMs, _doc("Padding a node is asked for after a manual cut")] = 280
    grace_ms: Annotated[_WaitMs, _doc("How long a session outlives its socket")] = 30_000
    max_finished: Annotated[
        _Count, _doc("Closed sessions remembered for `grace_ms`, for clients that missed the end; the oldest go first")
    ] = 10_000
    max_per_socket: Annotated[_Count, _doc("Open sessions of one socket before further ones are refused")] = 16
    max_opens_per_s: Annotated[
        _Count, _doc("Sessions one socket may open in a second, four times that at once; the rest wait")
    ] = 5
    max_per_address: Annotated[
        _Count, _doc("Open sessions of one address; `server.unmetered_addresses` have no such limit")
    ] = 200
    idle_socket_ms: Annotated[_PeriodMs, _doc("A client's socket without an open session is closed after this")] = (
        120_000
    )
    idle_ms: Annotated[_WaitMs, _doc("A session in which nothing was said for so long is closed; 0 = never")] = (
        14_400_000
    )
    max_audio_bytes: Annotated[_Bytes, _doc("Audio of one session that may wait for its translation")] = 16_777_216
    max_frames_per_s: Annotated[_Count, _doc("Frames a client may send; a faster one is read more slowly")] = 500
    max_bytes_per_s: Annotated[_Bytes, _doc("Bytes a client may send; a faster one is read more slowly")] = 4_194_304
    max_message_bytes: Annotated[_MessageBytes, _doc("Most a client's frame may hold besides speech")] = 65_536
    ui_events: Annotated[UiEvents, _doc("Which steps of an utterance a client is told, besides outcomes")] = "steps"
    use_binary_frame: Annotated[bool, _doc("Ask clients to send audio as binary frames")] = False


class DeliverySettings(msgspec.Struct, frozen=True, kw_only=True):
    hold_ms: Annotated[_WaitMs, _doc("Maximum time a result waits for an earlier one, which is overtaken then")] = 2500
    silent_hold_ms: Annotated[
        _WaitMs, _doc("The same when the node of the earlier one has answered a later job and may say nothing of it")
    ] = 1200
    max_held: Annotated[_Count, _doc("Results held per session")] = 64


class InstancesSettings(msgspec.Struct, frozen=True, kw_only=True):
    beat_ms: Annotated[_PeriodMs, _doc("Time between two signs of life of an instance")] = 2000
    dead_ms: Annotated[_PeriodMs, _doc("Silence after which an instance is dead and others adopt its mail")] = 6000
    forget_ms: Annotated[_PeriodMs, _doc("Silence after which a dead instance without mail is forgotten")] = 600_000


class InboxSettings(msgspec.Struct, frozen=True, kw_only=True):
    max_length: Annotated[_Count, _doc("Letters that may wait in an inbox before senders are refused")] = 10_000
    max_bytes: Annotated[_Bytes, _doc("Memory they may take in Redis before senders are refused")] = 268_435_456
    max_deliveries: Annotated[_UpToThousand, _doc("Tries to handle a letter before it is a dead letter")] = 5
    handle_timeout_ms: Annotated[_PeriodMs, _doc("Longest one try to handle a letter may take")] = 4000
    retry_ms: Annotated[_PeriodMs, _doc("Wait before a letter that was not handled is tried again")] = 5000
    keep_ms: Annotated[_KeepMs, _doc("How long letters that nobody reads, and dead letters, are kept")] = 86_400_000
    max_dead_letters: Annotated[_Count, _doc("Dead letters kept for each instance; the oldest give way")] = 10_000
    keep_speech: Annotated[
        bool, _doc("Keep speech and text in dead letters, so that orders and results can be replayed")
    ] = False


class PrivacySettings(msgspec.Struct, frozen=True, kw_only=True):
    cluster_key_file: Annotated[
        str,
        _doc(
            "Keys that seal letters between instances, the same for all of them; made at the first start. "
            "A bare name is one in `redis.data_dir`, empty: no key"
        ),
    ] = "cluster.key"
    seal_letters: Annotated[SealLetters, _doc("Seal them: auto = as soon as every live instance has the key")] = "auto"


class RequestsSettings(msgspec.Struct, frozen=True, kw_only=True):
    claim_ms: Annotated[_PeriodMs, _doc("Time to place a request's job before a repeat takes over")] = 15_000
    keep_ms: Annotated[_RepeatMs, _doc("How long a repeated request is answered with its job")] = 600_000


class CallsSettings(msgspec.Struct, frozen=True, kw_only=True):
    max_jobs: Annotated[_Count, _doc("Jobs of HTTP callers under way before newcomers are refused")] = 1000
    max_results: Annotated[_Count, _doc("Results kept for HTTP callers before the oldest are forgotten")] = 10_000
    max_result_bytes: Annotated[_Bytes, _doc("Likewise in bytes, all results together")] = 67_108_864
    keep_ms: Annotated[_KeepMs, _doc("How long the result of an HTTP caller can be fetched")] = 600_000


class WatchSettings(msgspec.Struct, frozen=True, kw_only=True):
    interval_ms: Annotated[_LookMs, _doc("Time between two pictures of everything, for pages, gauges and alarms")] = (
        5000
    )
    watched_interval_ms: Annotated[_LookMs, _doc("Likewise while somebody watches")] = 1000
    history: Annotated[_Moments, _doc("Points of the curves that are kept, for at most 30 minutes")] = 1800
    slow_ms: Annotated[_PeriodMs, _doc("A job that takes longer is slow; an alarm if one in twenty does")] = 5000
    max_watchers: Annotated[_WatchersMax, _doc("Open streams before newcomers are refused")] = 200
    max_watchers_per_address: Annotated[
        _Count, _doc("Those of one address; `server.unmetered_addresses` have no such limit")
    ] = 50
    max_pairs: Annotated[_PairsMax, _doc("Language pairs with gauges of their own; the rest are summed as other")] = 200


class CatalogueSettings(msgspec.Struct, frozen=True, kw_only=True):
    url: Annotated[str, _doc("Where a model hub lists its services (JSON); empty: nobody is asked")] = ""
    file: Annotated[
        str, _doc("Copy for when the hub is away; a bare name is one in `redis.data_dir`, empty: no copy")
    ] = "services_index.json"
    interval_ms: Annotated[_LookMs, _doc("Time between two questions to the hub")] = 30_000
    timeout_ms: Annotated[_PeriodMs, _doc("Longest it may take to answer")] = 5000
    max_bytes: Annotated[_Bytes, _doc("Longer answers are not read")] = 1_048_576


class LogsSettings(msgspec.Struct, frozen=True, kw_only=True):
    level: Annotated[LogLevel, _doc("Least severe event that is written")] = "info"
    format: Annotated[LogFormat, _doc("How events are written; auto = console on a terminal")] = "auto"
    storm_lines: Annotated[_Count, _doc("Lines of one event in ten seconds; of the rest only the number is told")] = 100


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    server: ServerSettings = ServerSettings()
    redis: RedisSettings = RedisSettings()
    nodes: NodesSettings = NodesSettings()
    pools: PoolsSettings = PoolsSettings()
    selection: SelectionSettings = SelectionSettings()
    dispatch: DispatchSettings = DispatchSettings()
    job: JobSettings = JobSettings()
    sessions: SessionsSettings = SessionsSettings()
    delivery: DeliverySettings = DeliverySettings()
    instances: InstancesSettings = InstancesSettings()
    inbox: InboxSettings = InboxSettings()
    privacy: PrivacySettings = PrivacySettings()
    requests: RequestsSettings = RequestsSettings()
    calls: CallsSettings = CallsSettings()
    watch: WatchSettings = WatchSettings()
    catalogue: CatalogueSettings = CatalogueSettings()
    logs: LogsSettings = LogsSettings()


class SettingsError(Exception):
    """One sentence for the person who configures the scheduler, with the next step."""


class Loaded(NamedTuple):
    settings: Settings
    origins: dict[str, str]  # dotted name -> "default", "file /x.toml", "environment LINGUA_…" or "flag"


class Field(NamedTuple):
    name: str
    type_name: str
    default: object
    description: str
    variable: str
    minimum: int | float | None
    maximum: int | float | None
    choices: tuple[str, ...]


class _Known(NamedTuple):
    field: Field
    annotation: Any
    parse: Callable[[str], object]
    expected: str


def fields() -> Iterator[Field]:
    """Every setting, in the order it is written here."""
    return (known.field for known in _KNOWN.values())


def load(*, config_path: Path | None, environment: Mapping[str, str], flags: Mapping[str, object]) -> Loaded:
    """Merge defaults, file, environment and flags; the first mistake found is a SettingsError."""
    values = {field.name: field.default for field in fields()}
    origins = dict.fromkeys(values, "default")
    for name, value, origin in _given(config_path, environment, flags):
        values[name] = _checked(name, value, origin)
        origins[name] = origin
    if not values["redis.data_dir"] and (data_home := _xdg_data_home(environment, sys.platform)):
        values["redis.data_dir"] = str(Path(data_home, _APP_DIR))
        origins["redis.data_dir"] = "environment XDG_DATA_HOME"
    _check_order("nodes.default_max_jobs", "nodes.max_jobs", values, origins)
    _check_order("job.timeout_base_ms", "job.timeout_max_ms", values, origins)
    _check_order("instances.beat_ms", "instances.dead_ms", values, origins)
    _check_order("inbox.handle_timeout_ms", "inbox.retry_ms", values, origins)
    _check_order("requests.claim_ms", "requests.keep_ms", values, origins)
    _check_order("watch.watched_interval_ms", "watch.interval_ms", values, origins)
    _check_bodies(values, origins)
    for name, (is_fine, expected) in _ITEMS.items():
        _check_items(name, is_fine, expected, values, origins)
    tables: dict[str, dict[str, object]] = {}
    for name, value in values.items():
        section, _, key = name.partition(".")
        tables.setdefault(section, {})[key] = value
    return Loaded(msgspec.convert(tables, Settings), origins)


def default_data_dir(environment: Mapping[str, str] = _NOTHING, platform: str = sys.platform) -> Path:
    """The per-user place for data; `load` has put XDG_DATA_HOME into the settings already."""
    if platform == "darwin":
        return Path.home() / "Library" / "Application Support" / _APP_DIR
    return Path(_xdg_data_home(environment, platform) or Path.home() / ".local" / "share", _APP_DIR)


def resolved_data_dir(redis: RedisSettings) -> Path:
    try:
        return Path(redis.data_dir).expanduser() if redis.data_dir else default_data_dir()
    except RuntimeError:
        raise SettingsError("no home directory is known; set redis.data_dir to an absolute path") from None


def catalogue_path(settings: Settings) -> Path | None:
    """Where the copy of the catalogue is; None where there is none, or no place for it."""
    return _data_path(settings.catalogue.file, settings.redis)


def cluster_key_path(settings: Settings) -> Path | None:
    """Where the cluster key is; None where there is none, or no place for it."""
    return _data_path(settings.privacy.cluster_key_file, settings.redis)


def _data_path(name: str, redis: RedisSettings) -> Path | None:
    try:
        path = Path(name).expanduser()
        if not name or path.is_absolute():
            return path if name else None
        return resolved_data_dir(redis) / path
    except (RuntimeError, SettingsError):
        return None


def _xdg_data_home(environment: Mapping[str, str], platform: str) -> str:
    data_home = environment.get("XDG_DATA_HOME", "")
    # The XDG specification says to ignore a relative path.
    return data_home if platform != "darwin" and data_home.startswith("/") else ""


def _given(
    config_path: Path | None, environment: Mapping[str, str], flags: Mapping[str, object]
) -> Iterator[tuple[str, object, str]]:
    """Name, value and origin of all that was given, the strongest last."""
    if path := config_path or environment.get("LINGUA_CONFIG"):
        for name, value in _file_items(Path(path)):
            yield name, value, f"file {path}"
    names = {field.variable: field.name for field in fields()}
    for variable, text in environment.items():
        if variable.startswith("LINGUA_") and variable != "LINGUA_CONFIG":
            name = names.get(variable, variable)
            yield name, _parsed(name, text), f"environment {variable}"
    for name, value in flags.items():
        if value is not None:
            yield name, _parsed(name, value), "flag"


def _file_items(path: Path) -> Iterator[tuple[str, object]]:
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(f"cannot read {path}: {error.strerror}; name a file that can be read") from None
    except ValueError as error:  # not TOML, or not even UTF-8
        raise SettingsError(f"{path} is not valid TOML: {error}; correct it there") from None
    for section, table in tables.items():
        if isinstance(table, dict) and (table or section in Settings.__struct_fields__):
            yield from ((f"{section}.{key}", value) for key, value in table.items())
        else:
            yield section, table  # no setting has a bare name, so this is reported as unknown


def _parsed(name: str, value: object) -> object:
    """What a text means for its setting; one that means nothing stays a text, which the check refuses."""
    try:
        return _KNOWN[name].parse(value) if isinstance(value, str) else value
    except (ValueError, KeyError):
        return value


def _checked(name: str, value: object, origin: str) -> object:
    if name not in _KNOWN:
        raise _unknown(name, origin)
    try:
        return msgspec.convert(value, _KNOWN[name].annotation)
    except msgspec.ValidationError:
        expected = _KNOWN[name].expected
        raise SettingsError(f"{name} = {_shown(value)} ({origin}): expected {expected}") from None


def _check_order(low: str, high: str, values: Mapping[str, Any], origins: Mapping[str, str]) -> None:
    if values[low] > values[high]:
        raise SettingsError(
            f"{low} = {values[low]} ({origins[low]}) is above {high} = {values[high]} ({origins[high]}); "
            "lower the first or raise the second"
        )


def _check_bodies(values: Mapping[str, Any], origins: Mapping[str, str]) -> None:
    """An utterance of the largest size must fit into a body: base64, and something around it."""
    audio, body = "sessions.max_utterance_bytes", "server.max_body_bytes"
    needed = values[audio] * 4 // 3 + _AROUND_AUDIO_BYTES
    if values[body] < needed:
        raise SettingsError(
            f"{body} = {values[body]} ({origins[body]}) is too little for an utterance of {audio} = {values[audio]} "
            f"({origins[audio]}) as base64; it takes at least {needed}"
        )


def _check_items(
    name: str,
    is_fine: Callable[[str], bool],
    expected: str,
    values: Mapping[str, Any],
    sources: Mapping[str, str],
) -> None:
    for text in values[name]:
        if not is_fine(text):
            raise SettingsError(f"{name} holds {_shown(text)} ({sources[name]}): expected {expected}")


def _is_network(text: str) -> bool:
    try:
        return bool(read_networks((text,)))
    except ValueError:
        return False


def _is_origin(text: str) -> bool:
    return text == ANY or read_origin(text) is not None


def _is_host(text: str) -> bool:
    found = read_host(text)
    return text == ANY or (found is not None and found.port is None)


_NETWORK = "an address or a network, e.g. 10.0.0.5 or 10.0.0.0/8"
_ITEMS: Mapping[str, tuple[Callable[[str], bool], str]] = {
    "server.allowed_origins": (_is_origin, "an origin with its scheme, e.g. https://app.example, or *"),
    "server.allowed_hosts": (_is_host, "a host name or address without scheme and port, or *"),
    "server.trusted_proxies": (_is_network, _NETWORK),
    "server.allow_calls_to": (_is_network, _NETWORK),
    "server.unmetered_addresses": (_is_network, _NETWORK),
}


def _unknown(name: str, origin: str) -> SettingsError:
    source, _, path = origin.partition(" ")
    is_variable = source == "environment"
    near = {"config": "LINGUA_CONFIG"} if is_variable else {s: f"[{s}]" for s in Settings.__struct_fields__}
    for field in fields():
        label = field.variable if is_variable else field.name
        # The bare key too, for a setting looked for in the wrong section or in none.
        near |= {field.name.partition(".")[2]: label, field.name.replace(".", "_"): label}
    spelled = name.removeprefix("LINGUA_").casefold()
    key = spelled.rpartition(".")[2]
    found = [key] if key in near else get_close_matches(spelled.replace(".", "_"), near, n=1)
    step = f'did you mean "{near[found[0]]}"?' if found else "see docs/settings.md for the list"
    where = path if source == "file" else "the environment" if is_variable else "the flags"
    return SettingsError(f'unknown setting "{name}" in {where}; {step}')


def _shown(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def _truth(text: str) -> bool:
    return _TRUTH[text.strip().lower()]


def _listed(text: str) -> tuple[str, ...]:
    """In the environment and in flags a list is written with commas."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _read_structs() -> Iterator[_Known]:
    for section, struct in get_type_hints(Settings).items():
        for key, annotation in get_type_hints(struct, include_extras=True).items():
            kind, *metas = get_args(annotation)
            choices = get_args(kind) if get_origin(kind) is Literal else ()
            is_list = get_origin(kind) is tuple
            kind = str if choices else list if is_list else kind
            told = {k: v for meta in metas for k in _META_KEYS if (v := getattr(meta, k)) is not None}
            field = Field(
                name=f"{section}.{key}",
                type_name=kind.__name__,
                default=getattr(struct(), key),
                description=told["description"],
                variable=f"LINGUA_{section}_{key}".upper(),
                minimum=told.get("ge"),
                maximum=told.get("le"),
                choices=choices,
            )
            parse = _truth if kind is bool else _listed if is_list else kind
            expected = told.get("extra", {}).get("expected", _EXPECTED[field.type_name])
            if choices:
                expected = "one of " + ", ".join(map(_shown, choices))
            elif "ge" in told:
                expected += f" from {field.minimum} to {field.maximum}"
            yield _Known(field, annotation, parse, expected)


_KNOWN = {known.field.name: known for known in _read_structs()}
