"""Keys, issuers and revocations as an admin changes them: within its tenant, and as a whole or not at all."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from lingua_scheduler.domain.access.credentials import (
    KEEP_ENDED_MS,
    Credential,
    subject_name,
    tenant_name,
    token_name,
)
from lingua_scheduler.domain.access.key_wishes import IssuerWish, KeyWish
from lingua_scheduler.domain.access.principals import LOCAL, Denied, Principal, PrincipalKind
from lingua_scheduler.domain.access.scopes import ROLES, Role
from lingua_scheduler.services.access.book import CredentialBook
from lingua_scheduler.services.access.key_desk import NEVER_MS, CreatedKey, KeyDesk, Rotation
from lingua_scheduler.services.access.keys_file import KeysFile
from lingua_scheduler.store.connection import RedisAway
from lingua_scheduler.store.store import Store
from lingua_sdk.domain.key_texts import KeyKind, KeyText
from tests.support.clocks import Clock
from tests.support.credentials import key, keys_toml
from tests.support.servers import RedisProcess
from tests.support.tokens import ED25519, pem

DAY_MS = 86_400_000
NOW_MS = 1_700_000_000_000


def admin(tenant: str) -> Principal:
    return Principal(kind=PrincipalKind.OPERATOR, scopes=ROLES[Role.ADMIN], tenant=tenant, key_id="k")


ACME, BETA, ALL = admin("acme"), admin("beta"), admin("*")
MakeDesk = Callable[[], KeyDesk]


@pytest.fixture
def clock() -> Clock:
    return Clock(NOW_MS)


@pytest.fixture
def book(store: Store, clock: Clock) -> CredentialBook:
    return CredentialBook(store.credentials, wall_ms=clock, publish=lambda _: None)


@pytest.fixture
def desk(book: CredentialBook, clock: Clock) -> KeyDesk:
    return KeyDesk(book, DAY_MS, clock)


async def created(desk: KeyDesk, asker: Principal = ACME, wish: KeyWish | None = None) -> Credential:
    found = await desk.create(asker, wish or KeyWish(kind="service"))
    assert isinstance(found, CreatedKey)
    return found.credential


def refusal(found: object) -> tuple[int, str]:
    assert isinstance(found, Denied)
    return found.status, found.code


async def test_a_created_key_is_shown_once_and_kept_as_a_digest(
    desk: KeyDesk, book: CredentialBook, store: Store
) -> None:
    found = await desk.create(ACME, KeyWish(kind="client", name="kiosk"))
    assert isinstance(found, CreatedKey)
    text = KeyText.parse(found.text)
    assert (text.kind, text.id, text.digest) == (KeyKind.CLIENT, found.credential.id, found.credential.digest)
    assert (await store.credentials.read()).credentials == {text.id: found.credential}
    assert book.find(text.id) == found.credential
    # A traceback may show it.
    assert text.secret not in repr(found)


async def test_who_made_a_key_is_noted(desk: KeyDesk, book: CredentialBook) -> None:
    first = await created(desk, ACME, KeyWish(kind="operator", role=Role.ADMIN))
    assert first.created_by == "operator"
    maker = Principal(kind=PrincipalKind.OPERATOR, scopes=ROLES[Role.ADMIN], tenant="acme", key_id=first.id)
    assert (await created(desk, maker)).created_by == f"lk_op_{first.id}"
    assert (await created(desk, LOCAL)).created_by == "local"


async def test_an_admin_of_one_tenant_sees_only_its_keys(desk: KeyDesk) -> None:
    mine, theirs = await created(desk, ACME), await created(desk, BETA)
    for_all = await created(desk, ALL, KeyWish(kind="operator", role=Role.VIEWER, tenant="*"))
    assert desk.keys(ACME) == [mine]
    assert {one.id for one in desk.keys(ALL)} == {mine.id, theirs.id, for_all.id}
    assert desk.key(ACME, mine.id) == mine
    unknown = desk.key(ACME, "0" * 12)
    for foreign in (theirs.id, for_all.id):
        found = desk.key(ACME, foreign)
        assert refusal(found) == refusal(unknown) == (404, "UNKNOWN_KEY")
        assert isinstance(found, Denied)
        assert isinstance(unknown, Denied)
        assert found.detail.replace(foreign, "") == unknown.detail.replace("0" * 12, "")
        assert refusal(await desk.revoke(ACME, foreign)) == (404, "UNKNOWN_KEY")
        assert refusal(await desk.rotate(ACME, foreign, 0)) == (404, "UNKNOWN_KEY")
    assert desk.key(ALL, theirs.id) == theirs


@pytest.mark.parametrize(
    ("wish", "status"),
    [
        (KeyWish(kind="service", tenant="beta"), 403),
        (KeyWish(kind="service", act_for=("beta",)), 403),
        (KeyWish(kind="operator", role=Role.VIEWER, tenant="*"), 403),
        (KeyWish(kind="operator"), 400),
        (KeyWish(kind="service", networks=("x",)), 400),
    ],
    ids=["tenant", "act for", "all tenants", "no role", "network"],
)
async def test_what_may_not_be_given_is_not_created(desk: KeyDesk, store: Store, wish: KeyWish, status: int) -> None:
    found = await desk.create(ACME, wish)
    assert isinstance(found, Denied)
    assert found.status == status
    assert not (await store.credentials.read()).credentials


async def test_who_is_of_all_tenants_must_name_one(desk: KeyDesk) -> None:
    for wish in (KeyWish(kind="service"), KeyWish(kind="operator", role=Role.ADMIN)):
        assert refusal(await desk.create(ALL, wish)) == (400, "INVALID_MESSAGE")
    assert (await created(desk, ALL, KeyWish(kind="service", tenant="beta"))).tenant == "beta"


async def test_a_rotated_key_is_valid_until_the_overlap_is_over(
    desk: KeyDesk, book: CredentialBook, clock: Clock
) -> None:
    before = await created(desk)
    done = await desk.rotate(ACME, before.id, 5_000)
    assert isinstance(done, Rotation)
    after = done.created.credential
    assert KeyText.parse(done.created.text).digest == after.digest != before.digest
    assert (done.before.successor, done.before.expires_ms) == (after.id, NOW_MS + 5_000)
    assert after.scopes == before.scopes
    clock.now_ms = NOW_MS + 4_999
    assert [one.is_live(clock()) for one in desk.keys(ACME)] == [True, True]
    clock.now_ms = NOW_MS + 5_000
    assert [one.id for one in desk.keys(ACME) if one.is_live(clock())] == [after.id]
    assert desk.key(ACME, before.id) == book.find(before.id) == done.before


async def test_without_overlap_the_former_key_is_revoked(desk: KeyDesk) -> None:
    before = await created(desk)
    done = await desk.rotate(ACME, before.id, 0)
    assert isinstance(done, Rotation)
    assert done.before.revoked_ms == NOW_MS


async def test_a_rotation_never_lengthens_a_life(desk: KeyDesk) -> None:
    before = await created(desk, ACME, KeyWish(kind="service", expires_in_ms=1_000))
    done = await desk.rotate(ACME, before.id, DAY_MS)
    assert isinstance(done, Rotation)
    assert done.before.expires_ms == before.expires_ms


async def test_a_key_is_rotated_once_and_not_after_its_end(desk: KeyDesk) -> None:
    one, other = await created(desk), await created(desk)
    done = await asyncio.gather(*(desk.rotate(ACME, one.id, 1_000) for _ in range(5)))
    assert sum(isinstance(found, Rotation) for found in done) == 1
    assert {found.code for found in done if isinstance(found, Denied)} == {"KEY_CONFLICT"}
    assert len(desk.keys(ACME)) == 3
    await desk.revoke(ACME, other.id)
    found = await desk.rotate(ACME, other.id, 0)
    assert refusal(found) == (409, "KEY_CONFLICT")
    assert isinstance(found, Denied)
    assert "has ended" in found.detail


async def test_a_rotation_gives_no_rights_that_its_asker_has_not(desk: KeyDesk) -> None:
    """The asker gets to know the successor, so it would have what the key has."""
    acting = await created(desk, ALL, KeyWish(kind="service", tenant="acme", act_for=("beta",)))
    assert refusal(await desk.rotate(ACME, acting.id, 0)) == (403, "PERMISSION_DENIED")
    assert len(desk.keys(ALL)) == 1
    # To end it takes nothing from another tenant.
    assert not isinstance(await desk.revoke(ACME, acting.id), Denied)


async def test_a_key_of_the_file_cannot_be_given_an_end_beside_the_file(
    store: Store, clock: Clock, tmp_path: Path
) -> None:
    of_file = key("of file")
    book = CredentialBook(
        store.credentials, wall_ms=clock, publish=lambda _: None, keys_file=KeysFile(keys_toml(tmp_path, of_file))
    )
    await book.open()
    desk = KeyDesk(book, DAY_MS, clock)
    assert refusal(await desk.rotate(LOCAL, of_file.id, 1_000)) == (409, "KEY_CONFLICT")
    assert [one.id for one in desk.keys(LOCAL)] == [of_file.id]
    assert isinstance(await desk.rotate(LOCAL, of_file.id, 0), Rotation)
    ended = book.find(of_file.id)
    assert ended is not None
    assert ended.revoked_ms


async def test_a_revoked_key_stays_revoked_at_the_first_time(desk: KeyDesk, clock: Clock) -> None:
    made = await created(desk)
    first = await desk.revoke(ACME, made.id)
    clock.now_ms += 60_000
    again = await desk.revoke(ACME, made.id)
    assert first == again
    assert isinstance(again, Credential)
    assert again.revoked_ms == NOW_MS


async def test_a_key_that_another_instance_has_just_made_can_be_revoked(
    desk: KeyDesk, store: Store, clock: Clock
) -> None:
    await desk.revoke(ACME, "0" * 12)
    other = KeyDesk(CredentialBook(store.credentials, wall_ms=clock, publish=lambda _: None), DAY_MS, clock)
    made = await created(other)
    assert isinstance(await desk.revoke(ACME, made.id), Credential)


async def test_without_room_nothing_is_created(desk: KeyDesk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lingua_scheduler.domain.access.credential_sets.MAX_CREDENTIALS", 1)
    before = await created(desk)
    assert refusal(await desk.create(ACME, KeyWish(kind="service"))) == (409, "KEY_CONFLICT")
    assert refusal(await desk.rotate(ACME, before.id, 0)) == (409, "KEY_CONFLICT")
    assert desk.keys(ACME) == [before]


async def test_while_redis_is_away_nothing_changes(desk: KeyDesk, server: RedisProcess, store: Store) -> None:
    made = await created(desk)
    await store.close()
    for change in (
        desk.create(ACME, KeyWish(kind="service")),
        desk.rotate(ACME, made.id, 0),
        desk.revoke(ACME, made.id),
        desk.void_tenant(ACME, "acme"),
    ):
        with pytest.raises(RedisAway):
            await change
    assert desk.keys(ACME) == [made]


ISSUER = IssuerWish(id="app", issuer="https://app.example", public_key=pem(ED25519))


async def test_issuers_are_of_a_tenant_like_keys(desk: KeyDesk) -> None:
    added = await desk.add_issuer(ACME, ISSUER)
    assert not isinstance(added, Denied)
    assert (desk.issuers(ACME), desk.issuers(BETA), desk.issuers(ALL)) == ([added], [], [added])
    assert refusal(await desk.revoke_issuer(BETA, "app")) == (404, "UNKNOWN_ISSUER")
    # An id is `kid` of tokens, so there is only one of it.
    assert refusal(await desk.add_issuer(BETA, ISSUER)) == (409, "KEY_CONFLICT")
    ended = await desk.revoke_issuer(ACME, "app")
    assert not isinstance(ended, Denied)
    assert ended.revoked_ms == NOW_MS


async def test_an_issuer_cannot_take_the_id_of_a_key(desk: KeyDesk) -> None:
    made = await created(desk, BETA)
    wish = IssuerWish(id=made.id, issuer="https://app.example", public_key=pem(ED25519))
    assert refusal(await desk.add_issuer(ACME, wish)) == (409, "KEY_CONFLICT")
    assert not desk.issuers(ALL)


async def test_an_issuer_that_is_foreign_or_unusable_is_not_added(desk: KeyDesk) -> None:
    for changed, status in (({"tenant": "beta"}, 403), ({"act_for": ("*",)}, 403), ({"public_key": "x"}, 400)):
        wish = IssuerWish(**{"id": "app", "issuer": "i", "public_key": pem(ED25519)} | changed)
        found = await desk.add_issuer(ACME, wish)
        assert isinstance(found, Denied)
        assert found.status == status
    assert refusal(await desk.add_issuer(ALL, ISSUER)) == (400, "INVALID_MESSAGE")


async def test_a_tenant_a_subject_or_a_token_is_void_from_now_on(
    desk: KeyDesk, book: CredentialBook, store: Store
) -> None:
    made = await created(desk)
    assert await desk.void_tenant(ACME, "acme") == NOW_MS
    assert await desk.void_subject(ACME, "acme", "user/7") == NOW_MS
    assert await desk.void_token(ACME, made.id, "t-1") == NOW_MS
    names = (tenant_name("acme"), subject_name("acme", "user/7"), token_name(made.id, "t-1"))
    assert [book.void_before(name) for name in names] == [NOW_MS] * 3
    # Keys of the tenant may have no end, tokens have one.
    kept = (await store.credentials.read()).revocations
    assert [kept[name].until_ms for name in names] == [NEVER_MS, *[NOW_MS + KEEP_ENDED_MS] * 2]


async def test_nothing_of_another_tenant_is_voided(desk: KeyDesk, store: Store) -> None:
    theirs = await created(desk, BETA)
    assert refusal(await desk.void_tenant(ACME, "beta")) == (403, "PERMISSION_DENIED")
    assert refusal(await desk.void_subject(ACME, "beta", "user-7")) == (403, "PERMISSION_DENIED")
    assert refusal(await desk.void_token(ACME, theirs.id, "t-1")) == (404, "UNKNOWN_KEY")
    # Made without a key, by who needed none.
    assert refusal(await desk.void_token(ACME, "", "t-1")) == (403, "PERMISSION_DENIED")
    assert not (await store.credentials.read()).revocations
    assert await desk.void_token(LOCAL, "", "t-1") == NOW_MS
    assert await desk.void_token(ALL, theirs.id, "t-1") == NOW_MS
