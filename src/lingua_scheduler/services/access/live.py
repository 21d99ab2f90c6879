"""Callers that stay: sockets, streams and HTTP nodes. They are closed when their credential ends."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from heapq import heappop, heappush
from itertools import count

from lingua_scheduler.domain.access.principals import Denied, Principal
from lingua_scheduler.services.access.doorkeeper import Doorkeeper
from lingua_scheduler.telemetry import logs
from lingua_sdk.domain.errors import HttpCode

_log = logs.get()

_SPARE = 1_000
NEVER_MS = 1 << 62
REVOKED = "the credential was revoked"
EXPIRED = "the token has expired; fetch a new one and connect again"

# Called once, with why.
End = Callable[[Denied], None]


class LiveCallers:
    """Costs nothing per frame: all are looked at when a credential changes, and each when it is due."""

    def __init__(self, doorkeeper: Doorkeeper) -> None:
        self._doorkeeper = doorkeeper
        self._serials = count(1)
        self._here: dict[int, tuple[Principal, End]] = {}
        # When they must be looked at, soonest first; some have left by then. Each has one entry that counts.
        self._due: list[tuple[int, int]] = []
        self._due_of: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._here)

    def enter(self, principal: Principal, end: End) -> int:
        """A ticket to leave with; 0 for a caller without a credential that could end."""
        if not principal.key_id and not principal.expires_ms:
            return 0
        ticket = next(self._serials)
        self._here[ticket] = principal, end
        if len(self._due) > 2 * len(self._here) + _SPARE:
            # Most of the list have left.
            self._due = sorted((due_ms, ticket) for ticket, due_ms in self._due_of.items())
        self._put_on_list(ticket, principal)
        return ticket

    def renew(self, ticket: int, principal: Principal) -> None:
        """The caller has shown a newer credential."""
        if ticket in self._here:
            self._here[ticket] = principal, self._here[ticket][1]
            self._put_on_list(ticket, principal)

    def leave(self, ticket: int) -> None:
        self._here.pop(ticket, None)
        self._due_of.pop(ticket, None)

    @contextmanager
    def present(self, principal: Principal, end: End) -> Iterator[None]:
        ticket = self.enter(principal, end)
        try:
            yield
        finally:
            self.leave(ticket)

    def logins(self) -> set[str]:
        """Ids of the logins that have a stream here."""
        return {principal.login_id for principal, _ in self._here.values() if principal.login_id}

    def look_at_all(self) -> None:
        """Credentials have changed: some may have been revoked, or expire earlier."""
        self._due = []
        self._due_of = {}
        for ticket, (principal, _) in list(self._here.items()):
            if not self._close_if_ended(ticket):
                self._put_on_list(ticket, principal)

    async def look(self) -> None:
        """To be called every second."""
        now_ms = self._doorkeeper.now_ms()
        while self._due and self._due[0][0] <= now_ms:
            due_ms, ticket = heappop(self._due)
            if self._due_of.get(ticket) == due_ms:
                del self._due_of[ticket]
                if not self._close_if_ended(ticket):
                    self._put_on_list(ticket, self._here[ticket][0])

    def _put_on_list(self, ticket: int, principal: Principal) -> None:
        """A caller that renews its token all the time fills no list: a later end is looked up at the earlier one."""
        due_ms = self._doorkeeper.due_ms(principal)
        if due_ms and due_ms < self._due_of.get(ticket, NEVER_MS):
            self._due_of[ticket] = due_ms
            heappush(self._due, (due_ms, ticket))

    def _close_if_ended(self, ticket: int) -> bool:
        found = self._here.get(ticket)
        if found is None:
            return True
        principal, end = found
        denied = self._doorkeeper.objection(principal)
        if denied is None:
            return False
        self.leave(ticket)
        has_expired = denied.code == HttpCode.TOKEN_EXPIRED.value
        _log.info("caller.ended", key_id=principal.key_id, reason=denied.reason)
        end(denied._replace(detail=EXPIRED if has_expired else REVOKED))
        return True
