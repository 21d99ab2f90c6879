"""Puts together what this instance tells the others of itself."""

import time

from lingua_scheduler.domain.watching.figures import NAMED_MAX, Figures, most_common
from lingua_scheduler.services.attempts.counts import Books
from lingua_scheduler.services.dispatch.dispatcher import Dispatcher
from lingua_scheduler.services.dispatch.waiting import WaitingRoom
from lingua_scheduler.services.nodes.registry import Registry
from lingua_scheduler.services.sessions.sessions import Sessions


class Teller:
    def __init__(
        self,
        life: str,
        books: Books,
        dispatcher: Dispatcher,
        sessions: Sessions,
        registry: Registry,
        waiting: WaitingRoom,
    ) -> None:
        self._life = life
        self._books = books
        self._dispatcher = dispatcher
        self._sessions = sessions
        self._registry = registry
        self._waiting = waiting

    def figures(self) -> Figures:
        books, waiting = self._books, self._waiting.by_pool()
        return Figures(
            life=self._life,
            at_ms=int(time.time() * 1000),
            sessions=len(self._sessions),
            session_languages=most_common(self._sessions.languages),
            wanted=sorted({pool for pools in self._sessions.pools for pool in pools})[:NAMED_MAX],
            waiting=dict(sorted(waiting.items())[:NAMED_MAX]),
            nodes=len(self._registry),
            goodbyes=self._registry.goodbyes[-NAMED_MAX:],
            jobs_waiting=len(self._waiting),
            jobs_ended=dict(books.jobs_ended),
            retries=self._dispatcher.retries_made,
            latency=books.latency.counts,
            slow=list(books.slow),
            failures=list(books.failures),
        )
