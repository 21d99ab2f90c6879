"""The parts of an instance that take part in a recovery, on a real store and without sockets."""

from lingua_scheduler.domain.sessions.terms import Terms
from lingua_scheduler.services.attempts.assignments import Assignments
from lingua_scheduler.services.attempts.ending import Endings
from lingua_scheduler.services.cluster.leadership import Leadership
from lingua_scheduler.services.cluster.pool_map import PoolMapCopy
from lingua_scheduler.services.cluster.presence import Presence
from lingua_scheduler.services.cluster.seals import Seals
from lingua_scheduler.services.nodes.connected import connected_nodes
from lingua_scheduler.services.nodes.links import NodeLinks
from lingua_scheduler.services.nodes.sweeper import Sweeper
from lingua_scheduler.services.sessions.session_records import SessionRecords
from lingua_scheduler.services.sessions.sessions import Session, Sessions
from lingua_scheduler.store.store import Store
from lingua_sdk.protocol.session import SessionInit
from tests.support.mail import who
from tests.support.schedulers import settings_with

TALK = SessionInit(client_version="x", platform="web", src_lang="en", tgt_lang="zh")


class Parts:
    """Of the instance `i-here`, which waits 5 s for silent nodes and 6 s for silent instances."""

    def __init__(self, store: Store) -> None:
        settings = settings_with(instances__dead_ms=6_000)
        self.assignments = Assignments(lambda _step, _assignment: None)
        self.endings = Endings("i-here", store.jobs, self.assignments, settings.nodes)
        pool_map = PoolMapCopy(store.pools, Leadership("i-here", store.pools, 1_000))
        self.connected = connected_nodes(store, NodeLinks("i-here"), pool_map, self.endings, settings)
        self.presence = Presence(who("i-here"), store, settings.instances)
        self.sweeper = Sweeper(store, self.connected, self.endings, 5.0, 5.0, 1_000)
        seals = Seals(self.presence)
        self.records = SessionRecords(self.presence.me, store.sessions, seals, 30_000, self.presence.is_alive)
        self._sessions = Sessions(settings.sessions, settings.delivery, 10)

    async def session(self) -> Session:
        """Open, and in Redis."""
        session = self._sessions.make(TALK, Terms("en", "zh"), self.records.owner())
        assert await self.records.open(session, TALK)
        self.records.hold(session, lambda _: None)
        return session
