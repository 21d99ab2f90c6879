"""Who follows a picture by its changes sees what the scheduler sees."""

from itertools import pairwise

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lingua_scheduler.domain.watching.changes import delta
from lingua_scheduler.domain.watching.following import MAX_EVENTS, Change, NodeLoad, OutOfStep, Seen, Whole, follow
from lingua_scheduler.domain.watching.picture import Level, Picture
from tests.support.watched import AT_MS, alarm, event, instance, moment, node, pair, picture


def change(serial: int = 2, **parts: object) -> Change:
    return Change(serial=serial, at_ms=AT_MS + serial, is_stale=False, now=moment(AT_MS + serial), **parts)  # type: ignore[arg-type]


def test_what_is_not_said_has_not_changed() -> None:
    before = picture(1, alarms=[alarm("leader.none", Level.WARNING)], dead_letters=3)
    after = follow(before, change())
    assert (after.serial, after.at_ms, after.now.at_ms) == (2, AT_MS + 2, AT_MS + 2)
    assert msgspec.structs.replace(after, serial=1, at_ms=before.at_ms, now=before.now) == before


def test_nodes_come_change_and_go() -> None:
    before = picture(1, nodes=[node("b"), node("c"), node("d")])
    drained = node("c", state="draining", free=None)
    after = follow(before, change(nodes={"a": node("a"), "c": drained, "d": None, "never": None}))
    assert after.nodes == [node("a"), node("b"), drained]


def test_a_load_changes_nothing_but_the_load() -> None:
    before = picture(1, nodes=[node("a", cpu=10.0), node("b")])
    after = follow(before, change(loads={"a": NodeLoad(4, 0, AT_MS + 1, 90.0, 50.0, None)}))
    assert after.nodes == [node("a", held=4, free=0, seen_at_ms=AT_MS + 1, cpu=90.0, memory=50.0), node("b")]


def test_pairs_come_change_and_go() -> None:
    before = picture(1, pairs=[pair("en:zh"), pair("fr:de")])
    after = follow(before, change(pairs={"de:fr": pair("de:fr"), "en:zh": pair("en:zh", free=0), "fr:de": None}))
    assert after.pairs == [pair("de:fr"), pair("en:zh", free=0)]


def test_other_parts_are_replaced_whole_also_by_nothing() -> None:
    before = picture(1, alarms=[alarm("leader.none", Level.WARNING)])
    after = follow(before, change(leader=None, alarms=[], instances=[instance("s2")], dead_letters=0, map_version=13))
    assert (after.leader, after.alarms, after.dead_letters, after.map_version) == (None, [], 0, 13)
    assert after.instances == [instance("s2")]


def test_a_change_that_comes_twice_changes_nothing() -> None:
    after = follow(picture(1), change(2, map_version=13))
    assert follow(after, change(2, map_version=14)) is after


@pytest.mark.parametrize("missed", [change(3), change(2, loads={"nobody": NodeLoad(1, 1, AT_MS)})])
def test_a_change_that_does_not_follow_is_noticed(missed: Change) -> None:
    with pytest.raises(OutOfStep):
        follow(picture(1), missed)


def test_a_change_as_it_comes_over_the_wire() -> None:
    body = {
        "serial": 2,
        "at_ms": AT_MS,
        "is_stale": True,
        "now": moment(),
        "loads": {"node-1": [2, 2, AT_MS, 1, 2.5, None]},
        "nodes": {"node-2": None},
        "leader": None,
        "of the future": {},
    }
    after = follow(picture(1), msgspec.json.decode(msgspec.json.encode(body), type=Change))
    assert after.is_stale
    assert after.leader is None
    assert [(found.node_id, found.held, found.memory) for found in after.nodes] == [("node-1", 2, 2.5)]


def test_the_past_grows_with_every_change_but_not_for_ever() -> None:
    seen = Seen()
    seen.hear(Whole(picture=picture(1), history=[moment(1)], events=[event("node.joined", "a")]))
    seen.hear(change(2, events=[event("node.left", "a")]))
    seen.hear(change(2, events=[event("node.left", "a")]))
    assert [found.at_ms for found in seen.history] == [1, AT_MS + 2]
    assert [found.kind for found in seen.events] == ["node.joined", "node.left"]
    seen.hear(change(3, events=[event("node.joined", str(i)) for i in range(2 * MAX_EVENTS)]))
    assert len(seen.events) == MAX_EVENTS
    assert seen.events[-1].subject == str(2 * MAX_EVENTS - 1)


def test_a_whole_picture_begins_anew() -> None:
    seen = Seen()
    seen.hear(Whole(picture=picture(7), events=[event("node.joined", "a")]))
    seen.hear(Whole(picture=picture(2)))
    assert seen.picture is not None
    assert (seen.picture.serial, list(seen.events)) == (2, [])


def test_a_change_without_a_picture_is_out_of_step() -> None:
    with pytest.raises(OutOfStep):
        Seen().hear(change(2))


def test_what_is_frozen_stays_as_it_was() -> None:
    seen = Seen()
    seen.hear(Whole(picture=picture(1)))
    held = seen.frozen()
    seen.hear(change(2, events=[event("node.left")]))
    assert held.picture == picture(1)
    assert (list(held.history), list(held.events)) == ([], [])


_NAMES = st.sampled_from(["a", "b", "c", "d"])
_NODES = st.dictionaries(
    _NAMES,
    st.fixed_dictionaries(
        {
            "held": st.integers(0, 4),
            "free": st.sampled_from([None, 0, 4]),
            "state": st.sampled_from(["ready", "draining"]),
            "cpu": st.sampled_from([None, 1.5]),
        }
    ),
)
_PICTURES = st.builds(
    lambda nodes, pairs, alarms, leader, map_version: picture(
        nodes=[node(name, **about) for name, about in sorted(nodes.items())],
        pairs=[pair(f"{name}:zh", free=free) for name, free in sorted(pairs.items())],
        alarms=[alarm(code, Level.WARNING) for code in sorted(alarms)],
        leader=leader,
        map_version=map_version,
    ),
    _NODES,
    st.dictionaries(_NAMES, st.integers(0, 8)),
    st.sets(_NAMES),
    st.sampled_from([None, "s1", "s2"]),
    st.integers(1, 3),
)


@given(st.lists(_PICTURES, min_size=2, max_size=5))
def test_whoever_follows_sees_every_picture_as_it_was_made(made: list[Picture]) -> None:
    """The scheduler's side and the reader's are each other's reverse, over the wire."""
    pictures = [msgspec.structs.replace(one, serial=i + 1, at_ms=AT_MS + i) for i, one in enumerate(made)]
    followed = pictures[0]
    for before, after in pairwise(pictures):
        told = msgspec.json.encode(delta(before, after))
        followed = follow(followed, msgspec.json.decode(told, type=Change))
        assert followed == after
