"""Invalid entries are counted, and told once in a while."""

from lingua_scheduler.store import unreadable
from lingua_scheduler.store.store import Store
from lingua_scheduler.telemetry import metrics


async def test_what_is_met_is_told_once_in_a_while_and_counted(store: Store) -> None:
    now_s = 0.0
    met = unreadable.UnreadableKeys(lambda: now_s)
    before = metrics.UNREADABLE_DATA.labels("leases")._value.get()
    for _ in range(100):
        met.met("leases", "\udcff\x1b[31m")
    assert metrics.UNREADABLE_DATA.labels("leases")._value.get() == before + 100
    assert met.lately == ["leases"]
    now_s = unreadable.LATELY_S + 1
    assert met.lately == []
    assert "\x1b" not in unreadable.printable("\udcff\x1b[31m")
