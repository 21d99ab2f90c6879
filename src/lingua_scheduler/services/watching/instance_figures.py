"""Collects the figures that this instance publishes for the others."""

from collections.abc import Callable
from operator import itemgetter

from lingua_scheduler.clock import wall_ms
from lingua_scheduler.domain.watching.figures import NAMED_MAX, Figures, most_common
from lingua_scheduler.services.attempts.counts import Books
from lingua_scheduler.services.dispatch.dispatcher import Dispatcher
from lingua_scheduler.services.dispatch.languages import LanguageLookup
from lingua_scheduler.services.dispatch.waiting import WaitingRoom
from lingua_scheduler.services.nodes.connected import ConnectedNodes
from lingua_scheduler.services.sessions.sessions import Sessions


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
        self.is_watched: Callable[[], bool] = lambda: False
        self.is_unprotected = False
        self.expiring: Callable[[], dict[str, int]] = dict

    def figures(self) -> Figures:
        books, waiting = self._books, self._waiting.by_pool()
        wanted = {self._languages.nearest(pool) for pools in self._sessions.pools for pool in pools}
        return Figures(
            life=self._life,
            at_ms=int(wall_ms()),
            sessions=len(self._sessions),
            session_languages=most_common(self._sessions.languages),
            wanted=sorted(wanted)[:NAMED_MAX],
            asked=sorted({self._languages.nearest(pool) for pool in books.take_asked()}),
            waiting=dict(sorted(waiting.items())[:NAMED_MAX]),
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
            is_watched=self.is_watched(),
        )
