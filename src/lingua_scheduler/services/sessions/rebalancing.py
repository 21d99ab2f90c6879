"""Rebalancing: after restarts, sends a few idle nodes and quiet sessions to other instances at a time."""

from collections import Counter
from collections.abc import Iterable

import msgspec

from lingua_scheduler.clock import SYSTEM_CLOCK, Clock, wall_ms
from lingua_scheduler.domain.cluster.balance import Balancer
from lingua_scheduler.domain.watching.figures import Figures
from lingua_scheduler.services.attempts.peers import ClientPeer, CloseCode
from lingua_scheduler.services.cluster.presence import Presence
from lingua_scheduler.services.nodes.connected import ConnectedNodes
from lingua_scheduler.services.nodes.http.outbox import Mailbox
from lingua_scheduler.services.nodes.links import NodeLink
from lingua_scheduler.services.sessions.sessions import Session, Sessions
from lingua_scheduler.setting_sections.instances import InstancesSettings
from lingua_scheduler.store.cluster.instances import Instances
from lingua_scheduler.telemetry import logs
from lingua_sdk.domain.decoding import DECODE_ERRORS

_log = logs.get()

# Silence for this many intervals: what was said last has been delivered.
QUIET_LOOKS = 3
# Figures that are older say nothing about what goes on now.
FRESH_MS = 60_000
# Nodes that serve one pool and are sent away at once: a part of it, and never the last one.
PART_OF_POOL = 10
WHY = "there is room on another instance; connect again"

_FIGURES = msgspec.json.Decoder(Figures)


class Rebalancer:
    """One instance at a time, for all of them: `look` is called every `instances.rebalance_ms`."""

    def __init__(
        self,
        presence: Presence,
        instances: Instances,
        connected: ConnectedNodes,
        sessions: Sessions,
        settings: InstancesSettings,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._clock = clock
        self._presence = presence
        self._instances = instances
        self._connected = connected
        self._sessions = sessions
        self._turn_ms = settings.rebalance_ms
        self._nodes = Balancer(settings.rebalance_percent)
        self._clients = Balancer(settings.rebalance_percent)
        self.is_open = True

    async def look(self) -> None:
        living = await self._living()
        mine = living.pop(self._presence.instance, None)
        if mine is None or not living or not self.is_open:
            return
        others = list(living.values())
        nodes, sessions = [one.nodes for one in others], [one.sessions for one in others]
        my_nodes = len(self._connected.links)
        attached = [session for session in self._sessions.all if session.peer is not None]
        # While jobs wait for a slot, none is taken away.
        is_busy = any(one.jobs_waiting for one in (mine, *others))
        most_nodes = 0 if is_busy else self._nodes.look(my_nodes, nodes)
        most_clients = self._clients.look(len(attached), sessions)
        if not (most_nodes or most_clients):
            return
        # Instances take turns, so that a pool never loses nodes at several at once.
        if not await self._instances.take_turn(self._presence.instance, self._turn_ms):
            return
        moved_nodes = await self._send_nodes(most_nodes)
        moved_sessions = self._send_clients(attached, most_clients)
        if moved_nodes:
            self._nodes.sent(my_nodes, nodes)
        if moved_sessions:
            self._clients.sent(len(attached), sessions)
        if moved_nodes or moved_sessions:
            _log.info("instance.rebalanced", nodes=moved_nodes, sessions=moved_sessions)

    async def _living(self) -> dict[str, Figures]:
        """The figures of all live instances; empty when those of one are not known."""
        shown = await self._instances.shown()
        names = {found.instance_id for found in self._presence.living}
        if not names <= shown.keys():
            return {}
        try:
            found = {name: _FIGURES.decode(shown[name]) for name in names}
        except DECODE_ERRORS:
            return {}
        oldest_ms = int(wall_ms()) - FRESH_MS
        return found if all(one.at_ms > oldest_ms for one in found.values()) else {}

    async def _send_nodes(self, most: int) -> int:
        departures = self._connected.departures
        moved: Counter[str] = Counter()
        count = 0
        # The latest to come first: those that have been here for long stay.
        for link in reversed(self._connected.links.all()):
            if count >= most or not self.is_open:
                break
            if self._may_move(link, moved) and await departures.send_elsewhere(link, WHY):
                moved.update(link.pools)
                count += 1
        return count

    def _may_move(self, link: NodeLink, moved: Counter[str]) -> bool:
        """Not one over HTTP, which is not connected; not one that takes no work; not the last of a pool."""
        if isinstance(link.peer, Mailbox) or link.sent or not link.profile.takes_jobs:
            return False
        members_of = self._connected.departures.members_of
        return all(
            (members := members_of(pool)) > 1 and moved[pool] < max(1, members // PART_OF_POOL) for pool in link.pools
        )

    def _send_clients(self, attached: Iterable[Session], most: int) -> int:
        """Only those whose sessions are all quiet: a client may have several on one socket."""
        by_peer: dict[ClientPeer, list[Session]] = {}
        for session in attached:
            if session.peer is not None:
                by_peer.setdefault(session.peer, []).append(session)
        count, quiet_s = 0, QUIET_LOOKS * self._turn_ms / 1000
        for peer, sessions in by_peer.items():
            if count >= most:
                break
            if all(is_quiet(session, quiet_s, self._clock()) for session in sessions):
                peer.close(CloseCode.COME_BACK, WHY)
                count += len(sessions)
        return count


def is_quiet(session: Session, quiet_s: float, now_s: float) -> bool:
    """Whether its client loses nothing by connecting again: it knows how, no one speaks, and all was delivered."""
    conversation = session.conversation
    is_idle = not (conversation.under_way or conversation.is_speaking or conversation.held_bytes)
    is_delivered = not len(session.backlog) and not session.awaited
    is_silent = now_s - session.spoke_at_s > quiet_s
    return is_idle and is_delivered and is_silent and not session.is_gateway and not session.is_closed
