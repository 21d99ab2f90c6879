"""Collects the figures that this instance publishes for the others."""

from collections.abc import Callable, Iterable
from operator import itemgetter
from typing import Protocol

from lingua_scheduler.clock import wall_ms
from lingua_scheduler.domain.pools.lanes import Whose
from lingua_scheduler.domain.pools.names import Pool, tenant_of
from lingua_scheduler.domain.watching.figures import NAMED_MAX, Figures, most_common
from lingua_scheduler.domain.watching.pair_work import WorkBook
from lingua_scheduler.domain.watching.rooms import RoomFigures
from lingua_scheduler.services.attempts.counts import AskedFor, Books
from lingua_scheduler.services.dispatch.dispatcher import Dispatcher
from lingua_scheduler.services.dispatch.languages import LanguageLookup
from lingua_scheduler.services.dispatch.waiting import WaitingRoom
from lingua_scheduler.services.nodes.connected import ConnectedNodes
from lingua_scheduler.services.sessions.sessions import Sessions


class OwnCertificate(Protocol):
    """The certificate of the TLS listener: when it expires, if that is soon, and why a newer one cannot be used."""

    failure: str

    @property
    def ends_soon_ms(self) -> int: ...


class Teller:
    def __init__(
        self,
        life: str,
        books: Books,
        dispatcher: Dispatcher,
        sessions: Sessions,
        connected: ConnectedNodes,
        waiting: WaitingRoom,
        languages: LanguageLookup,
    ) -> None:
        self._life = life
        self._books = books
        self._dispatcher = dispatcher
        self._sessions = sessions
        self._connected = connected
        self._waiting = waiting
        self._languages = languages
        self._work = WorkBook()
        self.is_watched: Callable[[], bool] = lambda: False
        self.is_unprotected = False
        self.expiring: Callable[[], dict[str, int]] = dict
        self.rooms: Callable[[], RoomFigures] = RoomFigures
        self.guessing: Callable[[], dict[str, int]] = dict
        # None: it has no TLS of its own.
        self.certificate: OwnCertificate | None = None

    def figures(self) -> Figures:
        books, waiting, certificate = self._books, self._waiting.by_pool(), self.certificate
        # What private nodes serve is no demand for public ones.
        waiting = {pool: jobs for pool, jobs in waiting.items() if not tenant_of(pool)}
        now_ms, taken = int(wall_ms()), books.take_asked()
        wanted, asked = self._wanted(self._sessions.pools), self._wanted((one.pools, one.whose) for one in taken)
        self._note_work(taken, now_ms)
        return Figures(
            life=self._life,
            at_ms=now_ms,
            sessions=len(self._sessions),
            session_languages=most_common(self._sessions.languages),
            wanted=sorted(wanted)[:NAMED_MAX],
            asked=sorted(asked)[:NAMED_MAX],
            waiting=dict(sorted(waiting.items())[:NAMED_MAX]),
            work=self._work.told(now_ms),
            nodes=len(self._connected.links),
            goodbyes=self._connected.departures.goodbyes[-NAMED_MAX:],
            jobs_waiting=len(self._waiting),
            jobs_ended=dict(books.jobs_ended),
            failed_for=dict(books.failed_for),
            retries=self._dispatcher.retries_made,
            latency=books.latency.counts,
            slow=list(books.slow),
            failures=list(books.failures),
            is_unprotected=self.is_unprotected,
            expiring=dict(sorted(self.expiring().items(), key=itemgetter(1))[:NAMED_MAX]),
            guessing=dict(sorted(self.guessing().items(), key=itemgetter(1), reverse=True)[:NAMED_MAX]),
            certificate_ends_ms=0 if certificate is None else certificate.ends_soon_ms,
            is_certificate_refused=certificate is not None and bool(certificate.failure),
            is_watched=self.is_watched(),
            rooms=self.rooms(),
        )

    def _wanted(self, asked: Iterable[tuple[tuple[str, ...], Whose]]) -> set[str]:
        of_public = (pools for pools, whose in asked if not self._languages.is_served_privately(pools, whose))
        return {self._languages.nearest(pool) for pools in of_public for pool in pools}

    def _note_work(self, taken: Iterable[AskedFor], now_ms: int) -> None:
        """By the pair that nodes use; of a job in any of several languages by the first of its pairs."""
        for pools, whose, work in taken:
            if pools and not self._languages.is_served_privately(pools, whose):
                self._work.add(str(Pool.parse(self._languages.nearest(pools[0])).pair), work, now_ms)
