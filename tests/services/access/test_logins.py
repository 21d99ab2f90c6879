"""Logins: those in use are in memory, and end everywhere."""

import pytest

from lingua_scheduler.services.access.logins import MAX_UNKNOWN, REMEMBER_S, UNKNOWN_S, Logins
from lingua_scheduler.setting_sections.access import AuthSettings
from lingua_scheduler.store.connection import RedisAway
from lingua_scheduler.store.store import Store
from tests.support.access import Times

KEY_ID = "k3jPq0aZ81Ty"
SETTINGS = AuthSettings(login_ms=3_600_000, login_idle_ms=600_000)


class Desk:
    """One instance."""

    def __init__(self, store: Store, times: Times) -> None:
        self.told: list[str] = []
        self.endings = 0
        self.logins = Logins(store.logins, SETTINGS, times.wall_ms, times.monotonic, self.told.append)
        self.logins.on_ended.append(self._ended)

    def _ended(self) -> None:
        self.endings += 1


@pytest.fixture
def times() -> Times:
    return Times()


@pytest.fixture
def here(store: Store, times: Times) -> Desk:
    return Desk(store, times)


@pytest.fixture
def there(store: Store, times: Times) -> Desk:
    return Desk(store, times)


async def ttl_ms(store: Store) -> int:
    (key,) = [key async for key in keys_of(store)]
    found: int = await store.line.call("PTTL", key)
    return found


async def keys_of(store: Store):  # type: ignore[no-untyped-def]
    _, found = await store.line.call("SCAN", "0", "MATCH", store.keys.login("*"), "COUNT", "1000")
    for key in found:
        yield key


async def test_a_login_is_known_where_it_began_and_recalled_elsewhere(here: Desk, there: Desk) -> None:
    secret = await here.logins.begin(KEY_ID)
    assert not here.logins.is_forgotten(secret)
    login = here.logins.find(secret)
    assert login is not None
    assert login.key_id == KEY_ID
    assert here.logins.is_open(login.id)
    assert there.logins.is_forgotten(secret)
    assert there.logins.find(secret) is None
    await there.logins.recall(secret)
    assert there.logins.find(secret) == login
    assert not there.logins.is_forgotten(secret)


async def test_redis_has_the_digest_alone(here: Desk, store: Store) -> None:
    secret = await here.logins.begin(KEY_ID)
    (key,) = [key async for key in keys_of(store)]
    assert secret not in key
    assert secret not in await store.line.call("GET", key)


async def test_a_logout_ends_it_everywhere(here: Desk, there: Desk) -> None:
    secret = await here.logins.begin(KEY_ID)
    await there.logins.recall(secret)
    login = there.logins.find(secret)
    assert login is not None
    await here.logins.end(secret)
    assert here.told == [login.id]
    assert here.endings == 1
    assert not here.logins.is_open(login.id)
    there.logins.ended_elsewhere("another")
    assert there.logins.is_open(login.id)
    there.logins.ended_elsewhere(login.id)
    assert there.endings == 1
    assert there.logins.find(secret) is None
    assert not there.logins.is_open(login.id)
    await there.logins.recall(secret)
    assert there.logins.find(secret) is None
    await here.logins.end(secret)
    assert here.told == [login.id]


async def test_a_logout_whose_news_is_lost_is_found_with_the_next_look(here: Desk, there: Desk) -> None:
    secret = await here.logins.begin(KEY_ID)
    await there.logins.recall(secret)
    login = there.logins.find(secret)
    assert login is not None
    await there.logins.look(())
    await here.logins.end(secret)
    # It has an open stream there, and nothing else.
    await there.logins.look((login.id,))
    assert there.endings == 1
    assert not there.logins.is_open(login.id)


async def test_an_instance_that_never_saw_it_can_end_it(here: Desk, there: Desk) -> None:
    secret = await here.logins.begin(KEY_ID)
    await there.logins.end(secret)
    assert len(there.told) == 1


async def test_it_ends_when_its_time_is_over(here: Desk, times: Times) -> None:
    secret = await here.logins.begin(KEY_ID)
    times.now_s += 3_599.9
    assert here.logins.find(secret) is not None
    times.now_s += 0.1
    assert here.logins.find(secret) is None


async def test_use_renews_it_but_never_beyond_its_end(here: Desk, store: Store, times: Times) -> None:
    secret = await here.logins.begin(KEY_ID)
    assert 500_000 < await ttl_ms(store) <= 600_000
    (key,) = [key async for key in keys_of(store)]
    await store.line.call("PEXPIRE", key, 5_000)
    here.logins.find(secret)
    await here.logins.look(())
    assert 500_000 < await ttl_ms(store) <= 600_000
    # Nothing is asked while it is not used.
    await store.line.call("PEXPIRE", key, 5_000)
    await here.logins.look(())
    assert await ttl_ms(store) <= 5_000
    times.now_s += 3_500
    here.logins.find(secret)
    await here.logins.look(())
    assert 5_000 < await ttl_ms(store) <= 100_000


async def test_one_that_was_not_used_is_forgotten_but_not_ended(here: Desk, times: Times) -> None:
    secret = await here.logins.begin(KEY_ID)
    await here.logins.look(())
    times.now_s += REMEMBER_S
    await here.logins.look(())
    assert not here.logins.is_forgotten(secret)
    times.now_s += 0.1
    await here.logins.look(())
    assert here.logins.is_forgotten(secret)
    assert here.endings == 0
    await here.logins.recall(secret)
    assert here.logins.find(secret) is not None


async def test_one_with_an_open_stream_stays(here: Desk, times: Times) -> None:
    secret = await here.logins.begin(KEY_ID)
    login = here.logins.find(secret)
    assert login is not None
    for _ in range(3):
        times.now_s += REMEMBER_S + 1
        await here.logins.look({login.id})
    assert here.logins.is_open(login.id)


async def test_a_stale_cookie_asks_redis_once(here: Desk, times: Times) -> None:
    assert here.logins.is_forgotten("stale")
    await here.logins.recall("stale")
    assert not here.logins.is_forgotten("stale")
    times.now_s += UNKNOWN_S
    assert here.logins.is_forgotten("stale")
    assert not here.logins.is_forgotten("x" * 65)


async def test_what_is_remembered_of_strangers_is_bounded(here: Desk) -> None:
    for number in range(MAX_UNKNOWN + 1):
        await here.logins.recall(str(number))
    assert here.logins.is_forgotten("0")
    assert not here.logins.is_forgotten("1")


async def test_known_logins_go_on_while_redis_is_away(here: Desk, store: Store) -> None:
    secret = await here.logins.begin(KEY_ID)
    await store.close()
    with pytest.raises(RedisAway):
        await here.logins.look(())
    assert here.logins.find(secret) is not None
    with pytest.raises(RedisAway):
        await here.logins.end(secret)
    assert here.logins.find(secret) is not None


async def test_a_code_is_good_for_one_login(here: Desk, there: Desk) -> None:
    code = await here.logins.make_code(KEY_ID)
    assert await there.logins.take_code(code) == KEY_ID
    assert await here.logins.take_code(code) is None
    assert await here.logins.take_code("guess") is None
