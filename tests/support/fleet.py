"""Nodes written straight into the store, and jobs placed on them."""

from typing import Any

from lingua_scheduler.domain.jobs.attempts import Attempt, DispatchOutcome
from lingua_scheduler.domain.jobs.history import JobStep
from lingua_scheduler.domain.nodes.nodes import Features, MachineLoad, NodeState
from lingua_scheduler.domain.nodes.owners import Owner
from lingua_scheduler.domain.pools.pools import Admission, Languages, membership_of
from lingua_scheduler.store.jobs.jobs import Dispatched, DispatchRules, JobOrder
from lingua_scheduler.store.nodes.fleet_columns import digest_of, look_of
from lingua_scheduler.store.nodes.nodes import NodeEntry, Registered
from lingua_scheduler.store.store import Store

HERE = Owner("i-here", "c1")
RULES = DispatchRules(sample=3, sample_k=20, ack_ms=5_000, keep_ms=3_600_000)
POOL = "en:zh:speech"
RUN_MS = 30_000


def entry(
    node_id: str,
    *,
    pools: frozenset[str] = frozenset({POOL}),
    max_jobs: int = 2,
    boot_id: str = "",
    acknowledges: bool = False,
    takes_jobs: bool = True,
    alive_ms: int = 45_000,
) -> NodeEntry:
    state = NodeState.READY if takes_jobs else NodeState.DRAINING
    node = NodeEntry(node_id, boot_id, Features(acknowledges), takes_jobs, max_jobs, alive_ms, pools, state, "")
    return saying(node, "{}")


def saying(node: NodeEntry, profile: str) -> NodeEntry:
    return node._replace(profile=profile, look=look_of(digest_of(node.pools, profile), node.alive_ms, MachineLoad()))


def wide_codes(count: int = 99) -> list[str]:
    """English and Chinese, and others enough for a node to be wide."""
    return ["en", "zh", *(f"x{a}{b}" for a in "abcdefghij" for b in "abcdefghijklmnopqrstuvwxyz")][:count]


def wide_languages(count: int = 99) -> Languages:
    codes = frozenset(wide_codes(count))
    return Languages(asr=codes, semantic=codes, tts=codes)


def wide_entry(node_id: str, languages: Languages | None = None, **more: Any) -> NodeEntry:
    membership = membership_of(languages or wide_languages(), Admission.STRICT)
    return entry(node_id, pools=membership.pools, **more)._replace(reach=membership.definition)


async def join(
    store: Store, node: NodeEntry, owner: Owner = HERE, shard: int = 0, over: Owner | None = None
) -> Registered:
    await store.placements.assign(node.node_id, 100, 1000)
    return await store.nodes.register(shard, owner, node, over)


def order(
    serial: str | int, *, attempt: int = 1, pools: tuple[str, ...] = (POOL,), run_ms: int = RUN_MS, **more: object
) -> JobOrder:
    return JobOrder(
        job_id=f"job-0-{serial}",
        attempt=attempt,
        pools=pools,
        session_id="s-00000001",
        utterance_index=0,
        owner="i-here",
        run_ms=run_ms,
        **more,  # type: ignore[arg-type]
    )


async def dispatch(store: Store, wanted: JobOrder, shard: int = 0) -> tuple[Attempt, Dispatched]:
    """Place a job that is expected to find a node."""
    placed = await store.jobs.dispatch(shard, wanted, RULES)
    assert placed.outcome is DispatchOutcome.DISPATCHED, placed
    return Attempt(wanted.job_id, wanted.attempt, placed.node_id, shard), placed


async def ledger(store: Store, node_id: str, shard: int = 0) -> tuple[int, int | None, int]:
    """Leases of a node, its free slots (None: it takes no work), and what `held` says."""
    keys = store.keys.shard(shard)
    leases = [name for name in await store.line.call("ZRANGE", keys.leases, 0, -1) if name.endswith(f"#{node_id}")]
    free = await store.line.call("ZSCORE", keys.free, node_id)
    held = await store.line.call("ZSCORE", keys.held, node_id)
    return len(leases), None if free is None else int(free), int(held or 0)


async def history(store: Store, job_id: str) -> list[JobStep]:
    """What a job went through, as far as its record tells."""
    record = await store.jobs.find(job_id)
    return list(record.history) if record else []
