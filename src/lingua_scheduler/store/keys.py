"""All Redis key names and what they contain. Keys used by one script share one hash tag."""

import hashlib
import re
from typing import NamedTuple

from lingua_scheduler.domain.access.credentials import DEFAULT_TENANT


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


ROOM_KEYS = ("facts", "members", "joined", "holders", "wishes", "guests")
# What its scripts about speech use besides.
ROOM_SAID = "said"
LIVE_ROOM_KEYS = ("listed", "opened", "named")


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
        self._tally = f"{base}:tally:"

    def node(self, node_id: str) -> str:
        return self._node + node_id

    def pool(self, name: str) -> str:
        return self._pool + name

    def job(self, job_id: str) -> str:
        return self._job + job_id

    def complaints(self, node_id: str) -> str:
        return self._complaints + node_id

    def tally(self, node_id: str) -> str:
        return self._tally + node_id


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
        self.turn = f"{prefix}:{{instances}}:turn"
        self.leader = f"{prefix}:{{pools}}:leader"
        self.leader_epochs = f"{prefix}:{{pools}}:epochs"
        self.map_config = f"{prefix}:{{pools}}:config"
        self.failures = f"{prefix}:{{watch}}:failures"
        self.events = f"{prefix}:{{watch}}:events"
        self.moments = f"{prefix}:{{watch}}:moments"
        self.memory = f"{prefix}:{{watch}}:memory"
        self.asked = f"{prefix}:{{pools}}:asked"
        self.missed = f"{prefix}:{{pools}}:missed"
        self.signals = f"{prefix}:signals"
        self.version = f"{prefix}:{{meta}}:version"
        self.alarms = f"{prefix}:{{meta}}:alarms"
        self.live_rooms = {part: f"{prefix}:{{rooms}}:{part}" for part in LIVE_ROOM_KEYS}
        self.credentials = f"{prefix}:{{auth}}:keys"
        self.issuers = f"{prefix}:{{auth}}:issuers"
        self.revocations = f"{prefix}:{{auth}}:void"
        self.credentials_version = f"{prefix}:{{auth}}:revision"
        self.key_uses = f"{prefix}:{{auth}}:used"
        self.audit_log = f"{prefix}:{{audit}}:log"
        self.audit_head = f"{prefix}:{{audit}}:head"

    def family_of(self, key: str) -> "KeyFamily | None":
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

    def login(self, digest: str) -> str:
        return f"{self._prefix}:{{auth}}:login:{digest}"

    def login_flow(self, digest: str) -> str:
        return f"{self._prefix}:{{auth}}:flow:{digest}"

    def login_code(self, digest: str) -> str:
        return f"{self._prefix}:{{auth}}:code:{digest}"

    def pairing(self, digest: str) -> str:
        return f"{self._prefix}:{{auth}}:pair:{digest}"

    def mail(self, instance: str, stream: str) -> str:
        """A stream of an instance: its `inbox`, or what it could not handle, `dead`."""
        return f"{self._prefix}:{{instance:{instance}}}:{stream}"

    def inbox(self, instance: str) -> str:
        return f"{self._prefix}:{{instance:{instance}}}:inbox"

    def dead_letters(self, instance: str) -> str:
        return f"{self._prefix}:{{instance:{instance}}}:dead"

    def adopter(self, instance: str) -> str:
        return f"{self._prefix}:{{instance:{instance}}}:adopter"

    def affinity(self, key: str, tenant: str = "") -> str:
        """A caller's key may be anything, so its digest stands for it. No key of one tenant is another's: those of the
        default tenant have a digest of another length."""
        if tenant in ("", DEFAULT_TENANT):
            digest = hashlib.sha1(key.encode(), usedforsecurity=False).hexdigest()
        else:
            digest = hashlib.sha256(f"{tenant}/{key}".encode()).hexdigest()
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

    def stay(self, session_id: str) -> str:
        return f"{self._prefix}:{{session:{session_id}}}:stay"

    def room_of(self, name: str) -> dict[str, str]:
        """The keys of a room, as scripts name them."""
        base = f"{self._prefix}:{{room:{name}}}"
        return {part: f"{base}:{part}" for part in ROOM_KEYS}

    def room_said(self, name: str) -> dict[str, str]:
        base = f"{self._prefix}:{{room:{name}}}"
        return {part: f"{base}:{part}" for part in ("facts", "members", ROOM_SAID)}

    def guesses(self, tenant: str) -> str:
        return f"{self._prefix}:{{rooms:{tenant}}}:guesses"

    def past(self, node_id: str) -> str:
        """Of a node that left."""
        return f"{self._prefix}:{{node:{node_id}}}:past"

    def node_claim(self, node_id: str) -> str:
        return f"{self._prefix}:{{node:{node_id}}}:claim"

    def shard(self, number: int) -> ShardKeys:
        keys = self._shards.get(number)
        if keys is None:
            keys = self._shards[number] = ShardKeys(self._prefix, number)
        return keys


# Part of the names of what was set aside.
ASIDE = "unreadable"

TABLE = (
    KeyDoc("…:{s7}:node:<id>", "hash", "profile of a node: its capabilities, pools and state"),
    KeyDoc("…:{s7}:pool:<src>:<tgt>:<facet>", "set", "ids of the nodes that serve the pair, with speech or text only"),
    KeyDoc(
        "…:{s7}:pool:<src>:<tgt>:<facet>@<tenant>", "set", "ids of the nodes that do so and are private to the tenant"
    ),
    KeyDoc(
        "…:{s7}:pool:*:<digest>:text", "set", "ids of the wide nodes (more than 256 pairs) that serve the same pairs"
    ),
    KeyDoc("…:{s7}:wide", "hash", "wide pool → the languages of its nodes as JSON; removed with its last member"),
    KeyDoc("…:{s7}:seen", "zset", "node → time until which it counts as alive (ms, Redis's clock)"),
    KeyDoc("…:{s7}:free", "zset", "node → free slots; only nodes that accept jobs"),
    KeyDoc("…:{s7}:held", "zset", "node → live leases"),
    KeyDoc("…:{s7}:limits", "hash", "node → slots it may use: what it announces, limited by what it has earned"),
    KeyDoc(
        "…:{s7}:trust",
        "hash",
        "node → slots it has earned, successful jobs since they last grew, slots it announces; only nodes that "
        "announce "
        "more than a new node is given",
    ),
    KeyDoc(
        "…:{node:<id>}:past",
        "string",
        "of a node that left: earned slots, quarantine, last outcomes, drain; restored when it reconnects; expires",
    ),
    KeyDoc(
        "…:{node:<id>}:claim",
        "string",
        "digest and tenant of the principal a node id belongs to, if it has a credential; expires a day after it left",
    ),
    KeyDoc(
        "…:{s7}:owners", "hash", "node → epoch, instance, connection, announced features: 1 if it acknowledges jobs"
    ),
    KeyDoc("…:{s7}:queues", "hash", "node → reported length of its GPU queue; only nodes that have one"),
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
        "a line with state, attempt, node, session, owner …, then a line for each of its last transitions; never "
        "audio or text",
    ),
    KeyDoc(
        "…:{s7}:complaints:<node>",
        "zset",
        "digest of the service and version a node reported as missing → when (ms); expires",
    ),
    KeyDoc("…:{s7}:tally:<node>", "hash", "five minutes → attempts done and failed, times; its last errors; expires"),
    KeyDoc("…:{s7}:recent", "stream", "the latest jobs of the shard: job, session; bounded"),
    KeyDoc(
        "…:{s7}:looks",
        "hash",
        "node → state, digest of what it says and serves, how long a sign of life lasts (ms), "
        "percent of CPU, memory and GPU in use; used by monitoring only",
    ),
    KeyDoc("…:{s7}:pairs", "hash", "pool → number of nodes, the shard's summary for the pool map"),
    KeyDoc("…:{shards}:placement", "hash", "node → shard"),
    KeyDoc("…:{shards}:load", "zset", "shard → nodes placed in it"),
    KeyDoc("…:{shards}:room", "zset", "shards with room, by number"),
    KeyDoc("…:{instances}:alive", "zset", "instance → its last heartbeat (ms, Redis's clock)"),
    KeyDoc("…:{instances}:about", "hash", "instance → incarnation of its process, and host, pid, version … as JSON"),
    KeyDoc("…:{instances}:turn", "string", "the instance that last sent peers to others; expires when the next may"),
    KeyDoc("…:{instances}:figures", "hash", "instance → its figures (sessions, jobs, latencies) as JSON; no text"),
    KeyDoc(
        "…:{instance:<id>}:inbox",
        "stream",
        "letters to an instance; contains speech, encrypted if all instances have the cluster key",
    ),
    KeyDoc(
        "…:{instance:<id>}:dead",
        "stream",
        "letters that could not be handled, with the reason, without speech and text; bounded",
    ),
    KeyDoc(
        "…:{instance:<id>}:adopter",
        "hash",
        "which instance adopted a dead instance's inbox, in which epoch, until when",
    ),
    KeyDoc("…:{pools}:leader", "string", "the leader and its epoch (leader election); expires unless renewed"),
    KeyDoc("…:{pools}:epochs", "string", "number of leaders so far, which is the latest epoch (fencing token)"),
    KeyDoc(
        "…:{pools}:config",
        "hash",
        "the published pool map, the languages of its wide pools, its version, when and by whom it was built",
    ),
    KeyDoc("…:{watch}:failures", "stream", "failed jobs of the fleet: ids, pair, code, reason, node; no text; bounded"),
    KeyDoc("…:{watch}:events", "stream", "events of the fleet, written by the leader as JSON; bounded"),
    KeyDoc("…:{watch}:moments", "stream", "points of the dashboard's curves, written by the leader as JSON; bounded"),
    KeyDoc("…:{watch}:memory", "string", "the leader's alarms, and what it remembers for them, as JSON; expires"),
    KeyDoc("…:{pools}:asked", "zset", "pool → when it was last asked for (ms, Redis's clock); a week, bounded"),
    KeyDoc("…:{pools}:missed", "zset", "the same of pools that no node has served when they were asked for; bounded"),
    KeyDoc(
        "…:{session:<id>}",
        "hash",
        "owner, digests of the resume token and of the principal it belongs to, what the client requested, the latest "
        "utterances as frame numbers; if it "
        "can be found by its id, a digest of its client's address and whether its socket is gone; if it was claimed "
        "and "
        "has ended, for a while, the owner `closed`; expires",
    ),
    KeyDoc(
        "…:{session:<id>}:parked",
        "list",
        "outcomes for a disconnected client, with text and speech, encrypted with its resume token, until it "
        "reconnects "
        "or the grace period ends",
    ),
    KeyDoc(
        "…:{session:<id>}:stay",
        "string",
        "of a session that is in a room: the room, the latest utterance before it came, and of a guest its wishes; "
        "found when it is resumed; expires",
    ),
    KeyDoc(
        "…:{room:<tenant>:<code>}:facts",
        "hash",
        "a room: its id, version, when a member last joined or spoke (ms, Redis's clock), whether it is locked; after "
        "its end, for a while, why it ended; expires",
    ),
    KeyDoc(
        "…:{room:<tenant>:<code>}:members",
        "hash",
        "session → name, languages and wishes of a member as JSON; expires with the room, as the following do",
    ),
    KeyDoc("…:{room:<tenant>:<code>}:joined", "zset", "session → when it joined (microseconds, Redis's clock)"),
    KeyDoc("…:{room:<tenant>:<code>}:holders", "hash", "session → the instance that has its socket, and its hold"),
    KeyDoc("…:{room:<tenant>:<code>}:wishes", "hash", "session → whose voice it wants to hear or not"),
    KeyDoc("…:{room:<tenant>:<code>}:said", "zset", "session and utterance → its number in the room; the latest 512"),
    KeyDoc(
        "…:{rooms}:listed",
        "zset",
        "id of a room → until when it is in the list of live rooms (ms, Redis's clock); renewed by the instances that "
        "have members of it; expires, as the following do",
    ),
    KeyDoc("…:{rooms}:opened", "zset", "id of a room → when it was opened (ms, Redis's clock)"),
    KeyDoc("…:{rooms}:named", "hash", "id of a room → its tenant and code"),
    KeyDoc(
        "…:{room:<tenant>:<code>}:guests",
        "hash",
        "instance and incarnation → how many guests it has, in all and of each language; who they are is not written",
    ),
    KeyDoc(
        "…:{rooms:<tenant>}:guesses",
        "hash",
        "digest of an address → wrong room codes that it named in this minute, and those of all; bounded; expires",
    ),
    KeyDoc("…:{meta}:version", "string", "version of the data; a release that does not support it refuses to start"),
    KeyDoc(
        "…:{meta}:alarms",
        "hash",
        "alarm → since when it is raised, when an instance last raised it, when it was acknowledged, silenced until, "
        "when it was forgotten (ms, Redis's clock), and who said so; bounded",
    ),
    KeyDoc(
        "…:{auth}:keys",
        "hash",
        "id → a key as JSON: kind, tenant, rights, end, digest of its secret (never the secret); bounded",
    ),
    KeyDoc(
        "…:{auth}:issuers", "hash", "id → an issuer of tokens as JSON: tenant, public key or URL of its keys; bounded"
    ),
    KeyDoc(
        "…:{auth}:void",
        "hash",
        "tenant, subject or token → what was issued before is void (ms), and until when to know it; bounded",
    ),
    KeyDoc(
        "…:{auth}:revision",
        "string",
        "version of keys, issuers and revocations: rises with every change, and is at least the time (ms, Redis's "
        "clock), so none is used twice",
    ),
    KeyDoc("…:{auth}:used", "hash", "id of a key → when it was last used (ms), written once a minute; bounded"),
    KeyDoc(
        "…:{audit}:log",
        "stream",
        "the audit log: who did what to what as JSON, each with a keyed hash over the one before; an entry's id is its "
        "number; no secrets, no speech, no text; bounded",
    ),
    KeyDoc("…:{audit}:head", "string", "number and hash of the last entry of the audit log"),
    KeyDoc(
        "…:{auth}:login:<digest>",
        "string",
        "a login to the dashboard, by the digest of its cookie, as JSON: its key or person, and its end; expires when "
        "unused",
    ),
    KeyDoc(
        "…:{auth}:flow:<digest>",
        "string",
        "a login that has begun at an identity provider, by the digest of its cookie; expires after 10 min",
    ),
    KeyDoc("…:{auth}:code:<digest>", "string", "a one-time login code, by its digest → its key; expires after 60 s"),
    KeyDoc(
        "…:{auth}:pair:<digest>",
        "string",
        "a pairing code, by its digest → tenant and private node; expires after 5 min",
    ),
    KeyDoc("…:{affinity:<digest>}", "string", "shard and node that last served an affinity key of a tenant; expires"),
    KeyDoc(
        "…:{request:<digest>}",
        "hash",
        "idempotency key: of a request id within its tenant and session the claim token and instance, a digest of the "
        "request, the lease, and later its job, node, attempt and the secret to fetch the result with; expires",
    ),
    KeyDoc(
        "…:{…}:unreadable:<name>",
        "any",
        "a key that had the wrong type, moved aside so that service continues; expires after a day",
    ),
    KeyDoc("…:signals", "channel", "Pub/Sub: messages between instances that may be lost; nothing is stored"),
)


class KeyFamily(NamedTuple):
    """Keys of one kind."""

    name: str
    type: str
    # Of their names without the prefix.
    pattern: re.Pattern[str]


def _family(doc: KeyDoc) -> KeyFamily:
    """From its entry in the table, so that no key is without one."""
    shape = doc.pattern.removeprefix("…:")
    words = re.findall(r"[a-z]+", re.sub(r"<[^>]*>", "", shape.removeprefix("{s7}")))
    name = words[0] if shape.startswith("{s7}") else words[-1]
    pattern = re.escape(shape).replace(re.escape("{s7}"), r"\{s\d{1,4}\}").replace("…", r"[^}]+")
    # What stands within braces has none itself; anything else may be anything.
    pattern = re.sub(r"(\\\{[a-z]+:)<[^>]*>", r"\1[^}]+", pattern)
    return KeyFamily(name, doc.type, re.compile(re.sub(r"<[^>]*>", ".+", pattern), re.DOTALL))


FAMILIES = tuple(_family(doc) for doc in TABLE if doc.type != "channel")
