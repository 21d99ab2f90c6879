"""The store with nothing above it, on a Redis of its own: what the scripts cost when nobody else is in the way."""

import asyncio
import itertools
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec

from lingua_scheduler.domain.jobs.attempts import Attempt, DispatchOutcome, EndOutcome
from lingua_scheduler.domain.jobs.job_ids import JobId
from lingua_scheduler.domain.jobs.jobs import JobEvent
from lingua_scheduler.domain.nodes.nodes import Features, NodeState
from lingua_scheduler.domain.nodes.owners import Owner
from lingua_scheduler.domain.pools.names import Facet, Pool
from lingua_scheduler.domain.pools.pools import Admission, Languages, membership_of
from lingua_scheduler.domain.pools.selection import PoolMap
from lingua_scheduler.services.attempts.assignments import Assignments
from lingua_scheduler.services.attempts.ending import Endings
from lingua_scheduler.services.attempts.meaning import Meaning
from lingua_scheduler.services.dispatch.placing import FIRST_SAMPLE
from lingua_scheduler.settings import Settings
from lingua_scheduler.store.jobs.jobs import Dispatched, DispatchRules, JobOrder
from lingua_scheduler.store.nodes.nodes import NodeEntry
from lingua_scheduler.store.servers.embedded import EmbeddedServer
from lingua_scheduler.store.store import Store
from lingua_sdk.domain.languages import Pair

KEY_PREFIX = "bench"
TIMEOUT_MS = 60_000
# Calls that leave in one write.
PIPELINE = 64
REGISTER_TOGETHER = 500
OWNER = Owner("i-bench", "c1")
FOUR_PAIRS = frozenset({Pair("zh", "en"), Pair("en", "zh"), Pair("zh", "ja"), Pair("en", "ja")})
SERVED = str(Pool("zh", "en", Facet.SPEECH))
NOT_SERVED = str(Pool("zh", "xx", Facet.SPEECH))


_FINISHED = Meaning(JobEvent.FINISH)


class Commands(NamedTuple):
    """What Redis says it did for scripts since it started."""

    scripts: int
    scripts_us: int


class BareStore:
    def __init__(self, server: EmbeddedServer, store: Store) -> None:
        assert server.pid is not None
        defaults = Settings()
        self.redis_pid = server.pid
        self.store = store
        self._pools = defaults.pools
        self._rules = DispatchRules(
            sample=FIRST_SAMPLE,
            sample_k=defaults.selection.sample_k,
            ack_ms=defaults.job.reservation_ttl_ms,
            keep_ms=defaults.job.keep_ms,
        )
        self._endings = Endings("bench", store.jobs, Assignments(lambda _step, _assignment: None), defaults.nodes)
        self._run_ms = defaults.job.timeout_base_ms
        self._serials = itertools.count(1)
        self._dice = random.Random(1)
        self._map = PoolMap({})
        self._nodes: list[tuple[str, int]] = []
        self._epochs: dict[str, str] = {}

    async def populate(self, count: int, slots: int) -> None:
        """Register nodes that serve four pairs each, the way the registry does."""
        for first in range(0, count, REGISTER_TOGETHER):
            numbers = range(first, min(first + REGISTER_TOGETHER, count))
            await asyncio.gather(*(self._register(f"node-{number:08X}", slots) for number in numbers))
        await self.read_map()

    async def read_map(self) -> None:
        self._map = await self.store.pools.build_map()

    async def dispatch(self, pool: str, count: int, sample: int = FIRST_SAMPLE) -> list[Attempt]:
        """Place jobs, all in one write; those that found a node among `sample` that were looked at."""
        orders = [self._order(pool) for _ in range(count)]
        rules = msgspec.structs.replace(self._rules, sample=sample)
        placed = await asyncio.gather(*(self.store.jobs.dispatch(shard, order, rules) for shard, order in orders))
        return [
            Attempt(order.job_id, 1, found.node_id, shard)
            for (shard, order), found in zip(orders, placed, strict=True)
            if found.outcome is DispatchOutcome.DISPATCHED
        ]

    async def dispatch_one(self, pool: str) -> tuple[Attempt, Dispatched]:
        shard, order = self._order(pool)
        placed = await self.store.jobs.dispatch(shard, order, self._rules)
        return Attempt(order.job_id, 1, placed.node_id, shard), placed

    async def end(self, attempts: Sequence[Attempt]) -> int:
        """End attempts as their nodes would, all in one write; how many ended."""
        ended = await asyncio.gather(
            *(self._endings.finish(attempt, self._epochs[attempt.node_id], _FINISHED) for attempt in attempts)
        )
        return sum(one.outcome is EndOutcome.ENDED for one in ended)

    async def beat(self, count: int) -> None:
        """Heartbeats that change nothing, of nodes chosen by chance."""
        beating = self._dice.choices(self._nodes, k=count)
        await asyncio.gather(*(self.store.nodes.beat(shard, OWNER, node, 60_000) for node, shard in beating))

    async def used_bytes(self) -> int:
        return await used_bytes_of(self.store)

    def _order(self, pool: str) -> tuple[int, JobOrder]:
        # A pool nobody serves has no shard; the script is asked all the same.
        first = self._map.first_shard(pool, self._dice.random())
        shard = first.shard if first is not None else 0
        number = next(self._serials)
        return shard, JobOrder(
            job_id=str(JobId(shard, f"{OWNER.instance}-{number:x}")),
            attempt=1,
            pools=(pool,),
            session_id="s-0123ABCD",
            utterance_index=number,
            owner=OWNER.instance,
            run_ms=self._run_ms,
        )

    async def _register(self, node_id: str, slots: int) -> None:
        nodes = self.store.nodes
        _, place = await self.store.placements.assign(node_id, self._pools.shard_size, self._pools.max_shards)
        languages = frozenset(pair.src for pair in FOUR_PAIRS)
        able = Languages(languages, languages, frozenset(pair.tgt for pair in FOUR_PAIRS), FOUR_PAIRS)
        # Without the echoes zh→zh and en→en, which the rule of admission adds.
        pools = frozenset(
            name for name in membership_of(able, Admission.STRICT).pools if Pool.parse(name).pair in FOUR_PAIRS
        )
        profile = {"version": "2.0.0", "platform": "linux", "services": ["bench-asr", "bench-nmt", "bench-tts"]}
        registered = await nodes.register(
            place.shard,
            OWNER,
            NodeEntry(
                node_id=node_id,
                boot_id="0123456789abcdef",
                features=Features(),
                takes_jobs=True,
                max_jobs=slots,
                alive_ms=3_600_000,
                pools=pools,
                state=NodeState.READY,
                profile=msgspec.json.encode(profile).decode(),
            ),
        )
        self._epochs[node_id] = registered.epoch
        self._nodes.append((node_id, place.shard))


@asynccontextmanager
async def bare_store(folder: Path) -> AsyncIterator[BareStore]:
    async with EmbeddedServer(folder) as server, open_store(server.url) as store:
        yield BareStore(server, store)


@asynccontextmanager
async def open_store(url: str) -> AsyncIterator[Store]:
    store = Store(url, key_prefix=KEY_PREFIX, timeout_ms=TIMEOUT_MS)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


async def commands_of(store: Store) -> Commands:
    """Asking costs Redis something: ask outside of what is measured."""
    stats = _info(await store.line.call("INFO", "commandstats"))
    fields = dict(part.split("=") for part in stats.get("cmdstat_evalsha", "calls=0,usec=0").split(","))
    return Commands(int(fields["calls"]), int(fields["usec"]))


async def used_bytes_of(store: Store) -> int:
    return int(_info(await store.line.call("INFO", "memory"))["used_memory"])


def _info(text: str) -> dict[str, str]:
    return dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
