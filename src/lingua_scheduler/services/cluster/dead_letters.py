"""Instances and dead letters for operators: list, replay and purge, directly in Redis."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterable

from lingua_scheduler.clock import wall_ms
from lingua_scheduler.domain.cluster.instances import Instance, LetterId, ReplayOutcome
from lingua_scheduler.protocol.http_instances import (
    DeadLetterAbout,
    DeadLetterList,
    InstanceAbout,
    InstanceList,
    Replayed,
)
from lingua_scheduler.store.cluster.inbox import FIRST, DeadLetter, Depth, Limits
from lingua_scheduler.store.store import Store

PAGE = 100
# In the order of lists: those that need a look before those that were stopped in order.
_STATES = ("alive", "dead", "stopped")


async def list_instances(store: Store, dead_ms: int) -> InstanceList:
    everybody, told = await asyncio.gather(store.instances.known(), store.instances.shown())
    known = sorted(everybody.values())
    depths = await asyncio.gather(*(store.inboxes.depth(found.instance_id) for found in known))
    instances = [
        # Who leaves takes along what it told.
        _instance(found, depth, dead_ms, has_left=found.instance_id not in told)
        for found, depth in zip(known, depths, strict=True)
    ]
    return InstanceList(instances=sorted(instances, key=lambda one: _STATES.index(one.state)))


async def list_dead_letters(store: Store, most: int) -> DeadLetterList:
    known = sorted(await store.instances.known())
    depths = await asyncio.gather(*map(store.inboxes.depth, known))
    found: list[DeadLetter] = []
    for instance, depth in zip(known, depths, strict=True):
        if depth.dead and len(found) < most:
            found += await store.inboxes.dead_letters(instance, most - len(found))
    return DeadLetterList(total=sum(depth.dead for depth in depths), dead_letters=list(map(_letter, found)))


async def replay(store: Store, letter_ids: Iterable[str] | None, limits: Limits) -> Replayed:
    """Put dead letters back into their inboxes. None: all of them."""
    outcomes: Counter[ReplayOutcome] = Counter()
    async for instance, entry_ids in _chosen(store, letter_ids):
        outcomes.update(
            await asyncio.gather(*(store.inboxes.replay(instance, entry_id, limits) for entry_id in entry_ids))
        )
    return Replayed(
        replayed=outcomes[ReplayOutcome.REPLAYED],
        full=outcomes[ReplayOutcome.FULL],
        gone=outcomes[ReplayOutcome.GONE],
        bare=outcomes[ReplayOutcome.BARE],
    )


async def purge(store: Store, letter_ids: Iterable[str] | None) -> int:
    """Delete dead letters permanently. Returns their number. None: all of them."""
    return sum([await store.inboxes.purge(instance, ids) async for instance, ids in _chosen(store, letter_ids)])


async def _chosen(store: Store, letter_ids: Iterable[str] | None) -> AsyncIterator[tuple[str, list[str]]]:
    """Page by page, and each letter once, even if it dies again meanwhile."""
    if letter_ids is not None:
        chosen: dict[str, list[str]] = {}
        for letter_id in letter_ids:
            instance, entry_id = LetterId.parse(letter_id)
            chosen.setdefault(instance, []).append(entry_id)
        for instance, entry_ids in chosen.items():
            yield instance, entry_ids
        return
    for instance in await store.instances.known():
        after = FIRST
        left = (await store.inboxes.depth(instance)).dead
        while left > 0:
            page = await store.inboxes.dead_letters(instance, min(PAGE, left), after)
            if not page:
                break
            left -= len(page)
            after = f"({page[-1].entry.entry_id}"
            yield instance, [letter.entry.entry_id for letter in page]


def _instance(found: Instance, depth: Depth, dead_ms: int, *, has_left: bool) -> InstanceAbout:
    is_alive = found.silent_ms < dead_ms
    return InstanceAbout(
        instance_id=found.instance_id,
        state="alive" if is_alive else "stopped" if has_left else "dead",
        host=found.host,
        pid=found.pid,
        version=found.version,
        address=found.address,
        uptime_ms=max(0, int(wall_ms()) - found.started_at_ms) if is_alive else 0,
        silent_ms=found.silent_ms,
        inbox_letters=depth.letters,
        inbox_pending=depth.pending,
        dead_letters=depth.dead,
    )


def _letter(dead: DeadLetter) -> DeadLetterAbout:
    return DeadLetterAbout(
        letter_id=dead.letter_id,
        instance_id=dead.instance,
        kind=dead.entry.kind,
        sender=dead.entry.sender,
        subject=dead.subject,
        body_bytes=dead.body_bytes,
        deliveries=dead.entry.deliveries,
        reason=dead.reason,
        buried_at_ms=dead.buried_at_ms,
    )
