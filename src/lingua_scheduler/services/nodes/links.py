"""The nodes whose connection this instance holds: what is known of each, and the table of them all."""

from collections.abc import Collection

from lingua_scheduler.clock import SYSTEM_CLOCK, Clock
from lingua_scheduler.domain.jobs.attempts import Attempt
from lingua_scheduler.domain.nodes.complaints import ComplaintFilter, ComplaintRules
from lingua_scheduler.domain.nodes.nodes import MachineLoad, Profile
from lingua_scheduler.domain.nodes.owners import Owner
from lingua_scheduler.domain.nodes.places import Place
from lingua_scheduler.domain.pools.pools import Membership
from lingua_scheduler.services.attempts.peers import CloseCode, NodePeer
from lingua_scheduler.services.nodes.pacing import Pace
from lingua_scheduler.telemetry import metrics
from lingua_sdk.domain.errors import ErrorCode
from lingua_sdk.domain.losses import Loss
from lingua_sdk.protocol.shapes import ErrorMessage

# How often a node is listened to when it says that it lacks a service.
COMPLAINT_RULES = ComplaintRules(debounce_ms=5_000, window_ms=10_000, most=30)
# How long after a node was written again an order for it may still be from before that.
IN_DOUBT_S = 30.0
# The node sends nothing, but may still be running its jobs.
VANISHED = (Loss.NODE_SILENT, Loss.NODE_GONE, Loss.INSTANCE_GONE)


class NodeLink:
    """A node whose socket this instance holds."""

    __slots__ = (
        "_clock",
        "_in_doubt_until_s",
        "alive_ms",
        "beaten_at_s",
        "belongs_to",
        "claimed_at_s",
        "complaints",
        "digest",
        "epoch",
        "hinted",
        "load",
        "look",
        "membership",
        "node_id",
        "owner",
        "pace",
        "peer",
        "place",
        "profile",
        "quarantined_until_ms",
        "queue",
        "run_max_s",
        "sent",
        "serves",
        "tells_interval",
        "trust",
        "written_profile",
        "written_queue",
    )

    def __init__(
        self,
        node_id: str,
        owner: Owner,
        peer: NodePeer,
        profile: Profile,
        alive_ms: int,
        pace: Pace,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._clock = clock
        self.node_id = node_id
        self.pace = pace
        self.place = Place()
        self.owner = owner
        self.peer = peer
        # Digest of the principal whose node it is, and when Redis was last told; empty if it needed no credential.
        self.belongs_to = peer.principal.owner_digest
        self.claimed_at_s = clock()
        self.profile = profile
        # The latest that Redis has taken. While it is another one, every beat is an update.
        self.written_profile: Profile | None = None
        self.alive_ms = alive_ms
        self.epoch = ""
        # When it registered; 0: it was not quarantined.
        self.quarantined_until_ms = 0
        self.belong(Membership())
        # Attempts handed to the socket and when, until the node has answered or disowned them; of a node that does not
        # tell what it runs no longer than a job may take.
        self.run_max_s = 60.0
        self.sent: dict[str, tuple[Attempt, float]] = {}
        self._in_doubt_until_s = 0.0
        self.complaints = ComplaintFilter(COMPLAINT_RULES)
        # What people see of it: of what it says and serves, how busy it is, and what was written of both.
        self.digest = ""
        self.load = MachineLoad()
        self.look = ""
        # Jobs that wait for its GPU, and the value in Redis; None: the value in Redis is unknown.
        self.queue = 0
        self.written_queue: int | None = None
        # When its last sign of life was written, and whether it said how often it gives one.
        self.beaten_at_s = self._clock()
        self.tells_interval = False
        # What it was last told about entries of its lists that are left out.
        self.hinted: str | None = None
        # What Redis believes of its slots, as of its last beat: to be written again should Redis lose it.
        self.trust = ""

    def hint(self, hint: str | None) -> None:
        """Tell the node what is left out of its lists; once, because it repeats them in every heartbeat."""
        if hint is not None and hint != self.hinted:
            self.peer.post(ErrorMessage(code=ErrorCode.INVALID_CAPABILITY_SCHEMA.value, message=hint))
        self.hinted = hint

    def doubt(self) -> None:
        """What it was sent is written to Redis again, which lost it; an order on its way is not part of that."""
        self._in_doubt_until_s = self._clock() + IN_DOUBT_S

    @property
    def is_in_doubt(self) -> bool:
        """Whether an order for it must still have its lease in Redis."""
        # Asked for every job, and hardly ever so.
        if not self._in_doubt_until_s:
            return False
        if self._clock() >= self._in_doubt_until_s:
            self._in_doubt_until_s = 0.0
        return bool(self._in_doubt_until_s)

    @property
    def is_silent(self) -> bool:
        """Its heartbeats have stopped for so long that a sweep removes it from Redis, though its socket is open."""
        return self._clock() - self.beaten_at_s > self.alive_ms / 1000

    def remember(self, attempt: Attempt) -> None:
        """An order leaves for the node."""
        if len(self.sent) > 4 * self.profile.max_jobs:
            self.forget_old()
        self.sent[attempt.job_id] = (attempt, self._clock())

    def forget(self, attempt: Attempt, reason: str) -> None:
        """The attempt is over for us. A node that vanished may be back, and still be at it."""
        if not self.profile.reports_jobs and reason not in VANISHED:
            self.sent.pop(attempt.job_id, None)

    def forget_old(self) -> None:
        """What a node that does not tell what it runs was sent so long ago counts as over."""
        if not self.profile.reports_jobs:
            oldest_s = self._clock() - self.run_max_s
            for job_id in [job_id for job_id, (_, sent_at) in self.sent.items() if sent_at < oldest_s]:
                del self.sent[job_id]

    def belong(self, membership: Membership) -> None:
        self.membership = membership
        # The pools of the pairs it serves, also of a wide node, which is in none of them. Asked after every job.
        self.serves: Collection[str] = membership.serves

    @property
    def pools(self) -> frozenset[str]:
        """The pools it is in."""
        return self.membership.pools

    @property
    def shard(self) -> int:
        return self.place.shard


class NodeLinks:
    """At most one connection of each node: the latest."""

    def __init__(self, instance: str) -> None:
        self.instance = instance
        self._links: dict[str, NodeLink] = {}

    def __len__(self) -> int:
        return len(self._links)

    def __contains__(self, node_id: str | None) -> bool:
        return node_id in self._links

    def find(self, node_id: str) -> NodeLink | None:
        return self._links.get(node_id)

    def all(self) -> list[NodeLink]:
        return list(self._links.values())

    def is_current(self, link: NodeLink) -> bool:
        """A node that was evicted must not write itself back through its closing socket."""
        return self._links.get(link.node_id) is link

    def add(self, link: NodeLink) -> None:
        self._links[link.node_id] = link
        metrics.NODES.set(len(self._links))

    def drop(self, link: NodeLink) -> bool:
        """False if the node has another connection by now, or none."""
        if not self.is_current(link):
            return False
        del self._links[link.node_id]
        metrics.NODES.set(len(self._links))
        return True

    def send_away(self, link: NodeLink) -> None:
        """Close the connection of a node that was evicted; what it says until it is closed brings it back nowhere."""
        self.drop(link)
        link.peer.close(CloseCode.COME_BACK, "the node was evicted by an operator; it may connect again")
