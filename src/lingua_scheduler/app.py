"""The composition root: creates the parts of a scheduler, connects, starts and stops them; decides nothing."""

import asyncio
import socket
from collections.abc import Iterable
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from time import time
from typing import NamedTuple

from aiohttp import web

from lingua_scheduler.assembly.access import LIVE_S, SOON_S, access_parts, wall_clock_ms
from lingua_scheduler.assembly.core import Core
from lingua_scheduler.assembly.rooms import room_parts
from lingua_scheduler.clock import SYSTEM_CLOCK, Clock
from lingua_scheduler.configuration.data_dirs import catalogue_path
from lingua_scheduler.console.access import access_operations
from lingua_scheduler.console.alarms import alarm_operations
from lingua_scheduler.console.answers import behind, errors_as_json, stamp
from lingua_scheduler.console.assets import serve_shared
from lingua_scheduler.console.audit_log import AuditOperations
from lingua_scheduler.console.auditing import audited
from lingua_scheduler.console.bodies import BODIES, BODY_TIMEOUT_S, CHARGE, COME, Bodies
from lingua_scheduler.console.callbacks import Courier
from lingua_scheduler.console.compat.polling import Polling
from lingua_scheduler.console.cors import allow_pages
from lingua_scheduler.console.dashboard import add_dashboard
from lingua_scheduler.console.dispatching import dispatching
from lingua_scheduler.console.enrolment import EnrolmentOperations
from lingua_scheduler.console.fleet import FleetOperations
from lingua_scheduler.console.forwarded import Forwarder
from lingua_scheduler.console.http_nodes import NodeOperations
from lingua_scheduler.console.hub import Hub
from lingua_scheduler.console.instances import instance_operations
from lingua_scheduler.console.jobs import job_operations
from lingua_scheduler.console.keys import KeyOperations
from lingua_scheduler.console.logins import LoginOperations
from lingua_scheduler.console.needs import RouteNeeds
from lingua_scheduler.console.oidc import OidcPages
from lingua_scheduler.console.operations import OPERATIONS, Operation, add_operations
from lingua_scheduler.console.pages import Pages
from lingua_scheduler.console.pairing import pairing
from lingua_scheduler.console.rooms import room_operations
from lingua_scheduler.console.scaling import scaling_operations
from lingua_scheduler.console.siblings import Siblings
from lingua_scheduler.console.strict_transport import require_tls
from lingua_scheduler.console.talk import add_talk
from lingua_scheduler.console.tokens import token_operations
from lingua_scheduler.console.translating import translating
from lingua_scheduler.console.watching import Watching
from lingua_scheduler.domain.guards.addresses import AddressBook, read_networks
from lingua_scheduler.domain.guards.destinations import Destinations
from lingua_scheduler.domain.pools.pools import Admission
from lingua_scheduler.gateway.connections import charge
from lingua_scheduler.gateway.door import Door
from lingua_scheduler.gateway.fair_queue import FairQueue
from lingua_scheduler.gateway.node_socket import NodeSocket
from lingua_scheduler.gateway.peer_certificates import PeerCertificates
from lingua_scheduler.gateway.proxy_users import ProxyUsers
from lingua_scheduler.gateway.session_socket import SessionSocket
from lingua_scheduler.gateway.sites import Listening, Runner, listen
from lingua_scheduler.gateway.socket_pump import Sockets
from lingua_scheduler.gateway.tls_files import LOOK_S as TLS_FILES_S
from lingua_scheduler.gateway.tls_files import TlsFiles
from lingua_scheduler.gateway.tls_listener import Tls
from lingua_scheduler.protocol.sealing import Keyring
from lingua_scheduler.protocol.signals import (
    AskHolder,
    AttemptAdvanced,
    CancelJob,
    CredentialsChanged,
    DataLost,
    HolderSays,
    JobsWait,
    LoginEnded,
    MapPublished,
    PartialHeard,
    PoolsChanged,
    RequestWithdrawn,
    RoomEvent,
    SlotFreed,
)
from lingua_scheduler.services.access.audit_reading import AuditReader
from lingua_scheduler.services.access.auditing import start_note
from lingua_scheduler.services.access.first_keys import require_keys
from lingua_scheduler.services.access.key_desk import KeyDesk
from lingua_scheduler.services.access.node_certificates import NodeCertificates
from lingua_scheduler.services.access.oidc import OidcLogins, provider_of
from lingua_scheduler.services.attempts.assignments import Assignments
from lingua_scheduler.services.attempts.counts import Books
from lingua_scheduler.services.attempts.ending import Endings
from lingua_scheduler.services.attempts.failures import FailureLog
from lingua_scheduler.services.attempts.peers import CloseCode
from lingua_scheduler.services.attempts.tallies import NodeCounts
from lingua_scheduler.services.attempts.trails import Trails
from lingua_scheduler.services.cluster.forwarding import Forwarding
from lingua_scheduler.services.cluster.identity import this_process
from lingua_scheduler.services.cluster.leadership import Leadership
from lingua_scheduler.services.cluster.mailroom import Mailroom
from lingua_scheduler.services.cluster.pool_map import PoolMapCopy
from lingua_scheduler.services.cluster.presence import Presence
from lingua_scheduler.services.cluster.seals import Seals, announced, names_key
from lingua_scheduler.services.dispatch.audio_budget import AudioBudget
from lingua_scheduler.services.dispatch.cancelling import Cancelling
from lingua_scheduler.services.dispatch.chains import Chains
from lingua_scheduler.services.dispatch.direct_jobs import DirectJobs
from lingua_scheduler.services.dispatch.dispatcher import Dispatcher
from lingua_scheduler.services.dispatch.explaining import Explainer
from lingua_scheduler.services.dispatch.freed_slots import FreedSlots
from lingua_scheduler.services.dispatch.http_calls import Calls
from lingua_scheduler.services.dispatch.idempotency import IdempotentRequests
from lingua_scheduler.services.dispatch.languages import LanguageLookup
from lingua_scheduler.services.dispatch.lookup import Lookup
from lingua_scheduler.services.dispatch.nudging import ANNOUNCE_S, Nudger
from lingua_scheduler.services.dispatch.placing import Placer
from lingua_scheduler.services.dispatch.progress import Progress
from lingua_scheduler.services.dispatch.recording import Recorder
from lingua_scheduler.services.dispatch.relay import Relay
from lingua_scheduler.services.dispatch.routes import Routes
from lingua_scheduler.services.dispatch.running import AttemptRunner
from lingua_scheduler.services.dispatch.sound_files import SoundFiles
from lingua_scheduler.services.dispatch.staged import StagedJobs
from lingua_scheduler.services.dispatch.translating import FileTranslations
from lingua_scheduler.services.dispatch.waiting import WaitingRoom
from lingua_scheduler.services.nodes.complaints import Complaints
from lingua_scheduler.services.nodes.connected import connected_nodes
from lingua_scheduler.services.nodes.holders import Holders
from lingua_scheduler.services.nodes.http.nodes import HttpNodes
from lingua_scheduler.services.nodes.links import NodeLinks
from lingua_scheduler.services.nodes.model_hub import Catalogue
from lingua_scheduler.services.nodes.pairings import Pairings
from lingua_scheduler.services.nodes.quarantine_notices import QuarantineNotices
from lingua_scheduler.services.nodes.sweeper import Sweeper
from lingua_scheduler.services.recovery.data_loss import DataLoss
from lingua_scheduler.services.recovery.dead_instances import DeadInstances
from lingua_scheduler.services.recovery.outages import Outages
from lingua_scheduler.services.rooms.census import RoomCensus
from lingua_scheduler.services.sessions.delivery import Delivery
from lingua_scheduler.services.sessions.intake import Intake
from lingua_scheduler.services.sessions.opening import Openings
from lingua_scheduler.services.sessions.rebalancing import Rebalancer
from lingua_scheduler.services.sessions.revoking import Revoking
from lingua_scheduler.services.sessions.session_records import SessionRecords
from lingua_scheduler.services.sessions.sessions import Sessions
from lingua_scheduler.services.watching.alarm_handling import AlarmDesk
from lingua_scheduler.services.watching.chronicle import Chronicle
from lingua_scheduler.services.watching.detours import Detours
from lingua_scheduler.services.watching.instance_figures import Teller
from lingua_scheduler.services.watching.overview import Overview
from lingua_scheduler.services.watching.pair_gauges import PairGauges, show_verdict
from lingua_scheduler.services.watching.picture_builder import PictureMaker
from lingua_scheduler.services.watching.quarantine_gauge import QuarantineGauge
from lingua_scheduler.services.watching.scaling import ScalingDesk
from lingua_scheduler.services.watching.scaling_gauges import ScalingGauges
from lingua_scheduler.services.watching.snapshot import Snapshots
from lingua_scheduler.services.watching.views import Views
from lingua_scheduler.settings import Settings
from lingua_scheduler.store.cluster.signals import Handlers
from lingua_scheduler.store.connection import RedisAway
from lingua_scheduler.store.store import Store
from lingua_scheduler.telemetry import logs, metrics
from lingua_scheduler.telemetry.garbage import LOOK_EVERY_S, Tidier
from lingua_scheduler.telemetry.tasks import Nursery, every, watch_loop
from lingua_scheduler.telemetry.traces import Traces

_log = logs.get()

SWEEP_S = 1.0
POKE_S = 0.1
REPAIR_S = 30.0
SESSIONS_S = 1.0
STOCK_S = 1.0
LATE_S = 0.5
DATA_VERSION_S = 5.0
IDLE_S = 30.0
STORMS_S = 5.0
FAILURES_S = 0.5
COUNTS_S = 2.0
# A peer that connected just before we stopped accepting may still send its request.
LATECOMERS_S = 0.5


class Inherited(NamedTuple):
    """What a worker gets from its supervisor: its number, listening sockets, and the directory all workers share."""

    worker: int
    listeners: tuple[socket.socket, ...]
    run_dir: Path
    internal: tuple[socket.socket, ...] = ()


class Scheduler:
    """One scheduler instance, on an open store. `clock` is its event loop's.

    `keyring` encrypts its letters; without one they are sent in the clear. Raises AuditKeyError and OidcUnusable.
    """

    def __init__(
        self,
        settings: Settings,
        store: Store,
        clock: Clock = SYSTEM_CLOCK,
        inherited: Inherited | None = None,
        traces: Traces | None = None,
        keyring: Keyring | None = None,
    ) -> None:
        self._settings = settings
        self._store = store
        self._clock = clock
        self._chores = Nursery("chores")
        release = version("lingua-scheduler")
        worker = inherited.worker if inherited is not None else None
        me = this_process(settings.server.instance_id, release, announced(keyring), worker)
        self.instance = me.instance_id
        self.presence = Presence(me, store, settings.instances, clock)
        seals = Seals(self.presence, keyring, settings.privacy.seal_letters)
        self.mailroom = Mailroom(self.presence, store, settings, seals, clock)
        core = Core(settings, store, self.presence, self.mailroom, clock)
        self._forwarding = Forwarding(self.mailroom, self.presence, store.signals, clock)

        trails = Trails(traces, self.instance, clock) if traces is not None else None
        sessions = Sessions(
            settings.sessions,
            settings.delivery,
            settings.server.max_sessions,
            settings.server.max_remembered_bytes,
            clock,
        )
        sessions.names_key = names_key(keyring)
        self._failures = FailureLog(store.failures, settings.job.failures_max, settings.job.failures_keep_ms, clock)
        books = Books(settings.watch.slow_ms, self.instance, self._failures.add)
        delivery = Delivery(
            sessions, books, settings.sessions.ui_events == "steps", settings.delivery.silent_hold_ms, clock
        )
        delivery.shares_context = settings.privacy.share_context
        assignments = Assignments(delivery.step, clock)
        self._waiting = WaitingRoom(settings.dispatch.queue_max, settings.dispatch.queue_wait_ms / 1000, clock)
        self._leadership = Leadership(self.instance, store.pools, settings.pools.leader_ms)
        destinations = Destinations(read_networks(settings.server.allow_calls_to))
        access = self._access = access_parts(core, keyring, destinations, self._is_leading)
        self.auditor, self.credentials = access.auditor, access.credentials
        self._pool_map = PoolMapCopy(store.pools, self._leadership, self._say_changed, self._say_published, clock)
        self._pool_map.private_only = frozenset(settings.pools.private_only)
        endings = Endings(self.instance, store.jobs, assignments, settings.nodes)
        links = NodeLinks(self.instance)
        endings.on_freed = FreedSlots(links, self._waiting).freed
        endings.tell_node = QuarantineNotices(links).tell
        self._holders = Holders(links, self.presence, store.signals, settings.instances.beat_ms, clock)
        self._connected = connected_nodes(store, links, self._pool_map, endings, settings, self._holders, clock)
        self._relay = Relay(self.mailroom, store, links, endings, assignments, delivery.partial, trails, clock)
        endings.tell_lost = self._relay.tell_lost
        routes = Routes(self.instance, self._connected, self._relay, store.node_views, store.jobs)
        explainer = Explainer(store, self._pool_map, Admission(settings.pools.admission), clock)
        self._recorder = Recorder(self.instance, store, self._pool_map, explainer, settings.job.keep_ms, clock)
        placer = Placer(self.instance, store, self._pool_map, self._waiting, self._recorder, endings, settings, clock)
        runner = AttemptRunner(store.jobs, endings, routes, assignments, settings.job, clock)
        dispatcher = Dispatcher(store, placer, runner, self._recorder, settings, clock)
        self._dispatcher = dispatcher
        self._node_counts = NodeCounts(store.tallies)
        dispatcher.on_ended = self._node_counts.ended
        metrics.LEASES.set_function(assignments.__len__)
        self._cancelling = Cancelling(self.instance, store, assignments, self._waiting, settings.job.linger_ms)
        self._nudger = Nudger(self.instance, store.signals, self._waiting, clock)
        self._waiting.on_unclaimed = self._nudger.unclaimed
        requests = IdempotentRequests(self.instance, store, dispatcher, settings, self.presence.is_alive, clock)
        self._records = SessionRecords(
            me, store.sessions, seals, settings.sessions.grace_ms, self.presence.is_alive, clock
        )
        budget = AudioBudget(settings.sessions.max_audio_bytes, settings.server.max_audio_bytes)
        languages = LanguageLookup(self._pool_map, explainer)
        openings = Openings(sessions, self._records, budget, languages, settings.sessions.idle_ms)
        self._intake = Intake(openings, requests, delivery, settings, clock, trails)
        self._intake.direct = DirectJobs(dispatcher, placer, runner)
        chains = Chains(dispatcher, self._recorder, languages, settings, clock)
        self._intake.chains = openings.chains = requests.chains = chains
        self._staged = StagedJobs(chains, settings.rooms.shared_recognition)
        self._staged.direct = self._intake.direct
        self._calls = Calls(self.instance, store, requests, books, budget, languages, settings, trails, clock)
        self._translations = FileTranslations(
            self._calls, self._cancelling, SoundFiles(settings.calls, settings.sessions), clock
        )
        self._complaints = Complaints(store.services, settings.nodes.unavailable_ms, clock)
        progress = Progress(
            self.instance,
            store,
            endings,
            self._complaints,
            self._relay,
            assignments,
            delivery.partial,
            settings.job,
            clock,
        )
        patience_s = settings.nodes.heartbeat_interval_ms / 1000
        self.sweeper = Sweeper(
            store,
            self._connected,
            endings,
            patience_s,
            settings.job.timeout_max_ms / 1000,
            settings.job.linger_ms,
            clock,
        )
        self.sweeper.on_forsaken = self._failures.forsaken
        self._dead_instances = DeadInstances(self.presence, self.sweeper, endings)
        self._data_loss = DataLoss(self.instance, store.signals, self._connected.reassertion, self._records, endings)
        placer.recall, self.presence.on_lost = self._data_loss.recall, self._data_loss.restore
        self._outages = Outages(store, self.presence, self.sweeper, self._records, self._connected)
        placer.settled, self.sweeper.on_jump = self._outages.settled, self._outages.clock_jumped
        overview = Overview(self.instance, release, store, links, sessions, self._waiting, explainer, clock)
        teller = self._teller = Teller(
            me.incarnation, books, dispatcher, sessions, self._connected, self._waiting, languages
        )
        chronicle = Chronicle(store.chronicle, self._is_leading, clock)
        maker = PictureMaker(self.presence, store, settings, chronicle, teller.figures)
        maker.detours = Detours(lambda: self._pool_map.map, chains.rules).look
        self.snapshots = Snapshots(maker, settings.watch, chronicle, clock)
        self._outages.on_change = self.snapshots.build_soon
        self.snapshots.settled = self._outages.settled
        teller.is_watched = lambda: self.snapshots.is_watched
        self._rebalancer = Rebalancer(
            self.presence, store.instances, self._connected, sessions, settings.instances, clock
        )
        self._catalogue = Catalogue(settings.catalogue, catalogue_path(settings), Hub(destinations).fetch)
        self.snapshots.on_picture += (PairGauges(settings.watch.max_pairs).show, show_verdict)
        self.snapshots.on_picture.append(QuarantineGauge(clock).show)
        scaling = ScalingDesk(self.snapshots)
        self.snapshots.on_picture.append(ScalingGauges(scaling, settings.watch.max_pairs).show)
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
            self._connected, endings, self._courier.carry, destinations, self._addresses, settings, clock
        )

        turns = FairQueue(server.max_shared_loop_percent / 100)
        auth, doorkeeper = settings.auth, access.doorkeeper
        teller.expiring = access.expiring
        # Sockets are closed first: nothing is posted to them when their sessions and jobs end.
        self._revoking = Revoking(doorkeeper, openings, self._cancelling, settings.job.deadline_ms, clock)
        self.credentials.on_changed += (access.live.look_at_all, self._revoking.credentials_changed)
        self._sockets = Sockets(settings.server, turns, access.live)
        self.operations = list[Operation]()
        users = ProxyUsers(auth, self._addresses)
        self._door = Door(settings.server, self._addresses, doorkeeper, RouteNeeds(self.operations).of, users, clock)
        self._tls = TlsFiles(server, time) if server.tls_cert_file else None
        if server.tls_client_ca_file or server.client_cert_header:
            certificates = doorkeeper.certificates = NodeCertificates(self.credentials, server.tls_client_domain)
            self.credentials.on_changed.append(certificates.credentials_changed)
            self._door.certificates = PeerCertificates(server, self._addresses)
        self._node_socket = NodeSocket(self._door, self._sockets, self._connected, progress, settings)
        session_socket = SessionSocket(self._door, self._sockets, sessions, self._intake, settings.sessions)
        pairings = session_socket.pairings = Pairings(store, clock)
        rooms = self._rooms = room_parts(core, self._intake, delivery, self._staged)
        session_socket.rooms, teller.guessing = rooms.frames, rooms.entry.guessing
        teller.rooms = RoomCensus(self.instance, rooms.here, languages).figures
        app = web.Application(
            middlewares=[errors_as_json, behind(self._door)], client_max_size=settings.server.max_body_bytes
        )
        app[BODY_TIMEOUT_S] = settings.server.body_timeout_ms / 1000
        app[BODIES], app[CHARGE] = Bodies(settings.server.max_unfinished_bytes), charge
        app[COME] = turns.come
        app.on_response_prepare.append(stamp)
        if self._tls is not None:
            app.on_response_prepare.append(require_tls)
            teller.certificate = self._tls
        allow_pages(app, self._door.admits_page)
        app.router.add_get("/ws/session", session_socket.handle)
        app.router.add_get("/ws/node", self._node_socket.handle)
        self._is_worker = inherited is not None
        public, internal = (inherited.listeners, inherited.internal) if inherited else ((), ())
        self._places = [Listening(server.host, server.port, public)]
        if server.internal_port:
            self._places.append(Listening(server.internal_host, server.internal_port, internal, is_internal=True))
        self._siblings = Siblings(inherited.run_dir, inherited.worker, self.instance) if inherited else None
        app[OPERATIONS] = self.operations
        forwarder = Forwarder(self._forwarding, turns)

        def add(operations: Iterable[Operation]) -> None:
            add_operations(app, audited(operations, self.auditor))

        views = Views(self.snapshots)
        add(FleetOperations(overview, self._connected.departures, self._siblings).operations)
        add([pairing(pairings, overview)])
        add(EnrolmentOperations(access.enrolment, access.cluster).operations)
        add(NodeOperations(self._http_nodes, progress, forwarder, access.live).operations)
        add(dispatching(self._calls, settings.sessions.max_utterance_bytes, forwarder))
        add([translating(self._translations, settings.calls)])
        add(job_operations(Lookup(store, explainer), self._cancelling, views))
        add(instance_operations(store, settings))
        add(room_operations(rooms.overseer))
        provider = provider_of(auth.oidc)
        oidc = None if provider is None else OidcLogins(provider, access.logins, auth.oidc)
        add(LoginOperations(access.logins, doorkeeper, auth.login_ms, oidc.name if oidc else "").operations)
        OidcPages(oidc, access.logins, doorkeeper, self.auditor, self._door).add_to(app)
        add(access_operations(auth.mode))
        add(alarm_operations(AlarmDesk(store, self.snapshots, settings.pools), views))
        key_desk = KeyDesk(self.credentials, auth.max_token_ms, wall_clock_ms)
        add(KeyOperations(key_desk).operations)
        add(token_operations(access.signer, wall_clock_ms))
        add(AuditOperations(AuditReader(store.audit), wall_clock_ms).operations)
        watching = Watching(self.snapshots, views, access.live)
        add(watching.operations)
        add(scaling_operations(scaling))
        watching.add_to(app)
        add(Polling(self.snapshots, views, self._catalogue, lambda: store.is_ready).operations)
        Pages(store, self._intake, release, self._siblings).add_to(app)
        serve_shared(app)
        add_dashboard(app)
        add_talk(app)
        self._runner = Runner(app, self._addresses, turns, settings.server, access_log=None, shutdown_timeout=1.0)
        self.port = settings.server.port
        self._tidier = Tidier(lambda: self._intake.is_quiet and not (len(self._calls.jobs) or len(self._staged.jobs)))
        self._builder: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Serve. Raises OSError if the port is in use, StoreError if the data has another version, IdTaken, NoKeys,
        KeysFileError, TlsFilesError."""
        if self._tls is not None:
            self._tls.load()
        await self._store.claim_data()
        await self.credentials.open()
        auth, redis = self._settings.auth, self._settings.redis
        data_dir = "" if redis.url else redis.data_dir
        for place in self._places:
            require_keys(auth, place.host, has_none=self.credentials.is_empty, data_dir=data_dir)
        self._outages.watch()
        self._store.watch_writes()
        metrics.WORKERS.set(1)
        # Raises IdTaken while a namesake is alive; nothing else is claimed under our id before this.
        await self.mailroom.start()
        try:
            await self._leadership.stand()
            await self._pool_map.refresh()
            if self._siblings is not None:
                await self._siblings.open()
            await self._runner.setup()
            public, internal = await self._listen()
        except BaseException:
            await self.mailroom.stop()
            raise
        self._door.sides.listen_on([host for host, _ in public], [host for host, _ in internal])
        self._teller.is_unprotected = auth.mode == "off" and not self._door.sides.is_local
        self.port = public[0][1]
        await self.presence.join(self.address.removeprefix("http://"))
        if self._tls is not None:
            self._chores.start(every("tls_files", TLS_FILES_S, self._tls.look))
        self._chores.start(every("sweep", SWEEP_S, self.sweeper.sweep))
        # Three chances to renew it before it ends.
        self._chores.start(every("leadership", self._settings.pools.leader_ms / 4000, self._leadership.stand))
        self._chores.start(every("pool_map", self._settings.pools.refresh_ms / 1000, self._pool_map.refresh))
        self._chores.start(every("pool_map_soon", SOON_S, self._pool_map.refresh_if_outdated))
        for chore in (*self._access.chores(), *self._rooms.chores()):
            self._chores.start(chore)
        self._chores.start(every("revoking", LIVE_S, self._revoking.look))
        self._chores.start(every("repair", REPAIR_S, self.sweeper.repair))
        self._chores.start(every("sessions", SESSIONS_S, self._records.renew))
        self._chores.start(every("orphans", self._settings.instances.beat_ms / 1000, self._dead_instances.look))
        # Redis may lose its data while we run; a later instance must still find the data version.
        self._chores.start(every("data_version", DATA_VERSION_S, self._store.claim_data))
        self._chores.start(every("poke", POKE_S, self._poke))
        self._chores.start(every("failures", FAILURES_S, self._failures.write))
        self._chores.start(every("node_counts", COUNTS_S, self._node_counts.write))
        self._chores.start(every("results", SWEEP_S, self._calls.forget_old))
        self._chores.start(every("announce", ANNOUNCE_S, self._nudger.announce))
        self._chores.start(self._store.signals.listen(self._handlers(), self.instance))
        # Twice in the time a socket may be silent.
        self._chores.start(every("pings", self._settings.server.ping_interval_ms / 2000, self._sockets.ping))
        self._chores.start(every("stock", STOCK_S, self._connected.reassertion.take_stock))
        self._chores.start(
            every("vouch", self._settings.server.ping_interval_ms / 2000, self._connected.heartbeats.vouch)
        )
        self._chores.start(every("late_beats", LATE_S, self._connected.heartbeats.heed_late))
        self._chores.start(every("http_nodes", SWEEP_S, self._http_nodes.sweep))
        self._chores.start(every("idle_sessions", IDLE_S, self._intake.openings.close_idle))
        if rebalance_ms := self._settings.instances.rebalance_ms:
            self._chores.start(every("rebalance", rebalance_ms / 1000, self._rebalancer.look))
        self._builder = self._chores.start(self.snapshots.run())
        self._chores.start(self._catalogue.run())
        metrics.SNAPSHOT_AGE.set_function(lambda: self.snapshots.age_s)
        self._chores.start(watch_loop())
        self._chores.start(every("log_storms", STORMS_S, logs.tell_storms))
        self._tidier.start()
        self._chores.start(every("garbage", LOOK_EVERY_S, self._tidier.look))
        with suppress(RedisAway):
            await self.auditor.write(start_note(self.instance, version("lingua-scheduler"), self._settings))
        _log.info("scheduler.started", instance=self.instance, host=self._settings.server.host, port=self.port)

    async def stop(self) -> None:
        """Graceful stop: accept no more work, let running jobs finish, tell peers to reconnect."""
        _log.info("scheduler.stopping", jobs=self._intake.job_count + len(self._calls.jobs))
        if self._is_worker:
            await self._leave_the_port()
        if self._builder is not None:
            # Our figures must not be written again after we left.
            self._builder.cancel()
        self.snapshots.close()
        metrics.SNAPSHOT_AGE.set_function(float)  # 0: what is over does not age
        self._rebalancer.is_open = False
        self._node_socket.is_open = False
        self._http_nodes.is_open = False
        self._intake.stop_taking_work()
        self._calls.stop_taking_work()
        patience_s = self._settings.server.stop_timeout_ms / 1000
        settling = (self._intake.settle, self._calls.jobs.settle, self._staged.jobs.settle)
        unfinished = sum(await asyncio.gather(*(settle(patience_s) for settle in settling)))
        # Before their nodes are disconnected, or the jobs would be retried elsewhere and run twice.
        await asyncio.gather(self._intake.close_jobs(), self._calls.jobs.close(), self._staged.jobs.close())
        self._intake.say_goodbye()
        for link in self._connected.links.all():
            link.peer.close(CloseCode.COME_BACK, "the scheduler is restarting; connect again")
        await self._sockets.close()
        await self._runner.cleanup()
        await self._http_nodes.close()
        await self._courier.close()
        await self._access.key_sets.close()
        await self._complaints.close()
        await self._holders.close()
        await self._forwarding.close()
        await self._translations.close()
        await self._recorder.close()
        await self._dispatcher.leftovers.tasks.close()
        await self.mailroom.stop()
        await self._chores.close()
        await self._data_loss.tasks.close()
        await self._outages.tasks.close()
        await self._revoking.tasks.close()
        shared = (
            self.snapshots.building,
            self._pool_map.looking,
            self._connected.reassertion.recalling,
            self.presence.looking,
        )
        await asyncio.gather(*(one.close() for one in shared))
        self._tidier.stop()
        await self._rooms.close()
        await self._records.writes.settle(1.0)
        await self._records.writes.close()
        with suppress(RedisAway):
            await self._failures.write()
            await self._node_counts.write()
            await self._access.write_last()
        await self._leadership.resign()
        if self._siblings is not None:
            await self._siblings.close()
        _log.info("scheduler.stopped", unfinished_jobs=unfinished)

    async def _listen(self) -> list[list[tuple[str, int]]]:
        """The addresses and ports of the public listener and of the internal one."""
        handshake_s = self._settings.server.header_timeout_ms / 1000
        tls = Tls(self._tls.context, handshake_s) if self._tls is not None else None
        bound = [await listen(self._runner, place, None if place.is_internal else tls) for place in self._places]
        return bound + [[]] * (2 - len(self._places))

    @property
    def address(self) -> str:
        """Where it serves."""
        return f"{'http' if self._tls is None else 'https'}://{self._settings.server.host}:{self.port}"

    def reload_tls(self) -> None:
        """Load the certificate again now; whether that worked is in the log."""
        if self._tls is not None:
            self._chores.start(self._tls.look(is_asked=True))

    async def _leave_the_port(self) -> None:
        """Stop accepting; other workers do from now on. Connections that are open are still served for a moment."""
        for site in self._runner.sites:
            await site.stop()
        await asyncio.sleep(LATECOMERS_S)

    def _is_leading(self) -> bool:
        return self._leadership.is_leading

    def _say_changed(self) -> None:
        self._store.signals.publish(PoolsChanged(self.instance))

    def _say_published(self, version: int) -> None:
        self._store.signals.publish(MapPublished(self.instance, version))

    def _handlers(self) -> Handlers:
        return {
            DataLost: self._data_loss.heard,
            PoolsChanged: lambda _: self._pool_map.changed_elsewhere(),
            MapPublished: lambda signal: self._pool_map.published_elsewhere(signal.version),
            AttemptAdvanced: self._relay.advanced,
            PartialHeard: self._relay.heard,
            CancelJob: self._cancelling.heard,
            JobsWait: self._nudger.others_wait,
            SlotFreed: self._nudger.slot_freed,
            AskHolder: self._holders.asked,
            HolderSays: self._holders.answered,
            RequestWithdrawn: self._forwarding.withdrawn,
            RoomEvent: self._rooms.captions.arrived,
            CredentialsChanged: lambda signal: self.credentials.changed_elsewhere(signal.version),
            LoginEnded: lambda signal: self._access.logins.ended_elsewhere(signal.login_id),
        }

    async def _poke(self) -> None:
        self._waiting.poke()
