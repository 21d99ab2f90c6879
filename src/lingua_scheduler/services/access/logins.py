"""Logins to the dashboard. Those in use are in memory, so that a request does not ask Redis who sends it."""

import asyncio
from collections.abc import Callable, Collection

from lingua_scheduler.clock import Clock
from lingua_scheduler.domain.access.logins import MAX_SECRET_CHARS, Login, digest_of, fresh_login, fresh_secret
from lingua_scheduler.domain.access.people import Person
from lingua_scheduler.setting_sections.access import AuthSettings
from lingua_scheduler.store.access.logins import LoginStore
from lingua_scheduler.telemetry import logs

_log = logs.get()

# How often logins in use are looked up again, in case the news of an end was lost.
LOOK_S = 2.0
# One that is not used for so long is looked up again when it is.
REMEMBER_S = 10.0
# A stale cookie is sent with every request of its page.
UNKNOWN_S = 60.0
MAX_UNKNOWN = 1_000


class _Known:
    __slots__ = ("is_renewed", "login", "used_at")

    def __init__(self, login: Login, used_at: float) -> None:
        self.login = login
        self.used_at = used_at
        # Whether Redis knows of the last use.
        self.is_renewed = False


class Logins:
    """`publish` tells other instances of a login that has ended."""

    def __init__(
        self,
        store: LoginStore,
        settings: AuthSettings,
        wall_ms: Callable[[], int],
        clock: Clock,
        publish: Callable[[str], None],
    ) -> None:
        self._store = store
        self.login_ms = settings.login_ms
        self._idle_ms = settings.login_idle_ms
        self._wall_ms = wall_ms
        self._clock = clock
        self._publish = publish
        # By the digest of the secret.
        self._known: dict[str, _Known] = {}
        self._open: set[str] = set()
        self._unknown: dict[str, float] = {}
        self.on_ended: list[Callable[[], None]] = []

    async def make_code(self, key_id: str) -> str:
        """A secret that can be exchanged for a login with this key, once and soon."""
        code = fresh_secret()
        await self._store.add_code(digest_of(code), key_id)
        return code

    async def take_code(self, code: str) -> str | None:
        """The id of the key to log in with; None if the code is unknown, used or too old."""
        return await self._store.take_code(digest_of(code))

    async def begin_flow(self) -> str:
        """The secret of a login through an identity provider, which may end once and soon."""
        secret = fresh_secret()
        await self._store.add_flow(digest_of(secret))
        return secret

    async def take_flow(self, secret: str) -> bool:
        """False if it is unknown, used or too old."""
        return await self._store.take_flow(digest_of(secret))

    async def begin(self, holder: str | Person) -> str:
        """The secret of a new login, with the key of this id or of a person without a key."""
        secret, now_ms = fresh_secret(), self._wall_ms()
        digest, login = digest_of(secret), fresh_login(holder, now_ms, now_ms + self.login_ms)
        await self._store.add(digest, login, self._ttl_ms(login))
        self._remember(digest, login)
        _log.info("login.begun", login=login.id, key_id=login.key_id)
        return secret

    async def end(self, secret: str) -> None:
        """Safe to repeat; raises RedisAway, and then it goes on."""
        digest = digest_of(secret)
        found = self._known.get(digest)
        login = found.login if found is not None else await self._store.find(digest)
        await self._store.remove(digest)
        if login is not None:
            self._publish(login.id)
            self._forget(digest, login)
            _log.info("login.ended", login=login.id, key_id=login.key_id)

    def is_forgotten(self, secret: str) -> bool:
        """Whether Redis must be asked about it."""
        if len(secret) > MAX_SECRET_CHARS:
            return False
        digest = digest_of(secret)
        return digest not in self._known and self._unknown.get(digest, 0.0) <= self._clock()

    async def recall(self, secret: str) -> None:
        digest = digest_of(secret)
        login = await self._store.find(digest)
        if login is not None:
            self._remember(digest, login)
            return
        while len(self._unknown) >= MAX_UNKNOWN:
            del self._unknown[next(iter(self._unknown))]
        self._unknown[digest] = self._clock() + UNKNOWN_S

    def find(self, secret: str) -> Login | None:
        """Of those in memory; to ask for one is to use it."""
        found = self._known.get(digest_of(secret))
        if found is None or found.login.expires_ms <= self._wall_ms():
            return None
        found.used_at = self._clock()
        found.is_renewed = False
        return found.login

    def is_open(self, login_id: str) -> bool:
        """Whether a login that has an open stream here still counts."""
        return login_id in self._open

    def ended_elsewhere(self, login_id: str) -> None:
        for digest, known in list(self._known.items()):
            if known.login.id == login_id:
                self._forget(digest, known.login)

    async def look(self, watching: Collection[str]) -> None:
        """To be called every LOOK_S. `watching` are ids of logins with an open stream, which are in use."""
        now = self._clock()
        used = []
        for digest, known in list(self._known.items()):
            if not known.is_renewed or known.login.id in watching:
                used.append((digest, known))
            elif now - known.used_at > REMEMBER_S:
                # Only forgotten here.
                del self._known[digest]
                self._open.discard(known.login.id)
        renewals = (self._renew(digest, known) for digest, known in used)
        for failure in filter(None, await asyncio.gather(*renewals, return_exceptions=True)):
            raise failure

    async def _renew(self, digest: str, known: _Known) -> None:
        known.is_renewed = True
        try:
            is_there = await self._store.keep(digest, self._ttl_ms(known.login))
        except BaseException:
            # While Redis is away, logins that are known here go on.
            known.is_renewed = False
            raise
        if not is_there:
            self._forget(digest, known.login)

    def _remember(self, digest: str, login: Login) -> None:
        self._known[digest] = _Known(login, self._clock())
        self._open.add(login.id)

    def _forget(self, digest: str, login: Login) -> None:
        self._known.pop(digest, None)
        self._open.discard(login.id)
        for tell in self.on_ended:
            tell()

    def _ttl_ms(self, login: Login) -> int:
        return max(1, min(self._idle_ms, login.expires_ms - self._wall_ms()))
