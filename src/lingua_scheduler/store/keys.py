"""Every key name, and what lives under it. Keys of one script share one hash tag."""

import hashlib
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
    "summary": "pairs",
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
        self.summary = self.named["summary"]
        self._node = f"{base}:node:"
        self._pool = f"{base}:pool:"
        self._job = f"{base}:job:"

    def node(self, node_id: str) -> str:
        return self._node + node_id

    def pool(self, name: str) -> str:
        return self._pool + name

    def job(self, job_id: str) -> str:
        return self._job + job_id


class Keys:
    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._shards: dict[int, ShardKeys] = {}
        self.placement = f"{prefix}:{{shards}}:placement"
        self.load = f"{prefix}:{{shards}}:load"
        self.room = f"{prefix}:{{shards}}:room"
        self.instances_alive = f"{prefix}:{{instances}}:alive"
        self.instances_about = f"{prefix}:{{instances}}:about"

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

    def shard(self, number: int) -> ShardKeys:
        keys = self._shards.get(number)
        if keys is None:
            keys = self._shards[number] = ShardKeys(self._prefix, number)
        return keys


TABLE = (
    KeyDoc("…:{s7}:node:<id>", "hash", "profile of a node: what it said of itself, its pools, its state"),
    KeyDoc("…:{s7}:pool:<src>:<tgt>:<facet>", "set", "ids of the nodes that serve the pair, as speech or as text"),
    KeyDoc("…:{s7}:seen", "zset", "node → the moment until which it counts as alive (ms, Redis's clock)"),
    KeyDoc("…:{s7}:free", "zset", "node → free slots; only nodes that take work"),
    KeyDoc("…:{s7}:held", "zset", "node → live leases"),
    KeyDoc("…:{s7}:limits", "hash", "node → slots it allows"),
    KeyDoc("…:{s7}:owners", "hash", "node → epoch, instance, connection, whether it acknowledges"),
    KeyDoc("…:{s7}:leases", "zset", "job#attempt#node → deadline (ms, Redis's clock)"),
    KeyDoc(
        "…:{s7}:job:<id>",
        "hash",
        "state, attempt, node, session, owner, times, reason; never audio, never text",
    ),
    KeyDoc("…:{s7}:pairs", "hash", "pool → number of nodes, the shard's summary for the pool map"),
    KeyDoc("…:{shards}:placement", "hash", "node → shard"),
    KeyDoc("…:{shards}:load", "zset", "shard → nodes placed in it"),
    KeyDoc("…:{shards}:room", "zset", "shards with room, by number"),
    KeyDoc("…:{instances}:alive", "zset", "instance → its last beat (ms, Redis's clock)"),
    KeyDoc("…:{instances}:about", "hash", "instance → incarnation of its process, and host, pid, version … as JSON"),
    KeyDoc("…:{instance:<id>}:inbox", "stream", "letters to an instance; the one place where speech passes through"),
    KeyDoc("…:{instance:<id>}:dead", "stream", "letters that could not be handled, with the reason; bounded"),
    KeyDoc("…:{instance:<id>}:adopter", "hash", "who looks after a dead instance's inbox, in which epoch, until when"),
    KeyDoc("…:{affinity:<digest>}", "string", "shard and node that served a caller's affinity key last; expires"),
)
