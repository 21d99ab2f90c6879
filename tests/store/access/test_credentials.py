"""Credentials in Redis: written by whoever read the last version, and read although there is garbage beside them."""

import asyncio

import msgspec
import pytest

from lingua_scheduler.domain.access.credential_sets import CredentialSet
from lingua_scheduler.domain.access.credentials import Credential, Revocation, subject_name, tenant_name
from lingua_scheduler.domain.access.issuers import Issuer
from lingua_scheduler.domain.access.scopes import Role
from lingua_scheduler.store.access import credentials
from lingua_scheduler.store.access.credentials import Stored, issuer_entry, key_entry
from lingua_scheduler.store.store import Store
from lingua_sdk.domain.key_texts import KeyKind
from tests.support.clocks import Clock
from tests.support.credentials import key

ACME = tenant_name("acme")
ADA = subject_name("acme", "Ada Lovelace/ünï")
ISSUER = Issuer(id="k1", issuer="https://acme.example", algorithm="ES256", jwks_url="https://acme.example/keys")
RUBBISH = [b"\xff\xfe\x00", b"", b"{}", b'{"id":"x', b"[1]", b"9" * 5_000, b"null", b"[-1,5]", b"[1,1e300]"]


async def test_nothing_is_there_at_first(store: Store) -> None:
    assert await store.credentials.version() == 0
    assert await store.credentials.read() == Stored(0, {}, {}, {})


async def test_what_is_written_is_read_back_as_it_was(store: Store) -> None:
    operator = key("b", kind=KeyKind.OPERATOR, role=Role.ADMIN, tenant="*", networks=("10.0.0.0/8",), expires_ms=5)
    revocations = {ACME: Revocation(1, 2), ADA: Revocation(3, 4)}
    version = await store.credentials.write(0, [key("a"), operator], [ISSUER], revocations)
    assert version is not None
    stored = await store.credentials.read()
    assert stored == Stored(version, {one.id: one for one in (key("a"), operator)}, {"k1": ISSUER}, revocations)
    assert stored.all == CredentialSet(stored.credentials, stored.issuers, stored.revocations)
    assert await store.credentials.version() == version


async def test_a_writer_that_read_an_older_version_changes_nothing(store: Store) -> None:
    first = await store.credentials.write(0, [key("a")])
    assert first is not None
    assert await store.credentials.write(0, [key("b")]) is None
    assert await store.credentials.write(first + 1, [key("b")]) is None
    assert set((await store.credentials.read()).credentials) == {key("a").id}
    assert await store.credentials.version() == first


async def test_of_racing_writers_one_wins(store: Store) -> None:
    outcomes = await asyncio.gather(*(store.credentials.write(0, [key(str(number))]) for number in range(10)))
    assert len([version for version in outcomes if version is not None]) == 1
    assert len((await store.credentials.read()).credentials) == 1


async def test_a_version_rises_and_is_at_least_the_time(
    store: Store, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In 1/256 ms, of which one is drawn: a Redis that was emptied in this very millisecond uses no version twice."""
    monkeypatch.setattr("secrets.randbelow", lambda most: most - 1)
    first = await store.credentials.write(0, [key("a")])
    assert first == clock.now_ms * 256 + 255
    second = await store.credentials.write(first, [key("b")])
    assert second == first + 1
    clock.pass_ms(1_000)
    third = await store.credentials.write(second, [key("c")])
    assert third == clock.now_ms * 256 + 255
    # A clock that was set back makes no version lower.
    clock.pass_ms(-500_000)
    assert await store.credentials.write(third, [key("d")]) == third + 1


async def test_each_kind_of_entry_is_forgotten_by_its_own_name(store: Store) -> None:
    """An issuer may have the id of a key."""
    issuer = Issuer(id=key("a").id, issuer="https://acme.example")
    version = await store.credentials.write(0, [key("a"), key("b")], [issuer, ISSUER], {ACME: Revocation(1, 2)})
    assert version is not None
    version = await store.credentials.write(version, forget=[key_entry(key("a").id), issuer_entry("k1"), ACME])
    assert version is not None
    stored = await store.credentials.read()
    assert stored == Stored(version, {key("b").id: key("b")}, {issuer.id: issuer}, {})


async def test_many_changes_are_written_in_several_steps(store: Store) -> None:
    many = [key(str(number)) for number in range(2 * credentials.TOGETHER + 1)]
    version = await store.credentials.write(0, many)
    assert version is not None
    stored = await store.credentials.read()
    assert stored.version == version
    assert len(stored.credentials) == len(many)


async def test_no_change_is_no_version(store: Store) -> None:
    assert await store.credentials.write(0) == 0
    assert await store.credentials.version() == 0


@pytest.mark.parametrize(
    ("changed", "revocations"),
    [
        (key("a", created_by="x" * 129), {}),
        (key("a", tenant="Not A Tenant"), {}),
        (key("a", expires_ms=-1), {}),
        (key("a", digest="short"), {}),
        (key("a"), {"tenant/" + "x" * 2_000: Revocation(1, 2)}),
        (key("a"), {"something else": Revocation(1, 2)}),
    ],
)
async def test_what_could_not_be_read_is_not_written(
    store: Store, changed: Credential, revocations: dict[str, Revocation]
) -> None:
    with pytest.raises(ValueError, match="out of bounds"):
        await store.credentials.write(0, [changed], (), revocations)
    assert await store.credentials.read() == Stored(0, {}, {}, {})


@pytest.mark.parametrize("family", ["keys", "issuers", "void"])
async def test_garbage_is_skipped_and_reported(store: Store, family: str) -> None:
    version = await store.credentials.write(0, [key("a")], [ISSUER], {ACME: Revocation(1, 2)})
    assert version is not None
    honest = await store.credentials.read()
    assert store.unreadable.lately == []
    names = {"keys": store.keys.credentials, "issuers": store.keys.issuers, "void": store.keys.revocations}
    for number, rubbish in enumerate(RUBBISH):
        await store.line.call("HSET", names[family], f"tenant/{number}", rubbish)
        await store.line.call("HSET", names[family], rubbish, b"{}")
    assert await store.credentials.read() == honest
    assert store.unreadable.lately == [family]


async def test_an_entry_under_the_id_of_another_is_garbage(store: Store) -> None:
    """Or a revoked key could be given the id of one that is not."""
    version = await store.credentials.write(0, [key("a")], [ISSUER])
    assert version is not None
    for name in (store.keys.credentials, store.keys.issuers):
        flat = await store.line.call("HGETALL", name)
        await store.line.call("HSET", name, "another", flat[1])
    stored = await store.credentials.read()
    assert set(stored.credentials) == {key("a").id}
    assert set(stored.issuers) == {"k1"}
    assert store.unreadable.lately == ["issuers", "keys"]


@pytest.mark.parametrize("rubbish", [b"\xff", b"", b"x", b"-1", b"nan", b"1e3", b"9" * 16, b"9" * 400])
async def test_a_version_nobody_can_read_counts_as_none(store: Store, rubbish: bytes) -> None:
    """In the script as well, or nothing could ever be written again."""
    await store.line.call("SET", store.keys.credentials_version, rubbish)
    assert await store.credentials.version() == 0
    assert store.unreadable.lately == ["revision"]
    version = await store.credentials.write(0, [key("a")])
    assert version is not None
    assert await store.credentials.version() == version


async def test_keys_of_another_type_are_set_aside(store: Store) -> None:
    for name in (store.keys.credentials, store.keys.issuers, store.keys.revocations):
        await store.line.call("SET", name, "x")
    await store.line.call("RPUSH", store.keys.credentials_version, "x")
    assert await store.credentials.read() == Stored(0, {}, {}, {})
    assert await store.credentials.write(0, [key("a")]) is not None
    assert set((await store.credentials.read()).credentials) == {key("a").id}


async def test_a_private_key_is_written_so_that_an_older_release_cannot_read_it(store: Store) -> None:
    """It would ignore the mark, and put the node into public pools."""
    for number, tenant in enumerate(("acme", "default")):
        private = key(f"n{number}", kind=KeyKind.NODE, tenant=tenant, is_private=True)
        await store.credentials.write((await store.credentials.read()).version, [private])
        text = await store.line.call("HGET", store.keys.credentials, private.id)
        with pytest.raises(msgspec.ValidationError, match="tenant"):
            msgspec.json.decode(text, type=Credential)
        assert (await store.credentials.read()).credentials[private.id] == private


@pytest.mark.parametrize("is_private", [True, False])
async def test_a_mark_and_a_tenant_that_do_not_agree_are_garbage(store: Store, is_private: bool) -> None:
    one = key("n", kind=KeyKind.NODE, tenant="acme", is_private=is_private)
    tenant = "acme" if is_private else "@acme"
    text = msgspec.json.encode(msgspec.structs.replace(one, tenant=tenant)).decode()
    await store.line.call("HSET", store.keys.credentials, one.id, text)
    assert (await store.credentials.read()).credentials == {}
