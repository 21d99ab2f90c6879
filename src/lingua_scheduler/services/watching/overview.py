"""What the scheduler looks like right now, for people and pages."""

import asyncio
import time

import msgspec

from lingua_scheduler.domain.jobs.jobs import ENDED
from lingua_scheduler.domain.nodes.nodes import Features
from lingua_scheduler.domain.pools.pools import Facet, Languages, pool_name
from lingua_scheduler.protocol.http import (
    LeaseAbout,
    NodeAbout,
    NodeDetail,
    NodeLanguages,
    PoolDetail,
    PoolList,
    PoolMember,
    RedisAbout,
    Slots,
    Status,
    WidePool,
)
from lingua_scheduler.services.dispatch.explaining import Explainer
from lingua_scheduler.services.dispatch.waiting import WaitingRoom
from lingua_scheduler.services.nodes.registry import Registry
from lingua_scheduler.services.sessions.sessions import Sessions
from lingua_scheduler.store.nodes.nodes import NodeView
from lingua_scheduler.store.store import Store
from lingua_scheduler.telemetry import metrics

MAX_MEMBERS = 1000


class Overview:
    def __init__(
        self,
        instance: str,
        version: str,
        store: Store,
        registry: Registry,
        sessions: Sessions,
        waiting: WaitingRoom,
        explainer: Explainer,
    ) -> None:
        self._instance = instance
        self._version = version
        self._store = store
        self._registry = registry
        self._sessions = sessions
        self._waiting = waiting
        self._explainer = explainer
        self._started_at = time.monotonic()

    async def status(self) -> Status:
        """This instance, and the fleet as Redis knows it."""
        nodes = await self.nodes()
        return Status(
            instance_id=self._instance,
            version=self._version,
            uptime_seconds=round(time.monotonic() - self._started_at, 1),
            redis=RedisAbout(version=self._store.version, url=self._store.url, ready=self._store.is_ready),
            sessions=len(self._sessions),
            nodes_connected=len(self._registry),
            jobs_waiting=len(self._waiting),
            jobs_ended={state.value: _ended(state.value) for state in ENDED},
            slots=Slots(total=sum(node.max_jobs for node in nodes), taken=sum(node.held for node in nodes)),
            nodes=nodes,
            workers=[],
        )

    async def nodes(self) -> list[NodeAbout]:
        return [_node(view) for view in await self._store.nodes.view()]

    async def node(self, node_id: str) -> NodeDetail | None:
        """One node with what it holds; None when there is no such node."""
        place = await self._store.nodes.place_of(node_id)
        view = None if place is None else await self._store.nodes.view_one(node_id, place.shard)
        if view is None:
            return None
        _, instance, _, features = view.owner.split(" ")
        languages = _SAID.decode(view.profile).languages
        return NodeDetail(
            **msgspec.structs.asdict(_node(view)),
            instance_id=instance,
            acknowledges=Features.parse(features).acknowledges,
            languages=NodeLanguages(
                asr=sorted(languages.asr),
                semantic=sorted(languages.semantic),
                tts=sorted(languages.tts),
                translations=None if languages.translations is None else sorted(map(str, languages.translations)),
            ),
            jobs=await self.jobs_of(node_id, view.shard),
        )

    async def jobs_of(self, node_id: str, shard: int) -> list[LeaseAbout]:
        return [
            LeaseAbout(
                job_id=lease.attempt.job_id,
                attempt_id=lease.attempt.number,
                state=lease.state,
                deadline_ms=lease.deadline_ms,
            )
            for lease in await self._store.nodes.leases(node_id, shard)
        ]

    async def pools(self) -> PoolList:
        """Every pair with its nodes, as speech and as text."""
        pairs: dict[str, dict[str, int]] = {}
        pool_map = await self._store.pools.build_map()
        for pool in pool_map.nodes:
            src, tgt, _ = pool.split(":")
            # Wide nodes may speak a pair that all others only write.
            for facet in Facet:
                if nodes := sum(pool_map.nodes_of(pool_name(src, tgt, facet)).values()):
                    pairs.setdefault(f"{src}:{tgt}", {})[facet] = nodes
        leader, published = await asyncio.gather(self._store.pools.leader(), self._store.pools.published())
        return PoolList(
            pairs=dict(sorted(pairs.items())),
            wide=[
                WidePool(
                    name=name,
                    sources=sorted(wide.reach.sources),
                    text=sorted(wide.reach.text),
                    speech=sorted(wide.reach.speech),
                    translations=wide.reach.by_source,
                    nodes=sum(wide.shards.values()),
                )
                for name, wide in pool_map.wide.items()
            ],
            leader=leader.instance if leader else None,
            version=published.version,
            generated_by=published.generated_by,
            generated_at_ms=published.generated_at_ms,
        )

    async def pool(self, src: str, tgt: str) -> PoolDetail:
        """Who serves a pair; and where nobody does, what is missing."""
        names = {facet: pool_name(src, tgt, facet) for facet in Facet}
        pool_map = await self._store.pools.build_map()
        counts = {facet: sum(pool_map.nodes_of(name).values()) for facet, name in names.items()}
        # Whoever speaks a pair translates it too, so the text pool has them all.
        placed = await self._store.pools.members(names[Facet.TEXT], pool_map, MAX_MEMBERS)
        members = [
            PoolMember(
                node_id=view.node_id,
                state=view.state,
                speech=names[Facet.SPEECH] in view.serves,
                max_jobs=view.max_jobs,
                held=view.held,
                free=view.free,
            )
            for view in await self._store.nodes.view_some(placed)
        ]
        return PoolDetail(
            src=src,
            tgt=tgt,
            speech=counts[Facet.SPEECH],
            text=counts[Facet.TEXT],
            slots=sum(member.max_jobs for member in members),
            free=sum(member.free or 0 for member in members),
            nodes=members,
            missing={
                facet.value: await self._explainer.missing(name) for facet, name in names.items() if not counts[facet]
            },
        )


class _Said(msgspec.Struct):
    """What is written of a node besides the columns."""

    version: str = ""
    platform: str = ""
    services: list[str] = []
    languages: Languages = Languages()


_SAID = msgspec.json.Decoder(_Said)


def _ended(state: str) -> int:
    return int(metrics.REGISTRY.get_sample_value("lingua_jobs_ended_total", {"state": state}) or 0)


def _node(view: NodeView) -> NodeAbout:
    said = _SAID.decode(view.profile)
    now_ms = int(time.time() * 1000)
    return NodeAbout(
        node_id=view.node_id,
        state=view.state,
        shard=view.shard,
        max_jobs=view.max_jobs,
        held=view.held,
        free=view.free,
        alive_until_ms=view.alive_until_ms,
        quarantined_for_ms=view.quarantined_for_ms(now_ms),
        unavailable_for_ms=view.unavailable_for_ms(now_ms),
        pairs=view.pairs,
        wide_pairs=view.wide_pairs,
        version=said.version,
        platform=said.platform,
        services=said.services,
    )
