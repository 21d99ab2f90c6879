"""Which dead instances are missed: not those that another process replaced at the same host and port."""

from collections.abc import Sequence

from lingua_scheduler.domain.watching.picture import InstanceLook

# How far the clock of an instance, which says when it started, and that of Redis may be apart.
SKEW_MS = 2_000


def missed(instances: Sequence[InstanceLook], at_ms: int) -> list[InstanceLook]:
    """Dead instances without a successor, by the time of their last heartbeat.

    An instance succeeds one dead instance that was last heard before it started: workers share a port, and one new
    worker does not replace two.
    """
    free = sorted(instances, key=lambda one: one.started_at_ms)
    found = []
    for dead in sorted(instances, key=lambda one: -one.silent_ms):
        if dead.is_alive or dead.has_left:
            continue
        successor = next((one for one in free if _follows(one, dead, at_ms)), None)
        if successor is None:
            found.append(dead)
        else:
            free.remove(successor)
    return found


def _follows(one: InstanceLook, dead: InstanceLook, at_ms: int) -> bool:
    heard_at_ms = at_ms - dead.silent_ms
    return (
        _place(one) == _place(dead)
        and one.started_at_ms > dead.started_at_ms
        and one.started_at_ms >= heard_at_ms - SKEW_MS
    )


def _place(instance: InstanceLook) -> tuple[str, str]:
    """Its host and port; the address has the interface it listens on, which may be any."""
    return instance.host, instance.address.rpartition(":")[2]
