"""What a revoked credential leaves behind: its sessions are dropped, its jobs are cancelled."""

from lingua_scheduler.clock import SYSTEM_CLOCK, Clock
from lingua_scheduler.domain.access.principals import Principal
from lingua_scheduler.services.access.doorkeeper import Doorkeeper
from lingua_scheduler.services.dispatch.cancelling import Cancelling
from lingua_scheduler.services.sessions.opening import Openings
from lingua_scheduler.store.connection import RedisAway
from lingua_scheduler.telemetry import logs
from lingua_scheduler.telemetry.tasks import Nursery
from lingua_sdk.domain.errors import HttpCode

_log = logs.get()

# An attempt that began at the deadline of its job is met by a look after it.
MARGIN_S = 5.0


class Revoking:
    """Each instance looks at its own sessions and jobs. After `deadline_ms` no job begins another attempt."""

    def __init__(
        self,
        doorkeeper: Doorkeeper,
        openings: Openings,
        cancelling: Cancelling,
        deadline_ms: int,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._doorkeeper = doorkeeper
        self._openings = openings
        self._cancelling = cancelling
        self._deadline_s = deadline_ms / 1000 + MARGIN_S
        self._clock = clock
        self._look_until_s = 0.0
        self.tasks = Nursery("revoking")
        openings.is_revoked = self.is_revoked

    def is_revoked(self, principal: Principal) -> bool:
        """Not of one that has expired: what was said by then is still translated, and waits for its client."""
        denied = self._doorkeeper.objection(principal)
        return denied is not None and denied.code != HttpCode.TOKEN_EXPIRED.value

    def credentials_changed(self) -> None:
        dropped = 0
        for session in self._openings.sessions.with_credentials():
            if self.is_revoked(session.caller):
                self._openings.drop(session)
                dropped += 1
        if dropped:
            _log.info("sessions.revoked", count=dropped)
        # A job that is just being placed is met by a later look.
        self._look_until_s = self._clock() + self._deadline_s
        self.tasks.start(self.look())

    async def look(self) -> None:
        """To be called every second."""
        if self._clock() >= self._look_until_s:
            return
        try:
            cancelled = await self._cancelling.cancel_of(self.is_revoked)
        except RedisAway:
            return  # the next look tries again
        if cancelled:
            _log.info("jobs.revoked", count=cancelled)
