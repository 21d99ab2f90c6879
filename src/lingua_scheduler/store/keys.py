"""Every key name, and what lives under it. Keys of one script share one hash tag."""

import hashlib
import re
from typing import NamedTuple


class KeyDoc(NamedTuple):
    pattern: str
    type: str
    holds: str


# Keys that every shard has once; scripts ask for them by these names.
SHARD_KEYS = {
    "seen": "seen",
    "free": "free",
    "held": "held",
    "limits": "limits",
    "owners": "owners",
    "leases": "leases",
    "trouble": "trouble",
    "sick": "sick",
    "summary": "pairs",
    "recent": "recent",
    "looks": "looks",
    "queues": "queues",
    "wide": "wide",
    "trust": "trust",
}


class ShardKeys:
    """The keys of one shard; names are built once because every dispatch needs them."""

    def __init__(self, prefix: str, number: int) -> None:
        base = f"{prefix}:{{s{number}}}"
        self.named = {name: f"{base}:{suffix}" for name, suffix in SHARD_KEYS.items()}
        self.seen = self.named["seen"]
        self.free = self.named["free"]
        self.held = self.named["held"]
        self.limits = self.named["limits"]
        self.owners = self.named["owners"]
        self.leases = self.named["leases"]
        self.trouble = self.named["trouble"]
        self.sick = self.named["sick"]
        self.summary = self.named["summary"]
        self.recent = self.named["recent"]
        self.looks = self.named["looks"]
        self.queues = self.named["queues"]
        self.wide = self.named["wide"]
        self.trust = self.named["trust"]
        self._node = f"{base}:node:"
        self._pool = f"{base}:pool:"
        self._job = f"{base}:record:"
        self._complaints = f"{base}:complaints:"

    def node(self, node_id: str) -> str:
        return self._node + node_id

    def pool(self, name: str) -> str:
        return self._pool + name

    def job(self, job_id: str) -> str:
        return self._job + job_id

    def complaints(self, node_id: str) -> str:
        return self._complaints + node_id


class Keys:
    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._shards: dict[int, ShardKeys] = {}
        self.placement = f"{prefix}:{{shards}}:placement"
        self.load = f"{prefix}:{{shards}}:load"
        self.room = f"{prefix}:{{shards}}:room"
        self.instances_alive = f"{prefix}:{{instances}}:alive"
        self.instances_about = f"{prefix}:{{instances}}:about"
        self.figures = f"{prefix}:{{instances}}:figures"
        self.leader = f"{prefix}:{{pools}}:leader"
        self.leader_epochs = f"{prefix}:{{pools}}:epochs"
        self.map_config = f"{prefix}:{{pools}}:config"
        self.signals = f"{prefix}:signals"
        self.version = f"{prefix}:{{meta}}:version"
        self.alive = f"{prefix}:{{instances}}:alive"

    def family_of(self, key: str) -> "Family | None":
        """What is kept under a key, by its name; None for what is none of ours."""
        start = f"{self._prefix}:"
        if not key.startswith(start):
            return None
        name = key[len(start) :]
        return next((family for family in FAMILIES if family.pattern.fullmatch(name)), None)

    def aside(self, key: str) -> str:
        """Where a key of another type than we keep there is put, in the same slot."""
        head, brace, tail = key.partition("}")
        return f"{head}{brace}:{ASIDE}{tail or ':value'}"

    @property
    def prefix(self) -> str:
        return self._prefix

    def mail(self, instance: str, stream: str) -> str:
        """A stream of an instance: its `inbox`, or what it could not handle, `dead`."""
        return f"{self._prefix}:{{instance:{instance}}}:{stream}"

    def inbox(self, instance: str) -> str:
        return f"{self._prefix}:{{instance:{instance}}}:inbox"

    def dead_letters(self, instance: str) -> str:
        return f"{self._prefix}:{{instance:{instance}}}:dead"

    def adopter(self, instance: str) -> str:
        return f"{self._prefix}:{{instance:{instance}}}:adopter"

    def affinity(self, key: str) -> str:
        """A caller's key may be anything, so its digest stands for it."""
        digest = hashlib.sha1(key.encode(), usedforsecurity=False).hexdigest()
        return f"{self._prefix}:{{affinity:{digest}}}"

    def request(self, tenant_id: str, session_id: str, request_id: str) -> str:
        """The parts may be anything too; their lengths keep ("a", "bc") and ("ab", "c") apart."""
        scope = "".join(f"{len(part)}:{part}" for part in (tenant_id, session_id, request_id))
        digest = hashlib.sha256(scope.encode()).hexdigest()
        return f"{self._prefix}:{{request:{digest}}}"

    def session(self, session_id: str) -> str:
        return f"{self._prefix}:{{session:{session_id}}}"

    def parked(self, session_id: str) -> str:
        return f"{self._prefix}:{{session:{session_id}}}:parked"

    def past(self, node_id: str) -> str:
        """Of a node that left."""
        return f"{self._prefix}:{{node:{node_id}}}:past"

    def shard(self, number: int) -> ShardKeys:
        keys = self._shards.get(number)
        if keys is None:
            keys = self._shards[number] = ShardKeys(self._prefix, number)
        return keys


# Part of the names of what was set aside.
ASIDE = "unreadable"

TABLE = (
    KeyDoc("…:{s7}:node:<id>", "hash", "profile of a node: what it said of itself, its pools, its state"),
    KeyDoc("…:{s7}:pool:<src>:<tgt>:<facet>", "set", "ids of the nodes that serve the pair, as speech or as text"),
    KeyDoc("…:{s7}:pool:*:<digest>:text", "set", "ids of the wide nodes that serve the same pairs, more than 256"),
    KeyDoc("…:{s7}:wide", "hash", "wide pool → the languages its nodes serve as JSON; goes with its last member"),
    KeyDoc("…:{s7}:seen", "zset", "node → the moment until which it counts as alive (ms, Redis's clock)"),
    KeyDoc("…:{s7}:free", "zset", "node → free slots; only nodes that take work"),
    KeyDoc("…:{s7}:held", "zset", "node → live leases"),
    KeyDoc("…:{s7}:limits", "hash", "node → slots it may use: what it claims, as far as it is believed"),
    KeyDoc(
        "…:{s7}:trust",
        "hash",
        "node → slots believed, good results since they grew, slots claimed; only nodes that claimed more than a new "
        "one is believed to have",
    ),
    KeyDoc(
        "…:{node:<id>}:past",
        "string",
        "of a node that left: slots believed, quarantined until, last outcomes; when it comes back they count; expires",
    ),
    KeyDoc("…:{s7}:owners", "hash", "node → epoch, instance, connection, what it announced: 1 if it acknowledges"),
    KeyDoc("…:{s7}:queues", "hash", "node → jobs that wait for its GPU, as it says; only nodes that have some"),
    KeyDoc("…:{s7}:leases", "zset", "job#attempt#node → deadline (ms, Redis's clock)"),
    KeyDoc(
        "…:{s7}:trouble",
        "hash",
        "node → last outcomes (`o` good, `x` bad), quarantines in a row, when the last began; only if it failed",
    ),
    KeyDoc("…:{s7}:sick", "zset", "`node` → quarantined until, `node service` → unavailable until (ms, Redis's clock)"),
    KeyDoc(
        "…:{s7}:record:<job id>",
        "string",
        "a line of state, attempt, node, session, owner …, then a line for each of its last moves; never audio or text",
    ),
    KeyDoc(
        "…:{s7}:complaints:<node>",
        "zset",
        "digest of the service and version a node said it lacks → when (ms); expires",
    ),
    KeyDoc("…:{s7}:recent", "stream", "the jobs that began in the shard lately: job, session; bounded"),
    KeyDoc(
        "…:{s7}:looks",
        "hash",
        "node → state, digest of what it says and serves, how long a sign of life lasts (ms), "
        "percent of CPU, memory and GPU in use; for people alone",
    ),
    KeyDoc("…:{s7}:pairs", "hash", "pool → number of nodes, the shard's summary for the pool map"),
    KeyDoc("…:{shards}:placement", "hash", "node → shard"),
    KeyDoc("…:{shards}:load", "zset", "shard → nodes placed in it"),
    KeyDoc("…:{shards}:room", "zset", "shards with room, by number"),
    KeyDoc("…:{instances}:alive", "zset", "instance → its last beat (ms, Redis's clock)"),
    KeyDoc("…:{instances}:about", "hash", "instance → incarnation of its process, and host, pid, version … as JSON"),
    KeyDoc("…:{instances}:figures", "hash", "instance → what it counts (sessions, jobs, latencies) as JSON; no text"),
    KeyDoc(
        "…:{instance:<id>}:inbox",
        "stream",
        "letters to an instance; speech passes through here, sealed if all instances have the cluster key",
    ),
    KeyDoc(
        "…:{instance:<id>}:dead",
        "stream",
        "letters that could not be handled, with the reason, without speech and text; bounded",
    ),
    KeyDoc("…:{instance:<id>}:adopter", "hash", "who looks after a dead instance's inbox, in which epoch, until when"),
    KeyDoc("…:{pools}:leader", "string", "the leading instance and its epoch; expires unless it is renewed"),
    KeyDoc("…:{pools}:epochs", "string", "how many leaders there were"),
    KeyDoc(
        "…:{pools}:config",
        "hash",
        "the published pool map, the languages of its wide pools, its version, when and by whom it was built",
    ),
    KeyDoc(
        "…:{session:<id>}",
        "hash",
        "owner, digest of the resume token, what the client asked for, the latest utterances as frame numbers; of one "
        "that is found by its id a digest of its client's address, and whether its socket is gone; of one that was "
        "claimed and is over, for a while, that it is (owner `closed`); expires",
    ),
    KeyDoc(
        "…:{session:<id>}:parked",
        "list",
        "outcomes on their way to a client that is away, sealed with its resume token, until it comes back or the "
        "grace period ends",
    ),
    KeyDoc("…:{meta}:version", "string", "version of all this; a release that does not know it refuses to start"),
    KeyDoc("…:{affinity:<digest>}", "string", "shard and node that served a caller's affinity key last; expires"),
    KeyDoc(
        "…:{request:<digest>}",
        "hash",
        "of a request id within its tenant and session: claim token and instance, digest of what is asked for, lease, "
        "and once it has one its job, node, attempt and the secret to fetch the result with; expires",
    ),
    KeyDoc(
        "…:{…}:unreadable:<name>",
        "any",
        "a key that held another type than we keep there, set aside so that service goes on; expires after a day",
    ),
    KeyDoc("…:signals", "channel", "losable messages between instances; nothing is stored"),
)


class Family(NamedTuple):
    """Keys of one kind."""

    name: str
    type: str
    # Of their names without the prefix.
    pattern: re.Pattern[str]


def _family(doc: KeyDoc) -> Family:
    """From its entry in the table, so that no key is without one."""
    shape = doc.pattern.removeprefix("…:")
    words = re.findall(r"[a-z]+", re.sub(r"<[^>]*>", "", shape.removeprefix("{s7}")))
    name = words[0] if shape.startswith("{s7}") else words[-1]
    pattern = re.escape(shape).replace(re.escape("{s7}"), r"\{s\d{1,4}\}").replace("…", r"[^}]+")
    # What stands within braces has none itself; anything else may be anything.
    pattern = re.sub(r"(\\\{[a-z]+:)<[^>]*>", r"\1[^}]+", pattern)
    return Family(name, doc.type, re.compile(re.sub(r"<[^>]*>", ".+", pattern), re.DOTALL))


FAMILIES = tuple(_family(doc) for doc in TABLE if doc.type != "channel")
