"""A key of another type than we keep there is set aside."""

from lingua_scheduler.domain.jobs.attempts import DispatchOutcome
from lingua_scheduler.store.maintenance.checkup import Checkup
from lingua_scheduler.store.store import Store
from lingua_scheduler.telemetry import metrics
from tests.support.fleet import RULES, entry, join, order


async def test_a_key_of_another_type_is_set_aside_and_the_call_goes_on(store: Store) -> None:
    before = metrics.UNREADABLE_DATA.labels("leases")._value.get()
    await store.line.call("SET", store.keys.shard(0).leases, "not ours")
    await join(store, entry("n1"))
    assert (await store.jobs.dispatch(0, order(1), RULES)).outcome is DispatchOutcome.DISPATCHED
    aside = store.keys.aside(store.keys.shard(0).leases)
    assert await store.line.call("GET", aside) == "not ours"
    assert metrics.UNREADABLE_DATA.labels("leases")._value.get() == before + 1
    assert store.unreadable.lately == ["leases"]
    (finding,) = [one for one in await Checkup(store).look(settle_s=0) if one.key == aside]
    await Checkup(store).repair([finding])
    assert await store.line.call("EXISTS", aside) == 0
