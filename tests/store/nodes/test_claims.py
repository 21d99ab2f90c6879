import asyncio

from lingua_scheduler.store.store import Store

ADA, BOB = "a" * 32, "b" * 32


async def test_an_id_belongs_to_the_principal_that_came_first(store: Store) -> None:
    claim = store.claims.claim
    assert await claim("n1", ADA, "acme", is_bound=False) == "claimed"
    assert await claim("n1", ADA, "acme", is_bound=False) == "claimed"
    assert await claim("n1", BOB, "acme", is_bound=False) == "foreign"
    assert await claim("n2", BOB, "acme", is_bound=False) == "claimed"
    assert await claim("n1", ADA, "acme", is_bound=False) == "claimed"


async def test_a_bound_key_takes_its_id(store: Store) -> None:
    await store.claims.claim("n1", ADA, "acme", is_bound=False)
    assert await store.claims.claim("n1", BOB, "acme", is_bound=True) == "took"
    assert await store.claims.claim("n1", BOB, "acme", is_bound=True) == "claimed"
    assert await store.claims.claim("n1", ADA, "acme", is_bound=False) == "foreign"


async def test_of_many_one_gets_a_free_id(store: Store) -> None:
    whose = [f"{number:032x}" for number in range(20)]
    outcomes = await asyncio.gather(*(store.claims.claim("n1", one, "acme", is_bound=False) for one in whose))
    assert sorted(outcomes) == ["claimed", *["foreign"] * 19]


async def test_a_claim_expires_more_than_a_day_after_it_was_renewed(store: Store) -> None:
    await store.claims.claim("n1", ADA, "acme", is_bound=False)
    key = store.keys.node_claim("n1")
    assert await store.line.call("PTTL", key) > 24 * 3_600_000
    await store.line.call("PEXPIRE", key, 1_000)
    await store.claims.claim("n1", BOB, "acme", is_bound=False)
    assert await store.line.call("PTTL", key) <= 1_000


async def test_a_bound_key_takes_no_id_from_another_tenant(store: Store) -> None:
    await store.claims.claim("n1", ADA, "acme", is_bound=False)
    assert await store.claims.claim("n1", BOB, "beta", is_bound=True) == "foreign"
    assert await store.claims.claim("n1", ADA, "acme", is_bound=False) == "claimed"


async def test_a_claim_without_a_tenant_is_still_read(store: Store) -> None:
    await store.line.call("SET", store.keys.node_claim("n1"), ADA)
    assert await store.claims.claim("n1", BOB, "beta", is_bound=False) == "foreign"
    assert await store.claims.claim("n1", ADA, "acme", is_bound=False) == "claimed"
    await store.line.call("SET", store.keys.node_claim("n1"), ADA)
    assert await store.claims.claim("n1", BOB, "beta", is_bound=True) == "took"
