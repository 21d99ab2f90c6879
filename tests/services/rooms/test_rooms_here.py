"""Rooms at an instance: their members see every change, but not each of a thousand, and nothing is kept of a room
that is left."""

from lingua_scheduler.services.rooms.room_here import MEMBERS_SHOWN_S
from lingua_scheduler.services.rooms.rooms_here import ENDS
from tests.support.room_scene import NAME, Scene
from tests.support.waiting import until


async def test_the_first_change_is_shown_at_once() -> None:
    scene = Scene()
    a = scene.join("a")
    assert a.kinds == ["room_create_ack", "room_members"]
    scene.now_s += 1.0
    b = scene.join("b")
    assert a.lists[-1] == b.lists[-1] == ["a", "b"]
    assert b.kinds[:2] == ["room_create_ack", "room_members"]


async def test_of_a_storm_of_joins_the_members_see_the_first_and_the_latest_list() -> None:
    scene = Scene()
    a = scene.join("a")
    count = 60
    for number in range(count):
        scene.join(f"m{number}")
    # One at once; each of the others is in the next list, and is acknowledged with it.
    assert len(a.lists) == 2
    scene.now_s += MEMBERS_SHOWN_S
    await until(lambda: all(peer.lists and peer.lists[-1] == scene.listed for peer in scene.peers.values()))
    assert all(peer.kinds[0] == "room_create_ack" for peer in scene.peers.values())
    assert sum(len(peer.lists) for peer in scene.peers.values()) <= 3 * count


async def test_a_joiner_enters_no_earlier_than_the_others_see_it() -> None:
    """It may offer its voice at once, and an existing page refuses offers of those whom it does not see."""
    scene = Scene()
    a = scene.join("a")
    scene.join("b")
    c = scene.join("c")
    assert (a.lists[-1], c.kinds) == (["a", "b"], [])
    scene.now_s += MEMBERS_SHOWN_S
    await until(lambda: c.kinds)
    assert a.lists[-1] == c.lists[-1] == ["a", "b", "c"]
    assert c.kinds == ["room_create_ack", "room_members"]


async def test_what_is_known_of_a_member_goes_with_it_also_before_it_has_entered() -> None:
    scene = Scene()
    scene.join("a")
    scene.join("b", frozenset({"a"}), wants_servers=True)
    here = scene.rooms.find(NAME)
    assert here is not None
    here.turn_nodes("b")
    here.note_told("b", 3)
    assert here.wants_servers == {"b"}
    scene.leave("b")
    assert not here.wants_servers
    assert not here.translating
    assert not here.told
    assert not here.staging.is_entering("b")
    scene.leave("a")
    assert len(scene.rooms) == 0
    assert not here.showing.is_waiting


async def test_members_that_another_instance_has_now_leave_nothing_behind() -> None:
    scene = Scene()
    scene.join("a")
    scene.join("b")
    here = scene.rooms.find(NAME)
    assert here is not None
    here.turn_nodes("b")
    # It stays a member.
    scene.rooms.forget(scene.sessions["b"])
    assert not here.translating
    scene.rooms.end(here, "closed")
    assert scene.peers["a"].heard[-1]["message"] == ENDS["closed"]
