"""All metrics. Label values come from small fixed sets; the number of language pairs is bounded."""

from bisect import bisect_left

from prometheus_client import CollectorRegistry, Gauge, disable_created_metrics, values
from prometheus_client import Counter as _Counter
from prometheus_client import Histogram as _Histogram


class _Value:
    """A value without a lock: all counting happens in one thread, and the lock was half of the cost."""

    _multiprocess = False
    __slots__ = ("_value",)

    def __init__(self, *_name: object, **_more: object) -> None:
        self._value = 0.0

    def inc(self, amount: float) -> None:
        self._value += amount

    def set(self, value: float, timestamp: float | None = None) -> None:  # noqa: ARG002 - the library may hand one in
        self._value = value

    def get(self) -> float:
        return self._value

    def get_exemplar(self) -> None:
        return None


values.ValueClass = _Value


class Counter(_Counter):
    """Counts without asking each time whether it has its labels: the value of one that lacks them does not exist."""

    _value: _Value

    def inc(self, amount: float = 1, exemplar: dict[str, str] | None = None) -> None:  # noqa: ARG002 - as above
        self._value._value += amount


class Histogram(_Histogram):
    """Finds its bucket by bisection."""

    _sum: _Value
    _buckets: list[_Value]

    def observe(self, amount: float, exemplar: dict[str, str] | None = None) -> None:  # noqa: ARG002 - as above
        self._sum._value += amount
        self._buckets[bisect_left(self._upper_bounds, amount)]._value += 1


REGISTRY = CollectorRegistry()
# No `_created` series: they are not used.
disable_created_metrics()  # type: ignore[no-untyped-call]


def by(counter: Counter, *values: str) -> dict[str, Counter]:
    """One counter per label value, created once: a lookup by label costs four times as much as the count.

    All start at 0, so that an alert also sees the first event.
    """
    return {str(value): counter.labels(str(value)) for value in values}


NODES = Gauge("lingua_nodes_connected", "Nodes connected to this instance", registry=REGISTRY)
SOCKETS = Gauge("lingua_sockets_open", "Open WebSockets by side", ["side"], registry=REGISTRY)
SESSIONS = Gauge("lingua_sessions_open", "Sessions held by this instance", registry=REGISTRY)
ROOMS = Gauge("lingua_rooms_open", "Rooms with members at this instance", registry=REGISTRY)
ROOM_MEMBERS = Gauge("lingua_room_members", "Members of rooms at this instance", registry=REGISTRY)
ROOM_GUESTS = Gauge("lingua_room_guests", "Guests of rooms at this instance", registry=REGISTRY)
ROOM_ENTRIES = Counter(
    "lingua_room_entries", "Attempts to create or join a room, by outcome", ["outcome"], registry=REGISTRY
)
ROOM_GUESSES_REFUSED = Counter(
    "lingua_room_guesses_refused", "Room codes that were not looked at after too many wrong ones", registry=REGISTRY
)
ROOM_SIGNALS = Counter(
    "lingua_room_signals", "WebRTC frames between members, by what became of them", ["outcome"], registry=REGISTRY
)
ROOM_UTTERANCES = Counter(
    "lingua_room_utterances",
    "Utterances in rooms: fanned out, refused (too many jobs of the room), failed (Redis away)",
    ["outcome"],
    registry=REGISTRY,
)
ROOM_DELIVERIES = Counter(
    "lingua_room_deliveries",
    "Outcomes for listeners in rooms: sent, missed (the listener was away), late, lost (they never came)",
    ["outcome"],
    registry=REGISTRY,
)
ROOM_SPEECH_LOST = Counter(
    "lingua_room_speech_lost",
    "Results sent as text alone to existing pages, because their speech cannot be converted to PCM16",
    registry=REGISTRY,
)
ROOM_TEXTS = Counter(
    "lingua_room_messages", "Text messages in rooms, by what became of them", ["outcome"], registry=REGISTRY
)
ROOM_CAPTIONS = Counter(
    "lingua_room_captions",
    "Recognised words of members, and when they speak, shown to others, by what became of them",
    ["outcome"],
    registry=REGISTRY,
)
ROOM_LAG = Histogram(
    "lingua_room_lag_seconds",
    "Time from the end of speech in a room to its delivery in a language; languages beyond the first 50 are `other`",
    ["language"],
    buckets=(0.25, 0.5, 1, 1.5, 2, 3, 5, 8, 15, 30),
    registry=REGISTRY,
)
ROOMS_RESTORED = Counter(
    "lingua_rooms_restored", "Rooms that Redis had lost and that were written again", registry=REGISTRY
)
SESSIONS_RESTORED = Counter(
    "lingua_session_records_restored",
    "Records of live sessions that Redis had lost and that were restored",
    registry=REGISTRY,
)
UNREADABLE_DATA = Counter(
    "lingua_redis_unreadable",
    "Invalid entries found in Redis, by key family",
    ["family"],
    registry=REGISTRY,
)
AUDIO_HELD = Gauge("lingua_audio_held_bytes", "Audio of all sessions waiting for translation", registry=REGISTRY)
SESSION_MISSES = Counter("lingua_session_misses", "Frames that named a session of another socket", registry=REGISTRY)
PAUSES = Counter(
    "lingua_session_pauses", "Back-pressure: clients asked to pause, by reason", ["reason"], registry=REGISTRY
)
REGISTRATIONS = Counter("lingua_node_registrations", "Node registrations by outcome", ["outcome"], registry=REGISTRY)
HEARTBEATS = Counter("lingua_node_heartbeats", "Node heartbeats by outcome", ["outcome"], registry=REGISTRY)
HEARTBEAT_SECONDS = Histogram(
    "lingua_node_heartbeat_seconds",
    "Time from reading a heartbeat to storing it in Redis",
    buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1),
    registry=REGISTRY,
)
DISPATCHES = Counter(
    "lingua_job_dispatches", "Attempts to place a job on a node, by outcome", ["outcome"], registry=REGISTRY
)
RESERVATIONS = Counter(
    "lingua_slot_reservations", "Requests to a shard for a slot, by outcome", ["outcome"], registry=REGISTRY
)
JOBS = Counter("lingua_jobs_ended", "Jobs that ended, by state", ["state"], registry=REGISTRY)
ATTEMPTS_LOST = Counter(
    "lingua_attempts_lost", "Attempts that ended without a result, by reason", ["reason"], registry=REGISTRY
)
RETRIES = Counter(
    "lingua_job_retries",
    "Retries of jobs, made or refused, by outcome and reason of the failed attempt",
    ["outcome", "reason"],
    registry=REGISTRY,
)
LEASES = Gauge("lingua_leases_held", "Leases held by attempts of this instance's jobs", registry=REGISTRY)
QUARANTINES = Counter(
    "lingua_node_quarantines", "Circuit breaker: node quarantines begun and ended", ["outcome"], registry=REGISTRY
)
COMPLAINTS = Counter(
    "lingua_node_complaints", "Reports of nodes that a service is missing, by outcome", ["outcome"], registry=REGISTRY
)
STALE = Counter(
    "lingua_messages_stale", "Stale messages from nodes, about an attempt that has ended", ["kind"], registry=REGISTRY
)
UNREADABLE = Counter("lingua_frames_refused", "Frames that were rejected, by side", ["side"], registry=REGISTRY)
THROTTLED = Counter(
    "lingua_sockets_throttled",
    "Rate limit: times a socket was read more slowly because its peer sent too fast",
    ["side"],
    registry=REGISTRY,
)
CUT_OFF = Counter(
    "lingua_sockets_cut_off", "Sockets closed because of what the peer sent", ["reason"], registry=REGISTRY
)
DOOR_REFUSALS = Counter(
    "lingua_door_refusals",
    "Requests and handshakes rejected before they were served, by reason",
    ["reason"],
    registry=REGISTRY,
)
IDLE_CLOSED = Counter(
    "lingua_idle_closed",
    "Idle sockets and sessions that were closed",
    ["what"],
    registry=REGISTRY,
)
CONNECTIONS_CUT = Counter(
    "lingua_connections_cut",
    "Connections closed because they were too slow, too many or sent no HTTP, by reason",
    ["reason"],
    registry=REGISTRY,
)
TLS_EXPIRES = Gauge(
    "lingua_tls_certificate_expires_timestamp_seconds",
    "When the TLS certificate in use expires, in seconds since 1970; 0 = the port has no TLS",
    registry=REGISTRY,
)
TLS_RELOADS = Counter(
    "lingua_tls_reloads",
    "Changed TLS files that were loaded, or could not be used, by outcome",
    ["outcome"],
    registry=REGISTRY,
)
OVERFLOWS = Counter("lingua_outbox_overflows", "Sockets closed because the peer reads too slowly", registry=REGISTRY)
PARTIALS_DROPPED = Counter(
    "lingua_partials_dropped",
    "Partial results dropped because there were too many or the client read too slowly",
    registry=REGISTRY,
)
RUNGS = Counter(
    "lingua_job_rungs",
    "Utterances for a language that were not one whole job: split, by a pivot language, or without speech",
    ["rung"],
    registry=REGISTRY,
)
RECOGNITIONS_SHARED = Counter(
    "lingua_recognitions_shared",
    "Utterances that were recognised once for several languages, by what came of it",
    ["outcome"],
    registry=REGISTRY,
)
OVERTAKEN = Counter(
    "lingua_outcomes_late", "Outcomes delivered after the outcome of a later utterance", registry=REGISTRY
)
QUEUED = Gauge("lingua_jobs_waiting", "Jobs waiting for a free slot", registry=REGISTRY)
QUEUE_WAIT = Histogram(
    "lingua_job_queue_wait_seconds",
    "Time jobs waited for a free slot",
    buckets=(0.005, 0.02, 0.1, 0.5, 1, 2, 5, 10),
    registry=REGISTRY,
)
DISPATCH_SECONDS = Histogram(
    "lingua_job_dispatch_seconds",
    "Time from the end of an utterance to sending its job to the first node",
    buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 2, 10),
    registry=REGISTRY,
)
ATTEMPT_SECONDS = Histogram(
    "lingua_attempt_seconds",
    "Time from sending a job to a node to receiving its result",
    buckets=(0.005, 0.02, 0.1, 0.25, 0.5, 1, 2, 5, 10, 30),
    registry=REGISTRY,
)
STAGE_SECONDS = Histogram(
    "lingua_node_stage_seconds",
    "Time of each stage of a job, as reported by nodes",
    ["stage"],
    buckets=(0.02, 0.1, 0.25, 0.5, 1, 2, 5, 10, 30),
    registry=REGISTRY,
)
JOB_SECONDS = Histogram(
    "lingua_job_seconds",
    "Time from the end of an utterance to its outcome",
    buckets=(0.005, 0.02, 0.1, 0.25, 0.5, 1, 2, 5, 10, 30),
    registry=REGISTRY,
)
INSTANCES = Gauge("lingua_instances_alive", "Live instances, including this one", registry=REGISTRY)
INBOX_DEPTH = Gauge("lingua_inbox_letters", "Letters in this instance's inbox, read or not", registry=REGISTRY)
POSTS = Counter("lingua_letters_posted", "Letters to other instances by outcome", ["outcome"], registry=REGISTRY)
LETTERS = Counter(
    "lingua_letters_handled", "Letters from other instances by kind and outcome", ["kind", "outcome"], registry=REGISTRY
)
ADOPTIONS = Counter("lingua_inbox_adoptions", "Inboxes of dead instances adopted by this one", registry=REGISTRY)
DEAD_LETTERS = Counter(
    "lingua_letters_dead", "Letters that became dead letters, by reason", ["reason"], registry=REGISTRY
)
LEADING = Gauge("lingua_instance_leading", "1 while this instance is the leader", registry=REGISTRY)
MAP_BUILDS = Counter(
    "lingua_pool_map_builds", "Pool maps built by this instance, by reason", ["reason"], registry=REGISTRY
)
CLAIMS = Counter(
    "lingua_request_claims", "Idempotency: attempts to claim a request id, by outcome", ["outcome"], registry=REGISTRY
)
CALLS = Gauge("lingua_calls_under_way", "Unfinished jobs of HTTP callers", registry=REGISTRY)
OUTGOING_REFUSED = Counter(
    "lingua_outgoing_calls_refused",
    "Outgoing calls refused because the address is not allowed, by purpose",
    ["purpose"],
    registry=REGISTRY,
)
REMEMBERED_BYTES = Gauge(
    "lingua_outcomes_remembered_bytes", "Outcomes kept for clients that may reconnect", registry=REGISTRY
)
FORGOTTEN = Counter(
    "lingua_outcomes_forgotten",
    "Kept outcomes that lost their speech or were dropped to free memory",
    ["what"],
    registry=REGISTRY,
)
RESULTS_BYTES = Gauge("lingua_results_kept_bytes", "Results kept for HTTP callers", registry=REGISTRY)
REDIS_UP = Gauge("lingua_redis_up", "1 while Redis answers", registry=REGISTRY)
REDIS_SECONDS = Histogram(
    "lingua_redis_round_trip_seconds",
    "Time from writing a batch of commands to Redis to its last reply, sampled",
    buckets=(0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 2),
    registry=REGISTRY,
)
LOOP_LAG = Histogram(
    "lingua_event_loop_lag_seconds",
    "Event-loop lag: how late a timer fires",
    buckets=(0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5),
    registry=REGISTRY,
)
TASK_FAILURES = Counter(
    "lingua_task_failures", "Tasks that ended with an unexpected exception", ["nursery"], registry=REGISTRY
)
CHORE_FAILURES = Counter("lingua_chore_failures", "Failed runs of periodic chores", ["chore"], registry=REGISTRY)
SIGNALS = Counter("lingua_signals_heard", "Signals between instances, by kind", ["kind"], registry=REGISTRY)
RECORDS_SKIPPED = Counter(
    "lingua_job_records_skipped",
    "Jobs without an attempt that were not recorded because there were too many",
    registry=REGISTRY,
)
PAIR_NODES = Gauge(
    "lingua_pair_nodes",
    "Nodes of the whole fleet that accept jobs for a language pair, with speech; * = nodes with more than 256 pairs",
    ["src", "tgt"],
    registry=REGISTRY,
)
PAIR_SLOTS = Gauge("lingua_pair_slots", "Slots of those nodes", ["src", "tgt"], registry=REGISTRY)
PAIR_FREE_SLOTS = Gauge("lingua_pair_free_slots", "Free slots of those nodes", ["src", "tgt"], registry=REGISTRY)
WANTED_SLOTS = Gauge(
    "lingua_wanted_slots",
    "Slots that the load of a language pair calls for (docs/scaling.md); pairs share slots: do not add them up",
    ["src", "tgt"],
    registry=REGISTRY,
)
FLEET_WANTED_SLOTS = Gauge(
    "lingua_fleet_wanted_slots", "Slots that the load of all language pairs calls for together", registry=REGISTRY
)
NODE_QUARANTINED = Gauge(
    "lingua_node_quarantined",
    "Quarantined nodes of the whole fleet by name, at most 20; the others are counted as other",
    ["node_id"],
    registry=REGISTRY,
)
VERDICT = Gauge(
    "lingua_verdict",
    "The verdict that the dashboard and `lingua status` begin with: 0 all is well, 1 notice, 2 warning, 3 critical",
    registry=REGISTRY,
)
SNAPSHOT_AGE = Gauge(
    "lingua_snapshot_age_seconds", "Age of the snapshot that pages and pair gauges show", registry=REGISTRY
)
WORKERS = Gauge("lingua_workers", "Worker processes that share this port", registry=REGISTRY)
WORKERS_SILENT = Counter(
    "lingua_workers_silent", "Workers that did not answer when another worker collected the metrics", registry=REGISTRY
)
