"""Every key has a family, and names of others have none."""

from lingua_scheduler.store.keys import FAMILIES, TABLE, Keys
from tests.support.fleet import POOL


def test_every_key_has_a_family_and_a_name() -> None:
    assert len(FAMILIES) == len([doc for doc in TABLE if doc.type != "channel"])
    keys = Keys("p")
    shard = keys.shard(12)
    for key, name in (
        (shard.leases, "leases"),
        (shard.pool(POOL), "pool"),
        (shard.node("n"), "node"),
        (keys.parked("s"), "parked"),
        (keys.session("s"), "session"),
        (keys.aside(keys.session("s")), "unreadable"),
    ):
        family = keys.family_of(key)
        assert family is not None
        assert family.name == name
    assert keys.family_of("p:something:else") is None
    assert keys.family_of("q:{s1}:leases") is None
