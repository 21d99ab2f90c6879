"""Wires the scheduler together; decides nothing."""

import asyncio
import os
import secrets
import socket
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from time import monotonic
from typing import NamedTuple

from aiohttp import web

from lingua_scheduler.console.answers import behind, errors_as_json, stamp
from lingua_scheduler.console.bodies import BODIES, BODY_TIMEOUT_S, CHARGE, Bodies
from lingua_scheduler.console.callbacks import Courier
from lingua_scheduler.console.dashboard import add_dashboard
from lingua_scheduler.console.dispatching import dispatching
from lingua_scheduler.console.fleet import FleetOperations
from lingua_scheduler.console.hub import Hub
from lingua_scheduler.console.instances import instance_operations
from lingua_scheduler.console.jobs import job_operations
from lingua_scheduler.console.nodes import NodeOperations
from lingua_scheduler.console.operations import OPERATIONS, Operation, add_operations
from lingua_scheduler.console.pages import Pages
from lingua_scheduler.console.polling import Polling
from lingua_scheduler.console.siblings import Siblings
from lingua_scheduler.console.talk import add_talk
from lingua_scheduler.console.watching import Watching
from lingua_scheduler.domain.cluster.instances import MAX_ID_LENGTH, made_up_id
from lingua_scheduler.domain.guards.addresses import AddressBook, read_networks
from lingua_scheduler.domain.guards.destinations import Destinations
from lingua_scheduler.domain.pools.pools import Admission
from lingua_scheduler.gateway.connections import Runner, charge
from lingua_scheduler.gateway.door import Door
from lingua_scheduler.gateway.node_socket import NodeSocket
from lingua_scheduler.gateway.session_socket import SessionSocket
from lingua_scheduler.gateway.sockets import Sockets
from lingua_scheduler.protocol.sealing import Keyring
from lingua_scheduler.protocol.signals import (
    AskHolder,
    AttemptAdvanced,
    CancelJob,
    DataLost,
    HolderSays,
    JobsWait,
    MapPublished,
    PartialHeard,
    PoolsChanged,
    SlotFreed,
)
from lingua_scheduler.services.attempts.assignments import Assignments
from lingua_scheduler.services.attempts.counts import Books
from lingua_scheduler.services.attempts.judging import Judge
from lingua_scheduler.services.attempts.peers import CloseCode
from lingua_scheduler.services.attempts.recovery import Recovery
from lingua_scheduler.services.attempts.trails import Trails
from lingua_scheduler.services.cluster.leadership import Leadership
from lingua_scheduler.services.cluster.mailroom import Mailroom
from lingua_scheduler.services.cluster.pool_map import PoolMapCopy
from lingua_scheduler.services.cluster.presence import Presence
from lingua_scheduler.services.cluster.seals import Seals, announced
from lingua_scheduler.services.dispatch.audio_budget import AudioBudget
from lingua_scheduler.services.dispatch.cancelling import Cancelling
from lingua_scheduler.services.dispatch.dispatcher import Dispatcher
from lingua_scheduler.services.dispatch.explaining import Explainer
from lingua_scheduler.services.dispatch.http_calls import Calls
from lingua_scheduler.services.dispatch.idempotency import Requests
from lingua_scheduler.services.dispatch.lookup import Lookup
from lingua_scheduler.services.dispatch.nudging import ANNOUNCE_S, Nudger
from lingua_scheduler.services.dispatch.placing import Placer
from lingua_scheduler.services.dispatch.progress import Progress
from lingua_scheduler.services.dispatch.recording import Recorder
from lingua_scheduler.services.dispatch.relay import Relay
from lingua_scheduler.services.dispatch.routes import Routes
from lingua_scheduler.services.dispatch.waiting import WaitingRoom
from lingua_scheduler.services.nodes.complaints import Complaints
from lingua_scheduler.services.nodes.holders import Holders
from lingua_scheduler.services.nodes.http.nodes import HttpNodes
from lingua_scheduler.services.nodes.model_hub import Catalogue
from lingua_scheduler.services.nodes.registry import Registry
from lingua_scheduler.services.nodes.sweeper import Sweeper
from lingua_scheduler.services.sessions.delivery import Delivery
from lingua_scheduler.services.sessions.handover import Survival
from lingua_scheduler.services.sessions.intake import Intake
from lingua_scheduler.services.sessions.sessions import Sessions
from lingua_scheduler.services.watching.instance_figures import Teller
from lingua_scheduler.services.watching.overview import Overview
from lingua_scheduler.services.watching.pair_gauges import PairGauges
from lingua_scheduler.services.watching.picture_builder import PictureMaker
from lingua_scheduler.services.watching.snapshot import Snapshots
from lingua_scheduler.settings import Settings, catalogue_path
from lingua_scheduler.store.cluster.instances import Me
from lingua_scheduler.store.cluster.signals import Handlers
from lingua_scheduler.store.store import Store
from lingua_scheduler.telemetry import logs, metrics
from lingua_scheduler.telemetry.garbage import LOOK_EVERY_S, Tidier
from lingua_scheduler.telemetry.tasks import Nursery, every, watch_loop
from lingua_scheduler.telemetry.traces import Traces

_log = logs.get()

SWEEP_S = 1.0
SOON_S = 0.1
POKE_S = 0.1
REPAIR_S = 30.0
SESSIONS_S = 1.0
STOCK_S = 1.0
LATE_S = 0.5
DATA_VERSION_S = 5.0
IDLE_S = 30.0
STORMS_S = 5.0
BACKLOG = 1024
# Whoever connected just before we stopped to accept may still say what for.
LATECOMERS_S = 0.5


class Inherited(NamedTuple):
    """What a worker gets from its supervisor: a number, listening sockets, the folder it shares with the others."""

    worker: int
    listeners: tuple[socket.socket, ...]
    run_dir: Path


class Scheduler:
    """One instance, on a store that is open already. `clock` is that of its event loop.

    `keyring` seals its letters; without one they are not.
    """

    def __init__(
        self,
        settings: Settings,
        store: Store,
        clock: Callable[[], float] = monotonic,
        inherited: Inherited | None = None,
        traces: Traces | None = None,
        keyring: Keyring | None = None,
    ) -> None:
        self._settings = settings
        self._store = store
        self._chores = Nursery("chores")
        release = version("lingua-scheduler")
        given_id = settings.server.instance_id
        if inherited is not None and given_id != "auto":
            # Workers are instances of their own, and so is the one that takes a worker's place.
            given_id = f"{given_id}-{inherited.worker}-{os.getpid()}"[-MAX_ID_LENGTH:]
        me = whoami(given_id, release)._replace(seals=announced(keyring))
        self.instance = me.instance_id
        self.presence = Presence(me, store, settings.instances)
        seals = Seals(self.presence, keyring, settings.privacy.seal_letters)
        self.mailroom = Mailroom(self.presence, store, settings, seals)

        trails = Trails(traces, self.instance, clock) if traces is not None else None
        sessions = Sessions(
            settings.sessions,
            settings.delivery,
            settings.server.max_sessions,
            settings.server.max_remembered_bytes,
        )
        books = Books(settings.watch.slow_ms)
        delivery = Delivery(
            sessions, books, settings.sessions.ui_events == "steps", settings.delivery.silent_hold_ms, clock
        )
        assignments = Assignments(delivery.step)
        self._waiting = WaitingRoom(settings.dispatch.queue_max, settings.dispatch.queue_wait_ms / 1000)
        self._leadership = Leadership(self.instance, store.pools, settings.pools.leader_ms)
        self._pool_map = PoolMapCopy(store.pools, self._leadership, self._say_changed, self._say_published)
        recovery = Recovery(self.instance, store.jobs, assignments)
        self._registry = Registry(self.instance, store.nodes, self._pool_map, recovery, settings)
        self._holders = Holders(self._registry, self.presence, store.signals, settings.instances.beat_ms)
        self._registry.others = self._holders
        self._relay = Relay(self.mailroom, store, self._registry, recovery, assignments, delivery.partial, trails)
        recovery.tell_lost = self._relay.tell_lost
        routes = Routes(self.instance, self._registry, self._relay, store.nodes, self._waiting)
        explainer = Explainer(store, self._pool_map, Admission(settings.pools.admission))
        self._recorder = Recorder(self.instance, store, self._pool_map, explainer, settings.job.keep_ms)
        placer = Placer(self.instance, store, self._pool_map, self._waiting, self._recorder, settings)
        placer.recall = self._recall
        self._settled = placer.settled
        judge = Judge(store.jobs, settings.nodes)
        dispatcher = Dispatcher(
            store,
            judge,
            routes,
            placer,
            explainer,
            self._recorder,
            assignments,
            settings,
            clock,
        )
        self._dispatcher = dispatcher
        metrics.LEASES.set_function(assignments.__len__)
        self._cancelling = Cancelling(self.instance, store, assignments, self._waiting, settings.job.linger_ms)
        self._nudger = Nudger(self.instance, store.signals, self._waiting)
        self._waiting.on_unclaimed = self._nudger.unclaimed
        requests = Requests(self.instance, store, dispatcher, settings, self.presence.is_alive)
        self._survival = Survival(me, store.sessions, seals, settings.sessions.grace_ms, self.presence.is_alive)
        budget = AudioBudget(settings.sessions.max_audio_bytes, settings.server.max_audio_bytes)
        self._intake = Intake(sessions, requests, delivery, self._survival, budget, settings, clock, trails)
        self._calls = Calls(self.instance, store, requests, books, budget, settings, trails)
        self._complaints = Complaints(store.services, settings.nodes.unavailable_ms)
        progress = Progress(
            self.instance,
            store,
            judge,
            self._complaints,
            self._relay,
            assignments,
            self._waiting,
            delivery.partial,
            settings.job.timeout_max_ms,
        )
        patience_s = settings.nodes.heartbeat_interval_ms / 1000
        self.sweeper = Sweeper(
            store, self._registry, recovery, patience_s, settings.job.timeout_max_ms / 1000, settings.job.linger_ms
        )
        self.sweeper.on_jump = self._clock_jumped
        overview = Overview(self.instance, release, store, self._registry, sessions, self._waiting, explainer)
        teller = Teller(me.incarnation, books, dispatcher, sessions, self._registry, self._waiting)
        self.snapshots = Snapshots(PictureMaker(self.presence, store, settings, teller.figures), settings.watch, clock)
        destinations = Destinations(read_networks(settings.server.allow_calls_to))
        self._catalogue = Catalogue(settings.catalogue, catalogue_path(settings), Hub(destinations).fetch)
        self.snapshots.on_picture.append(PairGauges(settings.watch.max_pairs).show)
        self._courier = Courier(destinations)
        server = settings.server
        self._addresses = AddressBook(
            server.trusted_proxies,
            server.unmetered_addresses,
            server.max_sockets_per_address,
            server.handshakes_per_address_s,
            server.max_connection_cpu_percent / 100,
        )
        self._http_nodes = HttpNodes(
            self._registry, recovery, self._courier.carry, destinations, self._addresses, settings
        )

        self._sockets = Sockets(settings.server)
        self._door = Door(settings.server, self._addresses)
        self._node_socket = NodeSocket(self._door, self._sockets, self._registry, progress, settings)
        session_socket = SessionSocket(self._door, self._sockets, sessions, self._intake, settings.sessions)
        app = web.Application(
            middlewares=[errors_as_json, behind(self._door)], client_max_size=settings.server.max_body_bytes
        )
        app[BODY_TIMEOUT_S] = settings.server.body_timeout_ms / 1000
        app[BODIES], app[CHARGE] = Bodies(settings.server.max_unfinished_bytes), charge
        app.on_response_prepare.append(stamp)
        app.router.add_get("/ws/session", session_socket.handle)
        app.router.add_get("/ws/node", self._node_socket.handle)
        self._listeners = inherited.listeners if inherited else ()
        self._siblings = Siblings(inherited.run_dir, inherited.worker, self.instance) if inherited else None
        add_operations(app, FleetOperations(overview, self._registry, self._siblings).operations)
        add_operations(app, NodeOperations(self._http_nodes, progress).operations)
        add_operations(app, dispatching(self._calls, settings.sessions.max_utterance_bytes))
        add_operations(app, job_operations(Lookup(store, explainer), self._cancelling))
        add_operations(app, instance_operations(store, settings))
        watching = Watching(self.snapshots)
        add_operations(app, watching.operations)
        watching.add_to(app)
        add_operations(app, Polling(self.snapshots, self._catalogue, lambda: store.is_ready).operations)
        Pages(store, self._intake, release, self._siblings).add_to(app)
        add_dashboard(app)
        add_talk(app)
        self.operations: list[Operation] = app[OPERATIONS]
        self._runner = Runner(app, self._addresses, settings.server, access_log=None, shutdown_timeout=1.0)
        self.port = settings.server.port
        self._tidier = Tidier(lambda: self._intake.is_quiet and not len(self._calls.jobs))
        self._recovery = recovery
        self._dead_before: set[str] = set()
        self._builder: asyncio.Task[None] | None = None
        self._rewriting: asyncio.Task[None] | None = None
        # How often others were told of a loss; the look at what we hold after they told us, and whether to repeat it.
        self._losses_told = 0
        self._looking: asyncio.Task[None] | None = None
        self._must_look = False
        self.presence.on_lost = self._was_lost

    async def start(self) -> None:
        """Serve. Raises OSError when the port is taken, StoreError when the data is not for this release, IdTaken."""
        await self._store.claim_data()
        self._store.line.on_up = self._redis_up
        self._store.line.on_down = self._redis_down
        self._store.watch_writes()
        metrics.REDIS_UP.set(1)
        metrics.WORKERS.set(1)
        # Raises IdTaken while a namesake is alive; nothing else is claimed under our id before this.
        await self.mailroom.start()
        try:
            await self._leadership.stand()
            await self._pool_map.refresh()
            if self._siblings is not None:
                await self._siblings.open()
            await self._runner.setup()
            await self._listen()
        except BaseException:
            await self.mailroom.stop()
            raise
        self._door.listens_on([address[0] for address in self._runner.addresses])
        self.port = self._runner.addresses[0][1]
        await self.presence.join(f"{self._settings.server.host}:{self.port}")
        self._chores.start(every("sweep", SWEEP_S, self.sweeper.sweep))
        # Three chances to renew it before it ends.
        self._chores.start(every("leadership", self._settings.pools.leader_ms / 4000, self._leadership.stand))
        self._chores.start(every("pool_map", self._settings.pools.refresh_ms / 1000, self._pool_map.refresh))
        self._chores.start(every("pool_map_soon", SOON_S, self._pool_map.refresh_if_outdated))
        self._chores.start(every("repair", REPAIR_S, self.sweeper.repair))
        self._chores.start(every("sessions", SESSIONS_S, self._survival.renew))
        self._chores.start(every("orphans", self._settings.instances.beat_ms / 1000, self._look_for_orphans))
        # Redis may lose its data under us; whoever comes next must still know what is in it.
        self._chores.start(every("data_version", DATA_VERSION_S, self._store.claim_data))
        self._chores.start(every("poke", POKE_S, self._poke))
        self._chores.start(every("results", SWEEP_S, self._calls.forget_old))
        self._chores.start(every("announce", ANNOUNCE_S, self._nudger.announce))
        self._chores.start(self._store.signals.listen(self._handlers(), self.instance))
        # Twice in the time a socket may be silent.
        self._chores.start(every("pings", self._settings.server.ping_interval_ms / 2000, self._sockets.ping))
        self._chores.start(every("stock", STOCK_S, self._registry.take_stock))
        self._chores.start(every("vouch", self._settings.server.ping_interval_ms / 2000, self._registry.vouch))
        self._chores.start(every("late_beats", LATE_S, self._registry.heed_late))
        self._chores.start(every("http_nodes", SWEEP_S, self._http_nodes.sweep))
        self._chores.start(every("idle_sessions", IDLE_S, self._intake.close_idle))
        self._builder = self._chores.start(self.snapshots.run())
        self._chores.start(self._catalogue.run())
        metrics.SNAPSHOT_AGE.set_function(lambda: self.snapshots.age_s)
        self._chores.start(watch_loop())
        self._chores.start(every("log_storms", STORMS_S, logs.tell_storms))
        self._tidier.start()
        self._chores.start(every("garbage", LOOK_EVERY_S, self._tidier.look))
        _log.info("scheduler.started", instance=self.instance, host=self._settings.server.host, port=self.port)

    async def stop(self) -> None:
        """Take no more work, let running jobs finish, tell everybody to come back."""
        _log.info("scheduler.stopping", jobs=len(self._intake.jobs) + len(self._calls.jobs))
        if self._listeners:
            await self._leave_the_port()
        if self._builder is not None:
            # What it tells of us must not outlive our goodbye.
            self._builder.cancel()
        self.snapshots.close()
        metrics.SNAPSHOT_AGE.set_function(float)  # 0: what is over does not age
        self._node_socket.is_open = False
        self._http_nodes.is_open = False
        self._intake.stop_taking_work()
        self._calls.stop_taking_work()
        patience_s = self._settings.server.stop_timeout_ms / 1000
        nurseries = (self._intake.jobs, self._calls.jobs)
        unfinished = sum(await asyncio.gather(*(jobs.settle(patience_s) for jobs in nurseries)))
        # Before their nodes are sent away, or they would look for others, and be done here and elsewhere.
        await asyncio.gather(*(jobs.close() for jobs in nurseries))
        self._intake.say_goodbye()
        for link in self._registry.links:
            link.peer.close(CloseCode.COME_BACK, "the scheduler restarts; connect again")
        await self._sockets.close()
        await self._runner.cleanup()
        await self._http_nodes.close()
        await self._courier.close()
        await self._complaints.close()
        await self._holders.close()
        await self._recorder.close()
        await self._dispatcher.cleanups.close()
        await self.mailroom.stop()
        await self._chores.close()
        self._tidier.stop()
        await self._survival.writes.settle(1.0)
        await self._survival.writes.close()
        await self._leadership.resign()
        if self._siblings is not None:
            await self._siblings.close()
        _log.info("scheduler.stopped", unfinished_jobs=unfinished)

    async def _listen(self) -> None:
        for listener in self._listeners:
            await web.SockSite(self._runner, listener, backlog=BACKLOG).start()
        if not self._listeners:
            server = self._settings.server
            await web.TCPSite(self._runner, server.host, server.port, backlog=BACKLOG).start()

    async def _leave_the_port(self) -> None:
        """Others accept from now on; whoever is here already is still served for a moment."""
        for site in self._runner.sites:
            await site.stop()
        await asyncio.sleep(LATECOMERS_S)

    def _say_changed(self) -> None:
        self._store.signals.publish(PoolsChanged(self.instance))

    def _say_published(self, version: int) -> None:
        self._store.signals.publish(MapPublished(self.instance, version))

    def _handlers(self) -> Handlers:
        return {
            DataLost: self._data_lost,
            PoolsChanged: lambda _: self._pool_map.changed_elsewhere(),
            MapPublished: lambda signal: self._pool_map.published_elsewhere(signal.version),
            AttemptAdvanced: self._relay.advanced,
            PartialHeard: self._relay.heard,
            CancelJob: self._cancelling.heard,
            JobsWait: self._nudger.others_wait,
            SlotFreed: self._nudger.slot_freed,
            AskHolder: self._holders.asked,
            HolderSays: self._holders.answered,
        }

    async def _recall(self, pools: tuple[str, ...]) -> bool:
        told = self._losses_told
        found = await self._registry.recall(pools)
        if found and told == self._losses_told:
            # All who wait share one look, and the first of them tells.
            self._losses_told += 1
            self._store.signals.publish(DataLost(self.instance))
        return found

    def _data_lost(self, signal: DataLost) -> None:
        if signal.instance == self.instance:
            return
        self._must_look = True
        if self._looking is None or self._looking.done():
            self._looking = self._chores.start(self._look_after_losses())

    async def _look_after_losses(self) -> None:
        """Once more for all signals that came during the look."""
        while self._must_look:
            self._must_look = False
            await self._was_lost()

    async def _was_lost(self) -> None:
        """We counted as dead, or Redis lost its data: what we hold is written again, what we wait for looked at."""
        self._survival.doubt()
        await self._registry.reassert()
        await self._recovery.recheck()

    async def _look_for_orphans(self) -> None:
        dead = {found.instance_id for found in await self.presence.dead()} - {self.instance}
        await self.sweeper.remove_orphans(dead)
        await self.sweeper.close_forsaken(dead)
        # Not those who died or left only just now: their last letters may lie in our inbox.
        await self._recovery.recheck_held_by(dead & self._dead_before)
        self._dead_before = dead

    async def _poke(self) -> None:
        self._waiting.poke()

    def _redis_up(self) -> None:
        metrics.REDIS_UP.set(1)
        self._settled.clear()
        self.sweeper.suspend_judgement()
        self.presence.suspend_judgement()
        self._survival.doubt()
        _log.info("redis.up", version=self._store.version)
        self._chores.start(self._settle())

    def _clock_jumped(self, _jump_ms: float) -> None:
        """What is written of our nodes holds by the new time from now on."""
        self.presence.suspend_judgement()
        if self._rewriting is None or self._rewriting.done():
            # Every shard may notice it.
            self._rewriting = self._chores.start(self._registry.reassert())

    async def _settle(self) -> None:
        """What our nodes run comes into the ledger before they are given more."""
        try:
            await self._registry.reassert()
        finally:
            self._settled.set()

    def _redis_down(self, reason: str) -> None:
        metrics.REDIS_UP.set(0)
        _log.error("redis.down", reason=reason)


def whoami(given_id: str, release: str) -> Me:
    """This process as an instance; a given id stays the same over restarts, the incarnation never does."""
    host, pid = socket.gethostname(), os.getpid()
    instance = made_up_id(host, pid, secrets.token_hex(3)) if given_id == "auto" else given_id
    return Me(instance, secrets.token_hex(8), host, pid, release, int(time.time() * 1000))
