"""Answers about the fleet: the nodes and pairs of the picture, read anew, in the shapes of HTTP."""

import asyncio
from collections.abc import Collection

import msgspec

from lingua_scheduler.clock import SYSTEM_CLOCK, Clock, wall_ms
from lingua_scheduler.domain.access.credentials import DEFAULT_TENANT
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
    PrivatePools,
    RedisAbout,
    Slots,
    Status,
    WidePool,
)
from lingua_scheduler.services.dispatch.explaining import Explainer
from lingua_scheduler.services.dispatch.waiting import WaitingRoom
from lingua_scheduler.services.nodes.links import NodeLinks
from lingua_scheduler.services.sessions.sessions import Sessions
from lingua_scheduler.services.watching.fleet import Fleet, FreshFleet, Member, fleet_of, read_member, served_pair
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

    async def nodes(self, tenant: str | None = None) -> list[NodeAbout]:
        members = (await self._fleet.read()).members
        return [_node(member) for _, member in sorted(members.items()) if _is_of(member, tenant)]

    async def is_unknown(self, node_id: str, tenant: str | None) -> bool:
        """Whether a caller of the tenant may not know of the node; one of all tenants (None) may know of every node."""
        return tenant is not None and not _is_of(await read_member(self._store, node_id), tenant)

    async def node(self, node_id: str, tenant: str | None = None) -> NodeDetail | None:
        """One node with what it holds; None when there is no such node, or it is not the tenant's.

        Of its jobs, a caller of one tenant is shown those of that tenant.
        """
        member = await read_member(self._store, node_id)
        if member is None or not _is_of(member, tenant):
            return None
        languages = member.said.languages
        jobs = await self.jobs_of(node_id, member.row.shard)
        tally = await self._store.tallies.read(member.row.shard, node_id, int(wall_ms()))
        shown = await self.shown_jobs([job.job_id for job in jobs] + [one.job_id for one in tally.errors], tenant)
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
            jobs=[job for job in jobs if job.job_id in shown],
            lately=lately_of(tally, shown),
        )

    async def shown_jobs(self, job_ids: Collection[str], tenant: str | None) -> Collection[str]:
        """Those of the tenant."""
        if tenant is None:
            return job_ids
        records = await asyncio.gather(*map(self._store.jobs.find, job_ids))
        return {record.job_id for record in records if record is not None and record.tenant == tenant}

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

    async def pools(self, tenant: str | None = None) -> PoolList:
        """Every pair with its nodes, as speech and as text. Instances are named to callers of all tenants alone."""
        fleet = await self._fleet.read()
        leader, published = await self._store.pools.leader(), await self._store.pools.published()
        tenants = {member.private_to for member in fleet.members.values() if member.is_for(tenant)} - {""}
        private = {name: await fleet_of(fleet.members, private_to=name) for name in sorted(tenants)}
        is_private_only = self._is_private_only(tenant)
        return PoolList(
            pairs={} if is_private_only else _pairs(fleet),
            wide=[] if is_private_only else _wide(fleet),
            private={name: PrivatePools(pairs=_pairs(own), wide=_wide(own)) for name, own in private.items()},
            tenant=DEFAULT_TENANT if tenant is None else tenant,
            leader=leader.instance if leader and tenant is None else None,
            version=published.version,
            generated_by=published.generated_by if tenant is None else "",
            generated_at_ms=published.generated_at_ms,
        )

    async def pool(self, src: str, tgt: str, tenant: str | None = None) -> PoolDetail:
        """The nodes that serve a pair; if there are none, what is missing. Those of other tenants are only counted."""
        fleet = await self._fleet.read()
        is_private_only = self._is_private_only(tenant)
        usable = {
            name: member
            for name, member in sorted(fleet.members.items())
            if member.is_for(tenant) and (member.private_to or not is_private_only)
        }
        src, tgt = served_pair(usable, src, tgt)
        # A node that speaks a pair also translates it.
        serving = [member for member in usable.values() if member.serves(src, tgt, Facet.TEXT)]
        members = [_pool_member(member, src, tgt) for member in serving[:MAX_MEMBERS] if _is_of(member, tenant)]
        counts = {
            Facet.SPEECH: sum(can_speak(one.look) and one.serves(src, tgt, Facet.SPEECH) for one in serving),
            Facet.TEXT: sum(can_write(one.look) for one in serving),
        }
        return PoolDetail(
            src=src,
            tgt=tgt,
            speech=counts[Facet.SPEECH],
            text=counts[Facet.TEXT],
            slots=sum(member.row.max_jobs for member in serving[:MAX_MEMBERS]),
            free=sum(member.row.free or 0 for member in serving[:MAX_MEMBERS]),
            nodes=members,
            missing={
                facet.value: await self._missing(src, tgt, facet, serving, tenant or "")
                for facet, nodes in counts.items()
                if not nodes
            },
        )

    def _is_private_only(self, tenant: str | None) -> bool:
        return tenant is not None and self._explainer.is_private_only(tenant)

    async def _missing(self, src: str, tgt: str, facet: Facet, serving: list[Member], tenant: str) -> str:
        idle = {member.look.state for member in serving if member.serves(src, tgt, facet)}
        if idle:
            return f"no node takes work for {src}→{tgt}: those that serve it are {' and '.join(sorted(idle))}"
        return await self._explainer.missing(str(Pool(src, tgt, facet)), tenant)


def _pairs(fleet: Fleet) -> dict[str, dict[str, int]]:
    pairs = {
        f"{pair.src}:{pair.tgt}": {
            facet.value: nodes for facet, nodes in ((Facet.SPEECH, pair.nodes), (Facet.TEXT, pair.text_nodes)) if nodes
        }
        for pair in fleet.pairs
    }
    return {pair: nodes for pair, nodes in pairs.items() if nodes}


def _wide(fleet: Fleet) -> list[WidePool]:
    return [
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
    ]


def _is_of(member: Member | None, tenant: str | None) -> bool:
    return tenant is None or (member is not None and member.said.tenant == tenant)


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
        private_to=member.private_to,
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
        private_to=member.private_to,
    )


def lately_of(tally: NodeTally, shown: Collection[str] | None = None) -> NodeLately:
    """`shown`: the jobs that the caller may know of; None: all."""
    return NodeLately(
        done=tally.done,
        failed=tally.failed,
        failed_percent=tally.failed_percent,
        mean_ms=tally.mean_ms,
        slowest_ms=tally.slowest_ms,
        real_time_factor=tally.real_time_factor,
        errors=[
            NodeErrorAbout(
                at_ms=one.at_ms, reason=one.reason, job_id=one.job_id if shown is None or one.job_id in shown else ""
            )
            for one in tally.errors
        ],
    )
