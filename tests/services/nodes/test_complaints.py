"""Complaints of nodes about missing services: written once, in the background, and bounded."""

import pytest

from lingua_scheduler.services.nodes import complaints as complaining
from lingua_scheduler.services.nodes.complaints import Complaints
from lingua_scheduler.services.nodes.links import NodeLink
from lingua_scheduler.store.connection import RedisAway
from lingua_scheduler.store.store import Store
from lingua_scheduler.telemetry import metrics
from tests.support.connected import connected_to, registered
from tests.support.waiting import until


@pytest.fixture
async def link(store: Store) -> NodeLink:
    return await registered(connected_to(store))


def counted(outcome: str) -> float:
    return metrics.REGISTRY.get_sample_value("lingua_node_complaints_total", {"outcome": outcome}) or 0.0


async def lacking(store: Store) -> int:
    view = await store.node_views.one("n1", 0)
    assert view is not None
    return len(view.unavailable)


async def test_a_service_that_a_node_lacks_is_unavailable_there_and_said_once(store: Store, link: NodeLink) -> None:
    complaints = Complaints(store.services, 60_000)
    before = counted("suspended"), counted("debounced")
    complaints.take(link, {"service_id": "whisper"})
    complaints.take(link, {"service_id": "whisper"})
    assert len(complaints) == 1
    await until(lambda: counted("suspended") == before[0] + 1)
    assert counted("debounced") == before[1] + 1
    assert len(complaints) == 0
    assert await lacking(store)
    # And the next one is written too.
    complaints.take(link, {"service_id": "another"})
    await until(lambda: counted("suspended") == before[0] + 2)
    await complaints.close()


async def test_many_complaints_are_written_one_after_another(store: Store, link: NodeLink) -> None:
    complaints, before = Complaints(store.services, 60_000), counted("suspended")
    for number in range(5):
        complaints.take(link, {"service_id": f"s{number}"})
    assert (len(complaints), len(complaints._tasks)) == (5, 1)
    await until(lambda: counted("suspended") == before + 5)
    await complaints.close()


async def test_complaints_that_find_no_room_or_no_redis_are_dropped_and_the_next_is_written(
    store: Store, link: NodeLink, monkeypatch: pytest.MonkeyPatch
) -> None:
    complaints = Complaints(store.services, 60_000)
    before = counted("dropped"), counted("suspended")
    with monkeypatch.context() as patch:
        patch.setattr(complaining, "MAX_WAITING", 1)
        complaints.take(link, {"service_id": "a"})
        complaints.take(link, {"service_id": "b"})
        assert (len(complaints), counted("dropped")) == (1, before[0] + 1)
        await until(lambda: counted("suspended") == before[1] + 1)

    async def fail(*_: object) -> None:
        raise RedisAway("gone at that moment")

    with monkeypatch.context() as patch:
        patch.setattr(store.services, "suspend", fail)
        complaints.take(link, {"service_id": "c"})
        await until(lambda: counted("dropped") == before[0] + 2)
    complaints.take(link, {"service_id": "d"})
    await until(lambda: counted("suspended") == before[1] + 2)
    await complaints.close()


async def test_a_complaint_of_a_node_that_left_changes_nothing(store: Store, link: NodeLink) -> None:
    await store.nodes.remove(0, link.owner, "n1", link.pools)
    complaints, before = Complaints(store.services, 60_000), counted("gone")
    complaints.take(link, None)
    await until(lambda: counted("gone") == before + 1)
    await complaints.close()
