"""The book of credentials: what one instance knows reaches the others, and an emptied Redis gets it back."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lingua_scheduler.domain.access.credential_sets import TooManyCredentials
from lingua_scheduler.domain.access.credentials import KEEP_ENDED_MS, tenant_name, token_name
from lingua_scheduler.domain.access.issuers import Issuer
from lingua_scheduler.services.access import book as books
from lingua_scheduler.services.access.backup import Backup
from lingua_scheduler.services.access.book import (
    FORGET_AFTER_MS,
    WHOLE_EVERY,
    CredentialBook,
    CredentialIdTaken,
    KeyOfFile,
)
from lingua_scheduler.services.access.keys_file import KeysFile, KeysFileError
from lingua_scheduler.store.connection import RedisAway
from lingua_scheduler.store.store import Store
from tests.support.clocks import Clock
from tests.support.credentials import key, keys_toml
from tests.support.servers import RedisProcess, binaries

ACME = tenant_name("acme")
ISSUER = Issuer(id="k1", issuer="https://acme.example", public_key="PEM")


@pytest.fixture
def clock() -> Clock:
    return Clock(1_700_000_000_000)


MakeBook = Callable[..., CredentialBook]


@pytest.fixture
def make(store: Store, clock: Clock) -> MakeBook:
    """Books of several instances; what they publish is collected in `published`."""

    def make_book(**more: Any) -> CredentialBook:
        published: list[int] = []
        made = CredentialBook(store.credentials, wall_ms=clock, publish=published.append, **more)
        made.published = published  # type: ignore[attr-defined]
        return made

    return make_book


async def stored_ids(store: Store) -> set[str]:
    return set((await store.credentials.read()).credentials)


async def test_what_is_added_at_one_instance_is_known_at_another(make: MakeBook) -> None:
    one, other = make(), make()
    await one.open()
    await other.open()
    assert one.is_empty
    await one.add(key("a"))
    await one.add_issuer(ISSUER)
    await one.void(ACME, 5, one._wall_ms() + 1_000)
    assert one.find(key("a").id) == key("a")
    assert other.find(key("a").id) is None
    await other.refresh()
    assert other.find(key("a").id) == key("a")
    assert other.all() == [key("a")]
    assert list(other.issuers()) == [ISSUER]
    assert other.void_before(ACME) == 5
    assert other.void_before(tenant_name("other")) == 0
    assert not other.is_empty
    assert one.version == other.version


async def test_a_signal_of_another_version_makes_the_copy_outdated(make: MakeBook) -> None:
    one, other = make(), make()
    await other.open()
    await one.add(key("a"))
    await other.refresh_if_outdated()
    assert other.find(key("a").id) is None
    other.changed_elsewhere(one.published[-1])  # type: ignore[attr-defined]
    await other.refresh_if_outdated()
    assert other.find(key("a").id) == key("a")


async def test_an_unchanged_version_costs_one_command(
    make: MakeBook, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    book = make()
    await book.open()
    await book.add(key("a"))
    asked = []
    call = store.line.call

    def counting(*words: Any) -> Any:
        asked.append(words[0])
        return call(*words)

    monkeypatch.setattr(book._store, "_call", counting)
    await book.refresh()
    assert asked == ["GET"]


async def test_a_copy_that_no_signal_called_outdated_is_not_read(make: MakeBook) -> None:
    book = make()
    await book.refresh_if_outdated()
    assert not book.has_read
    book.changed_elsewhere(book.version)
    await book.refresh_if_outdated()
    assert not book.has_read


async def test_listeners_hear_of_changes_and_of_nothing_else(make: MakeBook) -> None:
    one, other = make(), make()
    heard = []
    other.on_changed.append(lambda: heard.append(other.find(key("a").id)))
    await other.open()
    assert heard == []
    await one.add(key("a"))
    await other.refresh()
    await other.refresh()
    assert heard == [key("a")]


async def test_a_key_ends_now_or_later_and_never_comes_back(make: MakeBook, clock: Clock) -> None:
    book = make()
    await book.add(key("a"))
    later_ms = clock.now_ms + 1_000
    expiring = await book.end(key("a").id, at_ms=later_ms, successor=key("b").id)
    assert expiring is not None
    assert (expiring.expires_ms, expiring.revoked_ms, expiring.successor) == (later_ms, 0, key("b").id)
    assert expiring.is_live(clock.now_ms)
    assert not expiring.is_live(later_ms)
    put_off = await book.end(key("a").id, at_ms=later_ms + 5_000)
    assert put_off == expiring
    revoked = await book.end(key("a").id, at_ms=clock.now_ms)
    assert revoked is not None
    assert revoked.revoked_ms == clock.now_ms
    await book.add(key("a"))
    assert book.find(key("a").id) == revoked
    assert book.is_empty
    assert await book.end("nobody", at_ms=0) is None


async def test_a_revocation_at_time_zero_is_one(make: MakeBook, clock: Clock) -> None:
    book = make()
    await book.add(key("a"))
    revoked = await book.end(key("a").id, at_ms=0)
    assert revoked is not None
    assert not revoked.is_live(clock.now_ms)


async def test_an_issuer_ends(make: MakeBook, clock: Clock) -> None:
    book = make()
    await book.add_issuer(ISSUER)
    assert not book.is_empty
    ended = await book.end_issuer("k1", at_ms=clock.now_ms)
    assert ended is not None
    assert not ended.is_live(clock.now_ms)
    assert book.is_empty
    assert await book.end_issuer("nobody", at_ms=0) is None


async def test_an_id_is_never_used_for_another_key(make: MakeBook) -> None:
    book = make()
    await book.add(key("a"))
    await book.add_issuer(ISSUER)
    with pytest.raises(CredentialIdTaken):
        await book.add(key("a", digest="f" * 64))
    with pytest.raises(CredentialIdTaken):
        await book.add_issuer(Issuer(id="k1", issuer="https://other.example", public_key="PEM"))
    await book.add(key("a"))
    assert book.all() == [key("a")]


async def test_writers_at_the_same_time_lose_nothing(make: MakeBook, store: Store) -> None:
    instances = [make() for _ in range(5)]
    names = [f"{number}{turn}" for number in range(5) for turn in "xyz"]
    await asyncio.gather(*(instances[int(name[0])].add(key(name)) for name in names))
    assert await stored_ids(store) == {key(name).id for name in names}
    await asyncio.gather(*(book.refresh() for book in instances))
    for book in instances:
        assert {one.id for one in book.all()} == {key(name).id for name in names}


async def test_an_emptied_redis_gets_back_what_each_instance_alone_knew(
    make: MakeBook, store: Store, server: RedisProcess, clock: Clock
) -> None:
    """Two books, each with a part the other never saw."""
    one, other = make(), make()
    await one.add(key("both"))
    await other.refresh()
    await one.end(key("both").id, at_ms=clock.now_ms)
    await one.void(ACME, 7, clock.now_ms + 1_000)
    server.flush()
    # `other` has not seen the revocation, and learns of a key that `one` never sees until it is written back.
    await other.add(key("late"))
    await other.add_issuer(ISSUER)
    server.flush()
    await one.refresh()
    await other.refresh()
    await one.refresh()
    for book in (one, other):
        assert {entry.id for entry in book.all()} == {key("both").id, key("late").id}
        both = book.find(key("both").id)
        assert both is not None
        assert both.revoked_ms == clock.now_ms
        assert book.void_before(ACME) == 7
        assert list(book.issuers()) == [ISSUER]
    stored = await store.credentials.read()
    assert stored.credentials[key("both").id].revoked_ms == clock.now_ms
    assert set(stored.revocations) == {ACME}


async def test_an_end_of_long_ago_is_not_forgotten_before_others_know_it(
    make: MakeBook, store: Store, clock: Clock
) -> None:
    one, other = make(), make()
    await one.add(key("a"))
    await other.refresh()
    await one.end(key("a").id, at_ms=1)
    await one.refresh()
    await other.refresh()
    for book in (one, other):
        found = book.find(key("a").id)
        assert found is not None
        assert found.revoked_ms == clock.now_ms


async def test_an_older_snapshot_does_not_bring_a_revoked_key_back(
    make: MakeBook, store: Store, server: RedisProcess, clock: Clock
) -> None:
    one, other = make(), make()
    await one.add(key("a"))
    names = (store.keys.credentials, store.keys.credentials_version)
    flat = await store.line.call("HGETALL", names[0])
    version = await store.line.call("GET", names[1])
    await one.end(key("a").id, at_ms=clock.now_ms)
    await one.add(key("b"))
    server.flush()
    await store.line.call("HSET", names[0], *flat)
    await store.line.call("SET", names[1], version)
    await one.refresh()
    await other.open()
    again = other.find(key("a").id)
    assert again is not None
    assert again.revoked_ms == clock.now_ms
    assert other.find(key("b").id) == key("b")


async def test_versions_of_an_emptied_redis_are_not_taken_for_known_ones(
    make: MakeBook, store: Store, server: RedisProcess
) -> None:
    """As many changes after the loss as before it."""
    one, other = make(), make()
    await one.add(key("a"))
    await one.add(key("b"))
    server.flush()
    await other.add(key("c"))
    await other.add(key("d"))
    await one.refresh()
    assert {entry.id for entry in one.all()} == {key(name).id for name in "abcd"}


async def test_a_loss_that_leaves_the_version_is_found_in_time(make: MakeBook, store: Store) -> None:
    book = make()
    await book.open()
    await book.add(key("a"))
    await store.line.call("DEL", store.keys.credentials)
    for _ in range(WHOLE_EVERY):
        await book.refresh()
    assert await stored_ids(store) == {key("a").id}


@pytest.mark.parametrize("rubbish", ["\xff", "{}", "", '{"id":', "[1]"])
async def test_garbage_over_an_entry_is_replaced_by_the_copy(make: MakeBook, store: Store, rubbish: str) -> None:
    one = make()
    await one.add(key("a"))
    await one.void(ACME, 7, one._wall_ms() + 1_000)
    await store.line.call("HSET", store.keys.credentials, key("a").id, rubbish)
    await store.line.call("HSET", store.keys.revocations, ACME, rubbish)
    await store.line.call("SET", store.keys.credentials_version, rubbish)
    await one.refresh()
    stored = await store.credentials.read()
    assert stored.credentials == {key("a").id: key("a")}
    assert stored.revocations[ACME].before_ms == 7
    assert one.version == stored.version > 0


async def test_while_redis_is_away_the_copy_stays_and_changes_are_refused(
    make: MakeBook, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    book = make()
    await book.add(key("a"))

    def away(*_: Any) -> Any:
        raise RedisAway("away")

    with monkeypatch.context() as patch:
        patch.setattr(book._store, "_call", away)
        for change in (
            lambda: book.refresh(),
            lambda: book.add(key("b")),
            lambda: book.end(key("a").id, at_ms=clock.now_ms),
            lambda: book.add_issuer(ISSUER),
            lambda: book.end_issuer("k1", at_ms=0),
            lambda: book.void(ACME, 1, 2),
        ):
            with pytest.raises(RedisAway):
                await change()
        assert book.all() == [key("a")]
        assert book.void_before(ACME) == 0
        started = make()
        started._store = book._store
        await started.open()
        assert started.is_empty
        assert not started.has_read
    await started.refresh_if_outdated()
    assert started.has_read
    assert started.all() == [key("a")]


async def test_a_redis_that_died_and_came_back_empty_gets_everything_back(clock: Clock) -> None:
    server = RedisProcess(str(binaries()["valkey"]))
    store = Store(server.url, key_prefix="lingua:v1", timeout_ms=30_000)
    await store.open()
    try:
        book = CredentialBook(store.credentials, wall_ms=clock, publish=lambda _: None)
        await book.add(key("a"))
        await book.add(key("b"))
        await book.end(key("a").id, at_ms=clock.now_ms)
        server.kill()
        with pytest.raises(RedisAway):
            await book.refresh()
        with pytest.raises(RedisAway):
            await book.end(key("b").id, at_ms=clock.now_ms)
        assert book.find(key("b").id) == key("b")
        server.start()
        async with asyncio.timeout(30):
            await store.line.up.wait()
        await book.refresh_if_outdated()
        stored = await store.credentials.read()
        assert stored.credentials == {one.id: one for one in book.all()}
        assert stored.credentials[key("a").id].revoked_ms == clock.now_ms
        assert stored.credentials[key("b").id].revoked_ms == 0
    finally:
        await store.close()
        server.stop()


async def test_revocations_are_forgotten_when_no_token_can_be_that_old(
    make: MakeBook, store: Store, clock: Clock
) -> None:
    book, other = make(), make()
    await book.void(ACME, clock.now_ms, clock.now_ms + 1_000)
    await other.open()
    clock.pass_ms(1_001 + FORGET_AFTER_MS)
    await book.void(token_name("k1", "t"), 1, clock.now_ms + 1_000)
    await other.refresh()
    assert other.void_before(ACME) == 0
    assert set((await store.credentials.read()).revocations) == {token_name("k1", "t")}
    # `book` has it in memory until it reads everything, and does not write it back.
    for _ in range(2 * WHOLE_EVERY):
        await book.refresh()
    assert set((await store.credentials.read()).revocations) == {token_name("k1", "t")}
    assert book.void_before(ACME) == 0


async def test_ended_keys_and_issuers_are_forgotten_long_after_their_end(
    make: MakeBook, store: Store, clock: Clock
) -> None:
    book = make()
    for name in ("a", "b"):
        await book.add(key(name))
    await book.add_issuer(ISSUER)
    await book.end(key("a").id, at_ms=clock.now_ms)
    await book.end_issuer("k1", at_ms=clock.now_ms)
    clock.pass_ms(KEEP_ENDED_MS)
    fresh = make()
    await fresh.open()
    assert await stored_ids(store) == {key("a").id, key("b").id}
    clock.pass_ms(FORGET_AFTER_MS + 1)
    fresh = make()
    await fresh.open()
    stored = await store.credentials.read()
    assert set(stored.credentials) == {key("b").id}
    assert stored.issuers == {}


async def test_there_is_room_for_so_many_and_no_more(make: MakeBook, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lingua_scheduler.domain.access.credential_sets.MAX_CREDENTIALS", 2)
    book = make()
    await book.add(key("a"))
    await book.add(key("b"))
    with pytest.raises(TooManyCredentials, match="2 keys"):
        await book.add(key("c"))
    # One that is there can still be ended.
    ended = await book.end(key("a").id, at_ms=1)
    assert ended is not None
    assert ended.revoked_ms


async def test_what_no_instance_could_read_is_not_written(make: MakeBook, store: Store) -> None:
    book = make()
    with pytest.raises(ValueError, match="out of bounds"):
        await book.add(key("a", created_by="x" * 200))
    with pytest.raises(ValueError, match="not the name"):
        await book.void("anything", 1, 2)
    assert book.all() == []
    assert await store.credentials.version() == 0


async def test_use_is_noted_of_known_keys_alone(make: MakeBook, clock: Clock) -> None:
    book = make()
    await book.add(key("a"))
    assert book.last_used_ms(key("a").id) == 0
    book.used(key("a").id)
    book.used("unknown")
    assert book.last_used_ms(key("a").id) == clock.now_ms
    assert book.last_used_ms("unknown") == 0
    await book.share_uses()
    # One that starts later reads it with the keys.
    later = make()
    await later.open()
    assert later.last_used_ms(key("a").id) == clock.now_ms


async def test_a_start_on_an_empty_redis_reads_the_backup(
    make: MakeBook, store: Store, server: RedisProcess, clock: Clock, tmp_path: Path
) -> None:
    one = make(backup=Backup(tmp_path / "credentials.json"))
    await one.open()
    await one.add(key("a"))
    await one.add(key("b"))
    await one.add_issuer(ISSUER)
    await one.end(key("b").id, at_ms=clock.now_ms)
    await one.void(ACME, 7, clock.now_ms + 1_000)
    server.flush()
    other = make(backup=Backup(tmp_path / "credentials.json"))
    await other.open()
    assert other.find(key("a").id) == key("a")
    assert other.void_before(ACME) == 7
    stored = await store.credentials.read()
    assert stored.credentials[key("b").id].revoked_ms == clock.now_ms
    assert set(stored.issuers) == {"k1"}


async def test_a_backup_that_is_older_than_redis_changes_nothing_there(
    make: MakeBook, store: Store, clock: Clock, tmp_path: Path
) -> None:
    one = make(backup=Backup(tmp_path / "credentials.json"))
    await one.add(key("a"))
    another = make()
    await another.end(key("a").id, at_ms=clock.now_ms)
    started = make(backup=Backup(tmp_path / "credentials.json"))
    await started.open()
    known = started.find(key("a").id)
    assert known is not None
    assert known.revoked_ms == clock.now_ms
    assert started.version == another.version
    assert key("a").id in (tmp_path / "credentials.json").read_text()
    assert str(clock.now_ms) in (tmp_path / "credentials.json").read_text()


async def test_keys_of_the_file_are_known_and_not_written_to_redis(
    make: MakeBook, store: Store, tmp_path: Path
) -> None:
    path = keys_toml(tmp_path, key("f"))
    book = make(keys_file=KeysFile(path))
    await book.open()
    assert book.find(key("f").id) == key("f")
    assert not book.is_empty
    assert await stored_ids(store) == set()
    heard = []
    book.on_changed.append(lambda: heard.append(book.find(key("f").id)))
    keys_toml(tmp_path)
    await book.refresh()
    assert heard == [None]
    assert book.is_empty


async def test_a_key_of_the_file_can_be_revoked_and_stays_so_while_it_is_in_the_file(
    make: MakeBook, store: Store, clock: Clock, tmp_path: Path
) -> None:
    path = keys_toml(tmp_path, key("f"))
    book = make(keys_file=KeysFile(path))
    await book.open()
    with pytest.raises(KeyOfFile, match="expires"):
        await book.end(key("f").id, at_ms=clock.now_ms + 1_000)
    revoked = await book.end(key("f").id, at_ms=clock.now_ms)
    assert revoked is not None
    assert not revoked.is_live(clock.now_ms)
    clock.pass_ms(2 * KEEP_ENDED_MS)
    other = make(keys_file=KeysFile(path))
    await other.open()
    found = other.find(key("f").id)
    assert found is not None
    assert not found.is_live(clock.now_ms)


async def test_the_file_is_looked_at_while_redis_is_away(
    make: MakeBook, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    book = make(keys_file=KeysFile(keys_toml(tmp_path, key("f"))))
    await book.open()
    keys_toml(tmp_path, key("g"))

    async def away() -> int:
        raise RedisAway("away")

    monkeypatch.setattr(book._store, "version", away)
    with pytest.raises(RedisAway):
        await book.refresh()
    assert [one.id for one in book.all()] == [key("g").id]


async def test_a_start_with_a_broken_keys_file_is_refused(make: MakeBook, tmp_path: Path) -> None:
    path = tmp_path / "keys.toml"
    with pytest.raises(KeysFileError, match="cannot be read"):
        await make(keys_file=KeysFile(path)).open()


async def test_writers_that_are_always_late_give_up(make: MakeBook, monkeypatch: pytest.MonkeyPatch) -> None:
    book = make()
    await book.open()

    async def outdated(*_: Any) -> None:
        return None

    monkeypatch.setattr(book._store, "write", outdated)
    monkeypatch.setattr(books, "MAX_TRIES", 3)
    with pytest.raises(RedisAway, match="too many at once"):
        await book.add(key("a"))
    assert book.find(key("a").id) is None
