"""Every metric has its home here; label values come from small fixed sets, and of languages a bounded number."""

from bisect import bisect_left

from prometheus_client import CollectorRegistry, Counter, Gauge, disable_created_metrics, values
from prometheus_client import Histogram as _Histogram


class _Value:
    """A number without a lock: all counting happens in one thread, and the lock was half of the counting."""

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


class Histogram(_Histogram):
    """Finds its bucket by bisection."""

    def observe(self, amount: float, exemplar: dict[str, str] | None = None) -> None:  # noqa: ARG002
        self._sum.inc(amount)
        self._buckets[bisect_left(self._upper_bounds, amount)].inc(1)


REGISTRY = CollectorRegistry()
# A second series for each of ours that says when the first began: nobody asks for it.
disable_created_metrics()  # type: ignore[no-untyped-call]


def by(counter: Counter, *values: str) -> dict[str, Counter]:
    """One counter for each value of its label. Made once: to look one up by label costs four times the counting.

    They are there from the start, with 0, so that an alert sees the first event too.
    """
    return {str(value): counter.labels(str(value)) for value in values}


NODES = Gauge("lingua_nodes_connected", "Nodes connected to this instance", registry=REGISTRY)
SOCKETS = Gauge("lingua_sockets_open", "Open WebSockets by side", ["side"], registry=REGISTRY)
SESSIONS = Gauge("lingua_sessions_open", "Sessions held by this instance", registry=REGISTRY)
SESSIONS_RESTORED = Counter(
    "lingua_session_records_restored",
    "Records of live sessions that Redis had lost and that were written again",
    registry=REGISTRY,
)
UNREADABLE_DATA = Counter(
    "lingua_redis_unreadable",
    "Entries met in Redis that no scheduler can have written, by family of keys",
    ["family"],
    registry=REGISTRY,
)
AUDIO_HELD = Gauge("lingua_audio_held_bytes", "Audio of all sessions that waits for its translation", registry=REGISTRY)
SESSION_MISSES = Counter(
    "lingua_session_misses", "Frames that named a session which is not their socket's", registry=REGISTRY
)
PAUSES = Counter("lingua_session_pauses", "Clients asked to pause, by reason", ["reason"], registry=REGISTRY)
REGISTRATIONS = Counter(
    "lingua_node_registrations", "Registrations of nodes by outcome", ["outcome"], registry=REGISTRY
)
HEARTBEATS = Counter("lingua_node_heartbeats", "Heartbeats of nodes by outcome", ["outcome"], registry=REGISTRY)
HEARTBEAT_SECONDS = Histogram(
    "lingua_node_heartbeat_seconds",
    "From reading a heartbeat until Redis has it",
    buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1),
    registry=REGISTRY,
)
DISPATCHES = Counter("lingua_job_dispatches", "Tries to place a job by outcome", ["outcome"], registry=REGISTRY)
RESERVATIONS = Counter(
    "lingua_slot_reservations", "Shards asked to lease a slot, by outcome", ["outcome"], registry=REGISTRY
)
JOBS = Counter("lingua_jobs_ended", "Jobs that ended, by state", ["state"], registry=REGISTRY)
ATTEMPTS_LOST = Counter(
    "lingua_attempts_lost", "Attempts that ended without a result, by reason", ["reason"], registry=REGISTRY
)
RETRIES = Counter(
    "lingua_job_retries",
    "Retries of jobs, made or not, by outcome and why the attempt before was lost",
    ["outcome", "reason"],
    registry=REGISTRY,
)
LEASES = Gauge("lingua_leases_held", "Attempts of this instance's jobs that hold a lease on a slot", registry=REGISTRY)
QUARANTINES = Counter(
    "lingua_node_quarantines", "Quarantines of nodes, begun and ended", ["outcome"], registry=REGISTRY
)
COMPLAINTS = Counter(
    "lingua_node_complaints", "Nodes said that they lack a service, by outcome", ["outcome"], registry=REGISTRY
)
STALE = Counter("lingua_messages_stale", "Messages of nodes about an attempt that is over", ["kind"], registry=REGISTRY)
UNREADABLE = Counter("lingua_frames_refused", "Frames that could not be taken, by side", ["side"], registry=REGISTRY)
THROTTLED = Counter(
    "lingua_sockets_throttled",
    "Times a peer was too fast and its socket was read more slowly",
    ["side"],
    registry=REGISTRY,
)
CUT_OFF = Counter("lingua_sockets_cut_off", "Sockets closed for what was sent on them", ["reason"], registry=REGISTRY)
DOOR_REFUSALS = Counter(
    "lingua_door_refusals", "Requests turned away before they were served, by reason", ["reason"], registry=REGISTRY
)
IDLE_CLOSED = Counter(
    "lingua_idle_closed",
    "Sockets without a session and sessions without speech that were closed",
    ["what"],
    registry=REGISTRY,
)
CONNECTIONS_CUT = Counter(
    "lingua_connections_cut", "Connections that were too slow, or too many, by reason", ["reason"], registry=REGISTRY
)
OVERFLOWS = Counter("lingua_outbox_overflows", "Sockets closed because the peer reads too slowly", registry=REGISTRY)
PARTIALS_DROPPED = Counter(
    "lingua_partials_dropped",
    "Partials left out: too many, or read too slowly",
    registry=REGISTRY,
)
OVERTAKEN = Counter("lingua_outcomes_late", "Outcomes that left after one that was said later", registry=REGISTRY)
QUEUED = Gauge("lingua_jobs_waiting", "Jobs waiting for a free slot", registry=REGISTRY)
QUEUE_WAIT = Histogram(
    "lingua_job_queue_wait_seconds",
    "How long jobs waited for a free slot",
    buckets=(0.005, 0.02, 0.1, 0.5, 1, 2, 5, 10),
    registry=REGISTRY,
)
DISPATCH_SECONDS = Histogram(
    "lingua_job_dispatch_seconds",
    "From the end of an utterance until its job is sent to the first node",
    buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 2, 10),
    registry=REGISTRY,
)
ATTEMPT_SECONDS = Histogram(
    "lingua_attempt_seconds",
    "From sending a job to a node until its result is here",
    buckets=(0.005, 0.02, 0.1, 0.25, 0.5, 1, 2, 5, 10, 30),
    registry=REGISTRY,
)
STAGE_SECONDS = Histogram(
    "lingua_node_stage_seconds",
    "What nodes say a stage of a job took them",
    ["stage"],
    buckets=(0.02, 0.1, 0.25, 0.5, 1, 2, 5, 10, 30),
    registry=REGISTRY,
)
JOB_SECONDS = Histogram(
    "lingua_job_seconds",
    "From the end of an utterance to its outcome",
    buckets=(0.005, 0.02, 0.1, 0.25, 0.5, 1, 2, 5, 10, 30),
    registry=REGISTRY,
)
INSTANCES = Gauge("lingua_instances_alive", "Instances that are alive, this one among them", registry=REGISTRY)
INBOX_DEPTH = Gauge("lingua_inbox_letters", "Letters in this instance's inbox, read or not", registry=REGISTRY)
POSTS = Counter("lingua_letters_posted", "Letters to other instances by outcome", ["outcome"], registry=REGISTRY)
LETTERS = Counter(
    "lingua_letters_handled", "Letters from other instances by kind and outcome", ["kind", "outcome"], registry=REGISTRY
)
ADOPTIONS = Counter("lingua_inbox_adoptions", "Inboxes of dead instances whose letters we handled", registry=REGISTRY)
DEAD_LETTERS = Counter(
    "lingua_letters_dead", "Letters that became dead letters, by reason", ["reason"], registry=REGISTRY
)
LEADING = Gauge("lingua_instance_leading", "1 while this instance leads", registry=REGISTRY)
MAP_BUILDS = Counter(
    "lingua_pool_map_builds", "Pool maps built from the shards here, by reason", ["reason"], registry=REGISTRY
)
CLAIMS = Counter("lingua_request_claims", "Tries to claim a request id by outcome", ["outcome"], registry=REGISTRY)
CALLS = Gauge("lingua_calls_under_way", "Jobs of HTTP callers without an outcome", registry=REGISTRY)
OUTGOING_REFUSED = Counter(
    "lingua_outgoing_calls_refused",
    "Calls to an address that is not permitted, by what for",
    ["purpose"],
    registry=REGISTRY,
)
REMEMBERED_BYTES = Gauge(
    "lingua_outcomes_remembered_bytes", "Outcomes remembered for clients that may come back", registry=REGISTRY
)
FORGOTTEN = Counter(
    "lingua_outcomes_forgotten",
    "Remembered outcomes that lost their speech, or were dropped, because all of them took too much",
    ["what"],
    registry=REGISTRY,
)
RESULTS_BYTES = Gauge("lingua_results_kept_bytes", "Results kept for HTTP callers", registry=REGISTRY)
REDIS_UP = Gauge("lingua_redis_up", "1 while Redis answers and scripts are loaded", registry=REGISTRY)
REDIS_SECONDS = Histogram(
    "lingua_redis_round_trip_seconds",
    "From writing commands to Redis until the last of them is answered, sampled",
    buckets=(0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 2),
    registry=REGISTRY,
)
LOOP_LAG = Histogram(
    "lingua_event_loop_lag_seconds",
    "How late the event loop is when something is due",
    buckets=(0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5),
    registry=REGISTRY,
)
TASK_FAILURES = Counter("lingua_task_failures", "Tasks that ended with a surprise", ["nursery"], registry=REGISTRY)
CHORE_FAILURES = Counter("lingua_chore_failures", "Periodic chores that failed once", ["chore"], registry=REGISTRY)
SIGNALS = Counter("lingua_signals_heard", "Signals between instances, by kind", ["kind"], registry=REGISTRY)
RECORDS_SKIPPED = Counter(
    "lingua_job_records_skipped", "Jobs without an attempt that came in masses and were only counted", registry=REGISTRY
)
PAIR_NODES = Gauge(
    "lingua_pair_nodes",
    "Nodes of the whole fleet that take work for a pair, spoken; * stands for nodes with more than 256 pairs",
    ["src", "tgt"],
    registry=REGISTRY,
)
PAIR_SLOTS = Gauge("lingua_pair_slots", "Slots of those nodes", ["src", "tgt"], registry=REGISTRY)
PAIR_FREE_SLOTS = Gauge("lingua_pair_free_slots", "Free slots of those nodes", ["src", "tgt"], registry=REGISTRY)
SNAPSHOT_AGE = Gauge(
    "lingua_snapshot_age_seconds", "Since the picture was made that pages and pair gauges show", registry=REGISTRY
)
WORKERS = Gauge("lingua_workers", "Processes that serve this port together", registry=REGISTRY)
WORKERS_SILENT = Counter(
    "lingua_workers_silent", "Workers that did not answer when another asked for their figures", registry=REGISTRY
)
