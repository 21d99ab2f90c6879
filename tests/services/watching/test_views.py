"""The pictures of single tenants, each made once."""

from typing import Any, cast

import pytest

from lingua_scheduler.domain.watching.picture import Event, Level, Picture
from lingua_scheduler.services.watching import views as module
from lingua_scheduler.services.watching.views import Views
from tests.support.pictures import after, node, picture

WHOLE = picture(nodes=[node("mine", tenant="acme"), node("theirs", tenant="beta")])


class Shown:
    """The snapshots, with one picture."""

    def __init__(self, latest: Picture | None = WHOLE) -> None:
        self.latest = latest
        self.events = [
            Event(at_ms=at_ms, kind="node.joined", level=Level.NOTICE, subject="", text="", tenant=tenant)
            for at_ms, tenant in enumerate(("acme", "beta", "acme"))
        ]

    async def read(self) -> Picture | None:
        return self.latest


def views_of(shown: Shown) -> Views:
    return Views(cast("Any", shown))


async def test_all_see_the_picture_itself_and_a_tenant_its_own() -> None:
    views = views_of(Shown())
    assert await views.read(None) is WHOLE
    mine = await views.read("acme")
    assert [one.node_id for one in mine.nodes] == ["mine"]
    assert await views.read("acme") is mine
    later = after(WHOLE, nodes=[])
    assert views.of(later, "acme").nodes == []
    # The one before is still known: a change is told from both.
    assert views.of(WHOLE, "acme") is mine


async def test_events_and_names_are_the_tenants() -> None:
    views = views_of(Shown())
    assert [event.at_ms for event in views.events("acme")] == [0, 2]
    assert [event.at_ms for event in views.events(None)] == [0, 1, 2]
    assert (views.nodes_of("acme"), views.nodes_of("gamma"), views.nodes_of(None)) == ({"mine"}, set(), None)
    assert views_of(Shown(None)).nodes_of("acme") == set()


async def test_only_so_many_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "REMEMBERED", 3)
    views = views_of(Shown())
    first = views.of(WHOLE, "t-0")
    for number in range(1, 5):
        views.of(WHOLE, f"t-{number}")
    assert len(views._narrowed) == 3
    assert views.of(WHOLE, "t-0") is not first
