"""Joining, approving and banning, on a real Redis and with several instances."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from lingua_scheduler.domain.access.credentials import Credential
from lingua_scheduler.domain.access.enrolment import EnrolmentRefused, NodeIdTaken
from lingua_scheduler.domain.access.principals import LOCAL, Principal, PrincipalKind, holder_of
from lingua_scheduler.domain.access.scopes import ROLES, Role
from lingua_scheduler.domain.nodes.nodes import NodeClaimOutcome
from lingua_scheduler.services.access.book import CredentialBook
from lingua_scheduler.services.access.enrolment import ABSENT_MS, Absences, Enrolment
from lingua_scheduler.services.access.keys_file import KeysFile
from lingua_scheduler.store.connection import RedisAway
from lingua_scheduler.store.store import Store
from lingua_sdk.domain.key_texts import KeyKind
from lingua_sdk.identity import KeyPair
from tests.support.clocks import Clock
from tests.support.credentials import key

ENROL = key("enrol", kind=KeyKind.ENROLMENT, tenant="acme", labels={"region": "us"}, max_slots=4)
ONCE = key("once", kind=KeyKind.ENROLMENT, tenant="acme", max_nodes=1)
PENDING = key("pending", kind=KeyKind.ENROLMENT, tenant="acme", needs_approval=True)
EPHEMERAL = key("ephemeral", kind=KeyKind.ENROLMENT, tenant="acme", is_ephemeral=True)
NODE_OF_FILE = "aaaaaaaaaaaa"


def operator(tenant: str) -> Principal:
    return Principal(kind=PrincipalKind.OPERATOR, scopes=ROLES[Role.ADMIN], tenant=tenant, key_id="k")


ALL, ACME, BETA = operator("*"), operator("acme"), operator("beta")


@pytest.fixture
def clock() -> Clock:
    return Clock(1_700_000_000_000)


@pytest.fixture
def instance(store: Store, clock: Clock) -> Callable[[], Awaitable[Enrolment]]:
    """Another instance, with a book of its own that knows the enrolment keys."""

    async def make() -> Enrolment:
        book = CredentialBook(store.credentials, wall_ms=clock, publish=lambda _: None)
        await book.open()
        for one in (ENROL, ONCE, PENDING, EPHEMERAL):
            await book.add(one)
        return Enrolment(book, store.claims, clock)

    return make


Instance = Callable[[], Awaitable[Enrolment]]


def public_key() -> str:
    return KeyPair().public_text


async def test_a_node_joins_with_an_id_of_its_own_or_a_made_one(instance: Instance) -> None:
    enrolment = await instance()
    made = await enrolment.enrol(ENROL.id, public_key(), "gpu-7")
    assert (made.node_id, made.tenant, made.labels, made.max_slots) == ("gpu-7", "acme", {"region": "us"}, 4)
    assert (await enrolment.enrol(ENROL.id, public_key())).node_id.startswith("node-")
    assert enrolment._book.find(made.id) == made


async def test_80_of_20_that_race_for_a_single_use_key_one_joins(instance: Instance) -> None:
    instances = [await instance() for _ in range(3)]
    outcomes = await asyncio.gather(
        *(instances[number % 3].enrol(ONCE.id, public_key(), f"n{number}") for number in range(20)),
        return_exceptions=True,
    )
    joined = [one for one in outcomes if isinstance(one, Credential)]
    refused = [one for one in outcomes if isinstance(one, EnrolmentRefused)]
    assert (len(joined), len(refused)) == (1, 19)
    stored = (await instances[0]._book._store.read()).credentials
    assert [one.id for one in stored.values() if one.enrolled_with] == [joined[0].id]


async def test_81_a_key_lets_in_as_many_as_it_says_at_three_instances(instance: Instance) -> None:
    instances = [await instance() for _ in range(3)]
    three = key("three", kind=KeyKind.ENROLMENT, max_nodes=3)
    await instances[0]._book.add(three)
    for other in instances:
        await other._book.refresh()
    outcomes = await asyncio.gather(
        *(instances[number % 3].enrol(three.id, public_key()) for number in range(9)), return_exceptions=True
    )
    assert sum(isinstance(one, Credential) for one in outcomes) == 3
    assert all("used up" in str(one) for one in outcomes if isinstance(one, Exception))


async def test_a_used_up_key_ends_and_the_node_that_has_it_may_ask_again_until_then(
    instance: Instance, clock: Clock
) -> None:
    enrolment, mine = await instance(), public_key()
    made = await enrolment.enrol(ONCE.id, mine)
    assert await enrolment.enrol(ONCE.id, mine) == made
    clock.pass_ms(3_600_001)
    with pytest.raises(EnrolmentRefused, match="ended"):
        await enrolment.enrol(ONCE.id, mine)


@pytest.mark.parametrize("key_id", ["", "unknown00000"])
async def test_81_nothing_but_a_valid_enrolment_key_lets_a_node_join(instance: Instance, key_id: str) -> None:
    enrolment = await instance()
    with pytest.raises(EnrolmentRefused, match="enrolment key"):
        await enrolment.enrol(key_id, public_key())
    node = await enrolment.enrol(ENROL.id, public_key())
    with pytest.raises(EnrolmentRefused, match="enrolment key"):
        await enrolment.enrol(node.id, public_key())
    await enrolment._book.end(ENROL.id, at_ms=1)
    with pytest.raises(EnrolmentRefused, match="ended"):
        await enrolment.enrol(ENROL.id, public_key())


async def test_an_id_of_a_connected_node_is_not_given_away(instance: Instance, store: Store) -> None:
    enrolment = await instance()
    await store.claims.claim("gpu-7", "f" * 32, "acme", is_bound=False)
    with pytest.raises(NodeIdTaken, match="gpu-7"):
        await enrolment.enrol(ONCE.id, public_key(), "gpu-7")
    # And the key is still good for another id.
    assert (await enrolment.enrol(ONCE.id, public_key(), "gpu-8")).node_id == "gpu-8"
    with pytest.raises(NodeIdTaken):
        await enrolment.enrol(ENROL.id, public_key(), "gpu-8")


async def test_a_used_up_key_claims_no_id(instance: Instance, store: Store) -> None:
    enrolment = await instance()
    await enrolment.enrol(ONCE.id, public_key(), "mine")
    with pytest.raises(EnrolmentRefused):
        await enrolment.enrol(ONCE.id, public_key(), "victim")
    assert await store.claims.claim("victim", "f" * 32, "acme", is_bound=False) is NodeClaimOutcome.CLAIMED


async def test_the_id_of_a_banned_node_is_free_for_its_tenant(instance: Instance, store: Store) -> None:
    enrolment = await instance()
    first = await enrolment.enrol(ENROL.id, public_key(), "gpu-7")
    assert (
        await store.claims.claim("gpu-7", holder_of(first).owner_digest, first.tenant, is_bound=True)
        is NodeClaimOutcome.CLAIMED
    )
    await enrolment.ban(ALL, "gpu-7")
    assert (await enrolment.enrol(ENROL.id, public_key(), "gpu-7")).id != first.id


async def test_a_banned_node_does_not_come_back_with_its_key_pair(instance: Instance) -> None:
    enrolment, mine = await instance(), public_key()
    await enrolment.enrol(ENROL.id, mine, "gpu-7")
    assert [one.node_id for one in await enrolment.ban(ACME, "gpu-7")] == ["gpu-7"]
    assert await enrolment.ban(ACME, "gpu-7") == []
    with pytest.raises(EnrolmentRefused, match="banned"):
        await enrolment.enrol(ENROL.id, mine, "gpu-7")


async def test_an_operator_approves_and_bans_the_nodes_of_its_tenant_alone(instance: Instance) -> None:
    enrolment = await instance()
    await enrolment.enrol(ENROL.id, public_key(), "ready")
    await enrolment.enrol(PENDING.id, public_key(), "waits")
    for who in (ALL, ACME, LOCAL):
        assert [one.node_id for one in enrolment.nodes(who)] == ["waits", "ready"]
    assert enrolment.nodes(BETA) == []
    assert await enrolment.approve(BETA, "waits") is None
    assert await enrolment.ban(BETA, "waits") == []
    assert enrolment.of_node(ACME, "waits")[0].is_pending
    approved = await enrolment.approve(ACME, "waits")
    assert approved is not None
    assert not approved.is_pending
    assert await enrolment.approve(ACME, "waits") == approved
    assert await enrolment.approve(ACME, "nobody") is None


async def test_an_approval_reaches_other_instances_and_survives_an_emptied_redis(
    instance: Instance, store: Store
) -> None:
    one, other = await instance(), await instance()
    await one.enrol(PENDING.id, public_key(), "waits")
    await one.approve(ALL, "waits")
    await other._book.refresh()
    assert not other.of_node(ALL, "waits")[0].is_pending
    await store.line.call("FLUSHALL")
    await other._book.refresh()
    fresh = await instance()
    assert not fresh.of_node(ALL, "waits")[0].is_pending


async def test_a_key_of_the_file_is_used_up_without_an_entry_in_redis(
    store: Store, clock: Clock, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("keys") / "keys.toml"
    path.write_text(f'[[keys]]\nid = "{NODE_OF_FILE}"\nkind = "enrolment"\ndigest = "{"0" * 64}"\nmax_nodes = 1\n')
    path.chmod(0o600)
    book = CredentialBook(store.credentials, wall_ms=clock, publish=lambda _: None, keys_file=KeysFile(path))
    await book.open()
    enrolment = Enrolment(book, store.claims, clock)
    await enrolment.enrol(NODE_OF_FILE, public_key())
    with pytest.raises(EnrolmentRefused, match="used up"):
        await enrolment.enrol(NODE_OF_FILE, public_key())
    assert NODE_OF_FILE not in (await store.credentials.read()).credentials


class Fleet:
    """Which nodes are connected, as the store tells it."""

    def __init__(self) -> None:
        self.present: set[str] | None = set()

    async def __call__(self) -> set[str]:
        if self.present is None:
            raise RedisAway("away")
        return self.present


async def test_an_ephemeral_node_ends_when_it_stays_away(instance: Instance, clock: Clock) -> None:
    enrolment, fleet, mine = await instance(), Fleet(), public_key()
    absences = Absences(enrolment._book, fleet, clock)
    gone = await enrolment.enrol(EPHEMERAL.id, mine, "gone")
    await enrolment.enrol(EPHEMERAL.id, public_key(), "here")
    await enrolment.enrol(ENROL.id, public_key(), "lasting")
    fleet.present = {"here", "gone"}
    await absences.look()
    fleet.present = {"here"}
    for _ in range(11):
        clock.pass_ms(ABSENT_MS // 10)
        await absences.look()
    clock.pass_ms(1_000)
    assert [one.node_id for one in enrolment.nodes(ALL)] == ["here", "lasting"]
    # It was not banned: it may join again, and is another credential then.
    assert (await enrolment.enrol(EPHEMERAL.id, mine, "gone")).id != gone.id


async def test_a_node_that_comes_back_in_time_stays(instance: Instance, clock: Clock) -> None:
    enrolment, fleet = await instance(), Fleet()
    absences = Absences(enrolment._book, fleet, clock)
    await enrolment.enrol(EPHEMERAL.id, public_key(), "n")
    for present in (set[str](), {"n"}, set[str]()):
        fleet.present = present
        await absences.look()
        clock.pass_ms(ABSENT_MS - 1)
    await absences.look()
    clock.pass_ms(1_000)
    assert [one.node_id for one in enrolment.nodes(ALL)] == ["n"]


@pytest.mark.parametrize("what", ["redis away", "another leads"])
async def test_who_could_not_look_does_not_count_the_time(instance: Instance, clock: Clock, what: str) -> None:
    enrolment, fleet = await instance(), Fleet()
    absences = Absences(enrolment._book, fleet, clock)
    await enrolment.enrol(EPHEMERAL.id, public_key(), "n")
    await absences.look()
    clock.pass_ms(ABSENT_MS)
    if what == "redis away":
        fleet.present = None
        with pytest.raises(RedisAway):
            await absences.look()
        fleet.present = set()
    else:
        absences.forget()
    await absences.look()
    clock.pass_ms(1_000)
    assert enrolment.nodes(ALL)
