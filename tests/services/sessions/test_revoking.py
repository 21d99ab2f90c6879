"""What a revoked credential leaves behind. tests/security/test_revocation.py has real sessions and jobs."""

from collections.abc import Callable
from typing import Any, cast

from lingua_scheduler.domain.access.principals import LOCAL, Principal, PrincipalKind
from lingua_scheduler.services.sessions.revoking import MARGIN_S, Revoking
from lingua_scheduler.store.connection import RedisAway
from lingua_sdk.domain.key_texts import KeyKind
from tests.support.access import FakeBook, MadeKey, Times, doorkeeper_of, made_key

DEADLINE_S = 30.0


class FakeSession:
    def __init__(self, caller: Principal) -> None:
        self.caller = caller


class FakeSessions:
    """Those of an instance, and their jobs, one each."""

    def __init__(self, *callers: Principal) -> None:
        self.held = [FakeSession(caller) for caller in callers]
        self.sessions = self
        self.dropped: list[Principal] = []
        self.looks = 0
        self.is_redis_away = False

    def with_credentials(self) -> list[FakeSession]:
        return self.held

    def drop(self, session: FakeSession) -> None:
        self.dropped.append(session.caller)

    async def cancel_of(self, is_meant: Callable[[Principal], bool]) -> int:
        self.looks += 1
        if self.is_redis_away:
            raise RedisAway("away")
        return sum(is_meant(session.caller) for session in self.held)


class Scene:
    def __init__(self, *keys: MadeKey) -> None:
        self.times = Times()
        self.book = FakeBook(*keys)
        self.life = FakeSessions(LOCAL, *map(caller_of, keys))
        keeper = doorkeeper_of(self.book, self.times, expired_grace_ms=0)
        life = cast("Any", self.life)
        self.revoking = Revoking(keeper, life, life, int(DEADLINE_S * 1000), self.times.monotonic)


def caller_of(key: MadeKey) -> Principal:
    one = key.credential
    return Principal(kind=PrincipalKind.CLIENT, scopes=one.scopes, key_id=one.id, expires_ms=one.expires_ms)


async def test_sessions_of_a_revoked_key_are_dropped_and_no_others() -> None:
    gone, stays = made_key(KeyKind.CLIENT), made_key(KeyKind.CLIENT)
    scene = Scene(gone, stays)
    scene.revoking.credentials_changed()
    assert scene.life.dropped == []
    scene.book.change(gone, revoked_ms=1)
    scene.revoking.credentials_changed()
    assert scene.life.dropped == [caller_of(gone)]
    await scene.revoking.tasks.settle(5)
    assert scene.life.looks == 2


async def test_what_an_expired_key_has_said_is_still_translated() -> None:
    key = made_key(KeyKind.CLIENT, expires_ms=1)
    scene = Scene(key)
    scene.revoking.credentials_changed()
    assert scene.life.dropped == []
    assert not scene.revoking.is_revoked(caller_of(key))
    scene.book.change(key, revoked_ms=1)
    assert scene.revoking.is_revoked(caller_of(key))
    await scene.revoking.tasks.close()


async def test_jobs_are_looked_at_until_none_can_begin_another_attempt() -> None:
    scene = Scene()
    await scene.revoking.look()
    assert scene.life.looks == 0
    scene.revoking.credentials_changed()
    scene.life.is_redis_away = True
    await scene.revoking.tasks.settle(5)
    scene.times.now_s += DEADLINE_S + MARGIN_S - 1
    await scene.revoking.look()
    assert scene.life.looks == 2
    scene.times.now_s += 1
    await scene.revoking.look()
    assert scene.life.looks == 2
