"""Answers about the fleet: the nodes and pairs of the picture, read anew, in the shapes of HTTP."""

import msgspec

from lingua_scheduler.clock import SYSTEM_CLOCK, Clock, wall_ms
from lingua_scheduler.domain.jobs.jobs import ENDED
from lingua_scheduler.domain.pools.names import Facet, Pool
from lingua_scheduler.domain.watching.pairs import can_speak, can_write
from lingua_scheduler.domain.watching.tallies import NodeTally
from lingua_scheduler.protocol.http import (
    LeaseAbout,
    NodeAbout,
    NodeDetail,
    NodeErrorAbout,
    NodeLanguages,
    NodeLately,
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
from lingua_scheduler.services.nodes.links import NodeLinks
from lingua_scheduler.services.sessions.sessions import Sessions
from lingua_scheduler.services.watching.fleet import FreshFleet, Member, read_member, served_pair
from lingua_scheduler.store.store import Store
from lingua_scheduler.telemetry import metrics

MAX_MEMBERS = 1000


class Overview:
    def __init__(
        self,
        instance: str,
        version: str,
        store: Store,
        links: NodeLinks,
        sessions: Sessions,
        waiting: WaitingRoom,
        explainer: Explainer,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._clock = clock
        self._instance = instance
        self._version = version
        self._store = store
        self._links = links
        self._sessions = sessions
        self._waiting = waiting
        self._explainer = explainer
        self._fleet = FreshFleet(store)
        self._started_at = self._clock()

    async def status(self) -> Status:
        """This instance, and the fleet."""
        nodes = await self.nodes()
        return Status(
            instance_id=self._instance,
            version=self._version,
            uptime_seconds=round(self._clock() - self._started_at, 1),
            redis=RedisAbout(version=self._store.version, url=self._store.url, ready=self._store.is_ready),
            sessions=len(self._sessions),
            nodes_connected=len(self._links),
            jobs_waiting=len(self._waiting),
            jobs_ended={state.value: _ended(state.value) for state in ENDED},
            slots=Slots(total=sum(node.max_jobs for node in nodes), taken=sum(node.held for node in nodes)),
            nodes=nodes,
            workers=[],
        )

    async def nodes(self) -> list[NodeAbout]:
        members = (await self._fleet.read()).members
        return [_node(member) for _, member in sorted(members.items())]

    async def node(self, node_id: str) -> NodeDetail | None:
        """One node with what it holds; None when there is no such node."""
        member = await read_member(self._store, node_id)
        if member is None:
            return None
        languages = member.said.languages
        return NodeDetail(
            **msgspec.structs.asdict(_node(member)),
            instance_id=member.row.owner.owner.instance,
            acknowledges=member.row.owner.features.acknowledges,
            languages=NodeLanguages(
                asr=sorted(languages.asr),
                semantic=sorted(languages.semantic),
                tts=sorted(languages.tts),
                translations=None if languages.translations is None else sorted(map(str, languages.translations)),
            ),
            jobs=await self.jobs_of(node_id, member.row.shard),
            lately=lately_of(await self._store.tallies.read(member.row.shard, node_id, int(wall_ms()))),
        )

    async def jobs_of(self, node_id: str, shard: int) -> list[LeaseAbout]:
        return [
            LeaseAbout(
                job_id=lease.attempt.job_id,
                attempt_id=lease.attempt.number,
                state=lease.state,
                deadline_ms=lease.deadline_ms,
            )
            for lease in await self._store.ledger.leases(node_id, shard)
        ]

    async def pools(self) -> PoolList:
        """Every pair with its nodes, as speech and as text."""
        fleet = await self._fleet.read()
        leader, published = await self._store.pools.leader(), await self._store.pools.published()
        pairs = {
            f"{pair.src}:{pair.tgt}": {
                facet.value: nodes
                for facet, nodes in ((Facet.SPEECH, pair.nodes), (Facet.TEXT, pair.text_nodes))
                if nodes
            }
            for pair in fleet.pairs
        }
        return PoolList(
            pairs={pair: nodes for pair, nodes in pairs.items() if nodes},
            wide=[
                WidePool(
                    name=wide.name,
                    sources=wide.sources,
                    text=wide.text,
                    speech=wide.speech,
                    translations=wide.translations,
                    nodes=wide.text_nodes,
                )
                for wide in fleet.wide
                if wide.text_nodes
            ],
            leader=leader.instance if leader else None,
            version=published.version,
            generated_by=published.generated_by,
            generated_at_ms=published.generated_at_ms,
        )

    async def pool(self, src: str, tgt: str) -> PoolDetail:
        """The nodes that serve a pair; if there are none, what is missing."""
        fleet = await self._fleet.read()
        src, tgt = served_pair(fleet.members, src, tgt)
        # A node that speaks a pair also translates it.
        serving = [member for _, member in sorted(fleet.members.items()) if member.serves(src, tgt, Facet.TEXT)]
        members = [_pool_member(member, src, tgt) for member in serving[:MAX_MEMBERS]]
        counts = {
            Facet.SPEECH: sum(can_speak(one.look) and one.serves(src, tgt, Facet.SPEECH) for one in serving),
            Facet.TEXT: sum(can_write(one.look) for one in serving),
        }
        return PoolDetail(
            src=src,
            tgt=tgt,
            speech=counts[Facet.SPEECH],
            text=counts[Facet.TEXT],
            slots=sum(member.max_jobs for member in members),
            free=sum(member.free or 0 for member in members),
            nodes=members,
            missing={
                facet.value: await self._missing(src, tgt, facet, serving)
                for facet, nodes in counts.items()
                if not nodes
            },
        )

    async def _missing(self, src: str, tgt: str, facet: Facet, serving: list[Member]) -> str:
        idle = {member.look.state for member in serving if member.serves(src, tgt, facet)}
        if idle:
            return f"no node takes work for {src}→{tgt}: those that serve it are {' and '.join(sorted(idle))}"
        return await self._explainer.missing(str(Pool(src, tgt, facet)))


def _ended(state: str) -> int:
    return int(metrics.REGISTRY.get_sample_value("lingua_jobs_ended_total", {"state": state}) or 0)


def _node(member: Member) -> NodeAbout:
    row, said = member.row, member.said
    now_ms = int(wall_ms())
    return NodeAbout(
        node_id=row.node_id,
        state=row.state,
        shard=row.shard,
        max_jobs=row.max_jobs,
        held=row.held,
        free=row.free,
        alive_until_ms=row.alive_until_ms,
        quarantined_for_ms=member.quarantined_for_ms(now_ms),
        unavailable_for_ms=member.unavailable_for_ms(now_ms),
        pairs=member.pairs,
        wide_pairs=member.wide_pairs,
        version=said.version,
        platform=said.platform,
        services=said.services,
        level=member.look.level,
    )


def _pool_member(member: Member, src: str, tgt: str) -> PoolMember:
    row = member.row
    return PoolMember(
        node_id=row.node_id,
        state=row.state,
        speech=member.serves(src, tgt, Facet.SPEECH),
        max_jobs=row.max_jobs,
        held=row.held,
        free=row.free,
    )


def lately_of(tally: NodeTally) -> NodeLately:
    return NodeLately(
        done=tally.done,
        failed=tally.failed,
        failed_percent=tally.failed_percent,
        mean_ms=tally.mean_ms,
        slowest_ms=tally.slowest_ms,
        real_time_factor=tally.real_time_factor,
        errors=[NodeErrorAbout(at_ms=one.at_ms, reason=one.reason, job_id=one.job_id) for one in tally.errors],
    )
