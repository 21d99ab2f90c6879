"""Wide nodes in a picture: told once as a group, and counted in the pairs that are listed."""

from typing import Any

import msgspec

from lingua_scheduler.domain.pools.pools import Admission, reach_of
from lingua_scheduler.domain.watching.alarms import LostNode, Sight, alarms
from lingua_scheduler.domain.watching.changes import changes, delta
from lingua_scheduler.domain.watching.following import Change, follow
from lingua_scheduler.domain.watching.pairs import Pairs, covers, served_in_words, unlisted
from lingua_scheduler.domain.watching.picture import NodeLook, Picture, WideLook
from tests.support import pictures
from tests.support.fleet import wide_languages

REACH = reach_of(wide_languages(), Admission.STRICT)
NAME = "*:0123456789abcdef:text"


def wide_node(node_id: str, **more: Any) -> NodeLook:
    return pictures.node(node_id, speech=[], text=[], wide=NAME, wide_pairs=9_801, **more)


def group(**more: Any) -> WideLook:
    pairs = Pairs()
    pairs.add(wide_node("w1"), REACH)
    (look,) = pairs.wide_looks()
    return msgspec.structs.replace(look, **more)


def test_wide_nodes_are_told_once_and_no_pair_of_theirs_is_listed() -> None:
    pairs = Pairs()
    for number in range(3):
        pairs.add(wide_node(f"w{number}"), REACH)
    pairs.add(wide_node("resting", free=None, state="draining"), REACH)
    assert pairs.looks() == []
    (look,) = pairs.wide_looks()
    assert (look.nodes, look.slots, look.free, look.text_nodes, look.pairs) == (3, 12, 12, 3, 9_801)
    assert (len(look.sources), len(look.text), len(look.speech), look.hangs_on) == (99, 99, 99, "")


def test_a_pair_that_is_listed_has_narrow_and_wide_nodes() -> None:
    pairs = Pairs()
    pairs.add(pictures.node("n1"))
    pairs.add(wide_node("w1"), REACH)
    pairs.mention("xaa:xab")
    pairs.mention("xaa:fr")
    looks = {f"{look.src}:{look.tgt}": look for look in pairs.looks()}
    assert (looks["en:zh"].nodes, looks["en:zh"].text_nodes, looks["en:zh"].hangs_on) == (2, 2, "")
    assert (looks["xaa:xab"].nodes, looks["xaa:xab"].hangs_on) == (1, "w1")
    assert (looks["xaa:fr"].nodes, looks["xaa:fr"].text_nodes) == (0, 0)


def test_a_pair_that_was_asked_for_is_shown_again_when_nobody_serves_it() -> None:
    pairs = Pairs()
    pairs.add(wide_node("w1"), REACH)
    pairs.mention_unless_covered("xaa:xab")
    pairs.mention_unless_covered("xaa:fr")
    assert [(look.src, look.tgt) for look in pairs.looks()] == [("xaa", "fr")]


def test_how_many_pairs_are_served_beside_those_that_are_listed() -> None:
    picture = pictures.picture(pairs=[pictures.pair("en:zh"), pictures.pair("fr:de")], wide=[group(), group(nodes=0)])
    assert unlisted(picture) == 99 * 98 - 1
    half = group(translations={"en": ["zh", "xaa"]}, sources=["en"])
    assert unlisted(pictures.picture(pairs=[pictures.pair("en:zh")], wide=[half])) == 1
    assert covers(half, "en:xaa")
    assert covers(half, "en:en")
    assert not covers(half, "en:xab")
    assert not covers(half, "zh:en")


def follows(before: Picture, after: Picture) -> Picture:
    told = msgspec.json.decode(msgspec.json.encode(delta(before, after)), type=Change)
    return follow(before, told)


def test_whoever_follows_hears_of_languages_once_and_of_loads_in_short() -> None:
    first = pictures.picture()
    came = pictures.after(first, wide=[group()])
    busier = pictures.after(came, wide=[group(free=1)])
    gone = pictures.after(busier, wide=[])
    assert follows(first, came).wide == came.wide
    assert follows(came, busier).wide == busier.wide
    assert follows(busier, gone).wide == []
    assert delta(came, busier)["wide_loads"] == {NAME: (1, 4, 1, 1, "w1")}
    assert "wide" not in delta(came, busier)
    assert not {"wide", "wide_loads"} & delta(busier, pictures.after(busier)).keys()


def test_a_pair_that_is_listed_for_a_while_is_neither_new_nor_lost() -> None:
    served = pictures.pair("xaa:xab")
    idle = pictures.picture(wide=[group()])
    asked = pictures.after(idle, pairs=[served])
    assert changes(idle, asked) == []
    assert changes(asked, pictures.after(asked, pairs=[])) == []
    lost = changes(asked, pictures.after(asked, pairs=[], wide=[]))
    assert [(event.kind, event.subject) for event in lost] == [("pair.lost", "xaa:xab")]


def test_a_picture_without_wide_nodes_is_read_as_before() -> None:
    text = msgspec.json.encode(pictures.picture())
    fields = msgspec.json.decode(text)
    del fields["wide"]
    assert msgspec.convert(fields, Picture) == pictures.picture()


def test_a_pair_that_was_listed_is_not_lost_while_wide_nodes_serve_it() -> None:
    def lost(*wide: WideLook) -> list[str]:
        sight = Sight(pictures.AT_MS, nodes=[pictures.node()], wide=wide, wanted=["xaa:xab:speech"])._replace(
            expected={"xaa:xab"}
        )
        return [alarm.subject for alarm in alarms(sight, []) if alarm.code == "pair.lost"]

    assert lost(group()) == []
    assert lost(group(nodes=0)) == lost() == ["xaa:xab"]


def test_a_wide_node_that_vanished_is_told_without_its_pairs() -> None:
    (alarm, *_) = [
        one
        for one in alarms(Sight(pictures.AT_MS, nodes=[pictures.node()], lost={"w1": LostNode(wide_node("w1"), 0)}), [])
        if one.code == "node.lost"
    ]
    assert "it served 9801 pairs" in alarm.text
    assert served_in_words(wide_node("w1"), 6) == "9801 pairs"


def test_what_is_wanted_under_another_tag_is_what_wide_nodes_serve() -> None:
    pairs = Pairs()
    pairs.add(wide_node("w1"), REACH)
    assert pairs.as_served({"xaa-US:XAB:speech", "fr:xab:text"}) == {"xaa:xab:speech", "fr:xab:text"}
