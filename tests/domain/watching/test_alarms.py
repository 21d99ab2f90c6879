"""Alarms: what raises each, what does not, and what they remember."""

import inspect
import re
from typing import Any

import pytest

from lingua_scheduler.domain.watching import alarms as alarms_module
from lingua_scheduler.domain.watching.alarms import (
    CODES,
    EACH_MAX,
    LOST_MAX,
    LOST_MS,
    SERVED_MAX,
    Sight,
    alarms,
    last_to_serve,
    lost_lately,
)
from lingua_scheduler.domain.watching.picture import Alarm, Level, NodeLook
from tests.support.pictures import AT_MS, alarm, instance, node, pair
from tools.docs import DOCS

WELL: dict[str, Any] = {
    "at_ms": AT_MS,
    "nodes": [node("n1"), node("n2")],
    "pairs": [pair()],
    "instances": [instance()],
    "leader": "i1",
    "expected": {"en:zh", "en:fr"},
}
THIN = pair(nodes=1, hangs_on="n1")
FULL = pair(free=0)
GONE = pair(nodes=0, slots=0, free=0, text_nodes=0)


def raised(**changed: Any) -> list[tuple[str, Level, str]]:
    return [(found.code, found.level, found.subject) for found in alarms(Sight(**(WELL | changed)), [])]


def test_all_is_well() -> None:
    assert raised() == []


C, W, N = Level.CRITICAL, Level.WARNING, Level.NOTICE


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"is_redis_away": True}, [("redis.away", C, "")]),
        ({"memory_used": 0.79}, []),
        ({"memory_used": 0.8}, [("redis.full", W, "")]),
        ({"memory_used": 0.96}, [("redis.full", C, "")]),
        ({"nodes": [], "pairs": []}, [("nodes.none", C, "")]),
        ({"nodes": [node(free=None, state="draining")], "pairs": [GONE]}, [("nodes.none", C, "")]),
        ({"wanted": ["en:fr:speech", "en:zh:speech"]}, [("pair.lost", C, "en:fr")]),
        ({"wanted": ["en:ko:speech", "en:zh:speech"]}, [("pair.unserved", W, "en:ko")]),
        ({"wanted": ["en:ko:speech"], "served_by": {"en:ko": ""}}, [("pair.lost", C, "en:ko")]),
        ({"needed_in_rooms": {"en:zh:text": 2}}, []),
        ({"needed_in_rooms": {"en:ko:text": 2, "zh:ko:text": 1}}, [("room.language_unserved", W, "ko")]),
        ({"needed_in_rooms": {"en:fr:text": 1, "xx:fr:text": 1}}, [("room.language_unserved", C, "fr")]),
        ({"needed_in_rooms": {"en:fr:text": 1}, "nodes": [], "pairs": []}, [("nodes.none", C, "")]),
        ({"pairs": [pair(nodes=0)], "wanted": ["en:zh:text"]}, []),
        ({"pairs": [pair(nodes=0)], "wanted": ["en:zh:speech"]}, [("pair.lost", C, "en:zh")]),
        ({"pairs": [FULL], "waiting": {"en:zh:speech": 3}}, [("pair.full", W, "en:zh")]),
        ({"pairs": [FULL]}, []),
        ({"waiting": {"en:zh:speech": 3}}, []),
        ({"pairs": [THIN]}, [("pair.thin", N, "en:zh")]),
        ({"pairs": [pair("en:en", nodes=1, hangs_on="n1")]}, []),
        ({"pairs": [THIN], "nodes": [node("n1")]}, []),
        ({"pairs": [THIN], "nodes": [node("n1"), node("n2", is_private=True)]}, []),
        ({"nodes": [node("n1"), node("n2", state="quarantined")]}, [("node.quarantined", W, "n2")]),
        ({"nodes": [node("n1"), node("n2", state="probation")]}, []),
        ({"instances": [instance(), instance("i2", is_alive=False)]}, [("instance.dead", W, "i2")]),
        ({"instances": [instance(), instance("i2", is_alive=False, has_left=True)]}, []),
        ({"dead_letters": 2}, [("letters.dead", W, "")]),
        ({"leader": None}, [("leader.none", W, "")]),
        ({"instances": [instance(seals="parked aa"), instance("i2", seals="parked aa bb")]}, []),
        ({"instances": [instance(seals="parked bb aa"), instance("i2", seals="parked aa bb")]}, []),
        ({"instances": [instance(seals="parked aa"), instance("i2", seals="parked bb")]}, [("keys.differ", W, "")]),
        ({"instances": [instance(seals="parked aa"), instance("i2", seals="")]}, [("keys.differ", N, "")]),
        ({"instances": [instance(seals="parked"), instance("i2", seals="parked")]}, []),
        ({"unprotected": ["i1", "i2"]}, [("auth.off", C, "")]),
        (
            {"expiring": {"lk_sv_a": 60_000, "lk_cl_b": 0}},
            [("key.expiring", W, "lk_cl_b"), ("key.expiring", W, "lk_sv_a")],
        ),
        (
            {"guessing": {"beta": 70, "acme": 60}},
            [("rooms.guessing", W, "acme"), ("rooms.guessing", W, "beta")],
        ),
        (
            {"certificates": {"i1": AT_MS + 1, "i2": AT_MS}},
            [("certificate.expiring", C, "i2"), ("certificate.expiring", W, "i1")],
        ),
        ({"refused_certificates": ["i1", "i2"]}, [("certificate.refused", W, "")]),
        ({"unreadable": ["leases", "seen"]}, [("data.unreadable", W, "")]),
        ({"jobs_ended": 100, "jobs_failed": 6}, [("jobs.failing", C, "")]),
        ({"jobs_ended": 100, "jobs_failed": 5}, [("jobs.failing", W, "")]),
        ({"jobs_ended": 100, "jobs_failed": 1}, []),
        # One of six is no outage; two of three are, and the only one is worth a look.
        ({"jobs_ended": 6, "jobs_failed": 1}, [("jobs.failing", W, "")]),
        ({"jobs_ended": 6, "jobs_failed": 2}, [("jobs.failing", W, "")]),
        ({"jobs_ended": 6, "jobs_failed": 3}, [("jobs.failing", C, "")]),
        ({"jobs_ended": 3, "jobs_failed": 2}, [("jobs.failing", C, "")]),
        ({"jobs_ended": 4, "jobs_failed": 2}, [("jobs.failing", C, "")]),
        ({"jobs_ended": 4, "jobs_failed": 1}, []),
        ({"jobs_ended": 1, "jobs_failed": 1}, [("jobs.failing", W, "")]),
        ({"jobs_ended": 4, "jobs_failed": 4}, [("jobs.failing", C, "")]),
        ({"jobs_ended": 5, "p95_ms": 5_001.0}, [("latency.high", W, "")]),
        ({"jobs_ended": 5, "p95_ms": 5_000.0}, []),
        ({"jobs_ended": 1, "p95_ms": 9_000.0}, []),
    ],
)
def test_what_raises_an_alarm(changed: dict[str, Any], expected: list[tuple[str, Level, str]]) -> None:
    assert raised(**changed) == expected


@pytest.mark.parametrize(("silent_ms", "is_raised"), [(30_000, False), (30_001, True)])
def test_a_node_is_silent_after_two_of_its_own_intervals(silent_ms: int, is_raised: bool) -> None:
    seen = AT_MS - silent_ms
    quiet = node("n2", seen_at_ms=seen, alive_until_ms=seen + 45_000)
    assert raised(nodes=[node("n1"), quiet]) == ([("node.silent", W, "n2")] if is_raised else [])


@pytest.mark.parametrize(
    ("nodes", "words"),
    [
        ([node("n1", state="quarantined")], "The only connected node accepts no jobs. Run lingua nodes"),
        ([node("n1", state="quarantined")] * 2, "None of the 2 connected nodes accepts jobs. Run lingua nodes"),
    ],
)
def test_where_no_node_accepts_jobs_they_are_counted(nodes: list[NodeLook], words: str) -> None:
    texts = [found.text for found in alarms(Sight(**(WELL | {"nodes": nodes})), []) if found.code == "nodes.none"]
    assert [text[: len(words)] for text in texts] == [words]


def test_the_next_step_for_a_sick_node_names_it() -> None:
    nodes = [node("n1"), node("n2", state="quarantined")]
    (sick,) = alarms(Sight(**(WELL | {"nodes": nodes})), [])
    assert "lingua node-info n2" in sick.text


def test_what_hurts_people_most_comes_first() -> None:
    sick = [node("n1"), node("n2", state="quarantined")]
    found = raised(
        pairs=[THIN],
        nodes=sick,
        wanted=["en:fr:speech", "en:ko:speech"],
        dead_letters=1,
        leader=None,
        jobs_ended=10,
        jobs_failed=10,
    )
    assert [code for code, _, _ in found] == [
        *("pair.lost", "jobs.failing", "pair.unserved", "node.quarantined", "leader.none", "letters.dead", "pair.thin"),
    ]


def test_an_alarm_keeps_the_time_it_was_raised_and_a_later_one_has_its_own() -> None:
    before = [alarm("letters.dead", since_ms=5)]
    first, second = alarms(Sight(**(WELL | {"dead_letters": 1, "leader": None})), before)
    assert [(first.code, first.since_ms), (second.code, second.since_ms)] == [
        ("leader.none", AT_MS),
        ("letters.dead", 5),
    ]


def test_while_redis_is_away_what_was_known_stays() -> None:
    before = [alarm("letters.dead", since_ms=5), alarm("redis.away", since_ms=6)]
    found = alarms(Sight(**(WELL | {"is_redis_away": True})), before)
    assert [(one.code, one.since_ms) for one in found] == [("redis.away", 6), ("letters.dead", 5)]


def test_of_many_of_a_kind_some_are_named_and_the_rest_counted() -> None:
    pairs = [pair(f"en:x{number}", nodes=1, hangs_on="n1") for number in range(EACH_MAX + 30)]
    found = alarms(Sight(**(WELL | {"pairs": pairs})), [])
    assert len(found) == EACH_MAX
    assert [one.values for one in found if not one.subject] == [{"more": 31}]


def test_every_text_is_a_sentence_and_values_carry_what_it_names() -> None:
    sight = Sight(**(WELL | {"pairs": [pair(nodes=1, free=0, hangs_on="n1")], "waiting": {"en:zh:speech": 2}}))
    full, thin = alarms(sight, [])
    assert full.values == {"src": "en", "tgt": "zh", "jobs": 2, "slots": 8}
    assert thin.values == {"src": "en", "tgt": "zh", "node_id": "n1"}
    assert all(one.text.endswith(".") for one in (full, thin))


def test_one_is_not_many() -> None:
    full = pair(nodes=1, slots=1, free=0)
    sight = Sight(**(WELL | {"pairs": [full], "waiting": {"en:zh:speech": 1}, "dead_letters": 1}))
    jobs, letter = alarms(sight, [])
    assert jobs.text.startswith("1 job waits for en → zh: its one slot is taken.")
    assert letter.text.startswith("1 letter could not be processed.")


# Nodes that vanished

W3 = node("w3", speech=["en:en", "en:fr", "en:de"])


def test_a_node_that_vanished_is_named_with_what_it_served() -> None:
    lost = lost_lately({}, [W3], {"n1"}, AT_MS)
    (found,) = alarms(Sight(**(WELL | {"lost": lost, "at_ms": AT_MS + 5_000})), [])
    assert (found.code, found.level, found.subject, found.since_ms) == ("node.lost", W, "w3", AT_MS)
    assert (
        found.text
        == "w3 disconnected without draining; it served en:fr, en:de. Check its machine, or start another node."
    )
    assert found.values == {"node_id": "w3", "pairs": "en:fr, en:de"}


def test_a_node_that_served_much_is_named_with_some_of_it() -> None:
    lost = lost_lately({}, [node("w3", speech=[f"en:x{number}" for number in range(9)])], (), AT_MS)
    (found,) = alarms(Sight(**(WELL | {"lost": lost})), [])
    assert found.values["pairs"] == "en:x0, en:x1, en:x2, en:x3, en:x4 and 4 more"


def test_a_node_that_spoke_nothing_is_named_with_what_it_wrote_if_anything() -> None:
    lost = lost_lately({}, [node("w3", speech=[], text=["en:fr"]), node("w4", speech=[], text=[])], (), AT_MS)
    found = alarms(Sight(**(WELL | {"lost": lost})), [])
    assert [one.text.partition(".")[0] for one in found] == [
        "w3 disconnected without draining; it served en:fr",
        "w4 disconnected without draining; it served nothing",
    ]


def test_a_node_that_drained_before_it_left_is_not_lost() -> None:
    assert lost_lately({}, [node("w3", state="draining")], (), AT_MS) == {}


def test_a_node_that_said_goodbye_is_not_lost_though_no_picture_saw_it_drain() -> None:
    assert lost_lately({}, [W3], (), AT_MS, {"w3"}) == {}


def test_a_node_is_lost_until_it_is_back_or_ten_minutes_are_over() -> None:
    lost = lost_lately({}, [W3], (), AT_MS)
    assert lost_lately(lost, [], {"n1"}, AT_MS + LOST_MS - 1) == lost
    assert lost_lately(lost, [], {"w3"}, AT_MS + 1) == {}
    assert lost_lately(lost, [], (), AT_MS + LOST_MS) == {}
    again = lost_lately(lost, [W3], (), AT_MS + 9)
    assert again["w3"].at_ms == AT_MS + 9


def test_of_very_many_lost_nodes_the_latest_are_remembered_and_some_named() -> None:
    lost = lost_lately({}, [W3], (), AT_MS)
    lost = lost_lately(lost, [node(f"x{number}") for number in range(LOST_MAX)], (), AT_MS + 1)
    assert len(lost) == LOST_MAX
    assert "w3" not in lost
    found = alarms(Sight(**(WELL | {"lost": lost})), [])
    assert len(found) == EACH_MAX
    assert [one.values for one in found if not one.subject] == [{"more": LOST_MAX - EACH_MAX + 1}]


def test_an_alarm_remembers_when_it_first_became_critical_after_it_was_less() -> None:
    told = []
    before: list[Alarm] = []
    for step, memory_used in enumerate((0.8, 0.96, 0.97, 0.8, 0.96)):
        before = alarms(Sight(**(WELL | {"at_ms": AT_MS + step, "memory_used": memory_used})), before)
        told.append((before[0].level, before[0].worse_since_ms))
    # It is not worse than known when it comes back to what it was.
    assert told == [(W, 0), (C, AT_MS + 1), (C, AT_MS + 1), (W, AT_MS + 1), (C, AT_MS + 1)]
    (at_once,) = alarms(Sight(**(WELL | {"memory_used": 0.96})), [])
    assert at_once.worse_since_ms == 0


def test_a_lost_pair_names_what_is_lacking_who_served_it_last_and_the_next_step() -> None:
    served_by = last_to_serve({}, [pair("en:fr", nodes=1, hangs_on="w3")], {"en:fr"})
    served_by = last_to_serve(served_by, [pair("en:fr", nodes=0)], {"en:fr"})
    lost = WELL | {"wanted": ["en:fr:speech"]}
    (named,) = alarms(Sight(**(lost | {"served_by": served_by})), [])
    assert named.text == (
        "No node speaks French, so en → fr is not served although it is wanted (the last node was w3). "
        "Start one with: lingua node --languages en,fr"
    )
    assert named.values == {"src": "en", "tgt": "fr", "lack": "speaks", "languages": "en,fr", "node_id": "w3"}
    (unnamed,) = alarms(Sight(**lost), [])
    assert "last" not in unnamed.text


def test_a_lost_pair_whose_only_node_is_drained_names_the_node_and_how_to_resume_it() -> None:
    drained = node("n2", state="draining", free=None, speech=["en:fr"], text=["en:fr"])
    seen = WELL | {"nodes": [node("n1"), drained], "pairs": [pair(), pair("en:fr", nodes=0, text_nodes=0)]}
    wanted = Sight(**seen, wanted=["en:fr:speech"], served_by={"en:fr": "n2"})
    (found,) = alarms(wanted, [])
    assert (found.code, found.level, found.subject) == ("pair.lost", C, "en:fr")
    assert found.text == (
        "en → fr is not served although it is wanted: its only node, n2, is drained. Run: lingua resume n2, or start "
        "another one with: lingua node --languages en,fr"
    )
    drained_values = {"lack": "drained", "node_id": "n2", "names": "n2", "nodes": 1}
    assert found.values == {"src": "en", "tgt": "fr", "languages": "en,fr"} | drained_values
    (several,) = alarms(
        wanted._replace(nodes=[node("n1"), drained, node("n3", state="draining", speech=["en:fr"])]), []
    )
    assert "all its nodes (n2, n3) are drained. Run: lingua resume n2, or" in several.text
    # One that only writes would not speak after it is resumed.
    (mute,) = alarms(wanted._replace(nodes=[node("n1"), node("n2", state="draining", text=["en:fr"])]), [])
    assert mute.text.startswith("No node speaks French")


def test_a_pair_whose_only_node_is_quarantined_has_one_alarm_that_names_the_node() -> None:
    sick = node("n2", state="quarantined", speech=["en:fr"], text=["en:fr"])
    seen = WELL | {"nodes": [node("n1"), sick], "pairs": [pair(), pair("en:fr", nodes=0, text_nodes=0)]}
    wanted = Sight(**seen, wanted=["en:fr:speech"], served_by={"en:fr": "n2"}, failed_with={"n2": "PROCESSING_ERROR"})
    (found,) = alarms(wanted, [])
    assert (found.code, found.level, found.subject) == ("pair.quarantined", C, "en:fr")
    assert found.text == (
        "en → fr: its only node, n2, is quarantined (last failure: PROCESSING_ERROR) and used only as a last resort. "
        "Run lingua node-info n2 and check its log; once it is repaired, run: lingua release n2"
    )
    assert found.values["node_id"] == "n2"
    # It has no voice for now, so it is no last resort.
    mute = node("n2", state="quarantined", speech=["en:fr"], text=["en:fr"], unavailable=["tts"])
    found, _ = alarms(wanted._replace(nodes=[node("n1"), mute]), [])
    assert found.code == "pair.lost"


def test_of_a_pair_whose_nodes_are_all_quarantined_some_are_named() -> None:
    sick = [node(f"s{number}", state="quarantined", text=["en:fr"]) for number in range(7)]
    seen = Sight(**(WELL | {"nodes": [node("n1"), *sick]}), wanted=["en:fr:text"])
    (found,) = alarms(seen, [])
    assert "all its nodes (s0, s1, s2, s3, s4 and 2 more) are quarantined and used" in found.text
    assert found.values["failure"] == "–"


def test_a_pair_that_was_never_served_says_so_with_the_next_step() -> None:
    (found,) = alarms(Sight(**WELL, wanted=["en:ko:speech"]), [])
    assert found.text == (
        "en → ko is asked for, but no node has ever served it: no node speaks Korean. "
        "Start one with: lingua node --languages en,ko"
    )


def test_a_pair_that_nobody_asks_for_is_not_missed() -> None:
    assert raised(pairs=[pair(), GONE]) == []


def test_a_pair_that_is_only_written_any_more_keeps_the_node_that_spoke_it() -> None:
    served_by = last_to_serve({}, [pair("en:fr", nodes=1, hangs_on="w3")], ())
    assert last_to_serve(served_by, [pair("en:fr", nodes=0, text_nodes=1)], ()) == {"en:fr": "w3"}
    assert last_to_serve({}, [pair("en:fr", nodes=0, text_nodes=1)], ()) == {"en:fr": ""}


def test_who_was_alone_once_is_not_the_last_when_others_came_and_nobody_is_remembered_for_ever() -> None:
    thin, shared = pair("en:fr", nodes=1, hangs_on="w3"), pair("en:fr", nodes=2)
    served_by = last_to_serve({}, [thin], {"en:fr"})
    for number in range(SERVED_MAX):
        assert "en:fr" in served_by
        served_by = last_to_serve(served_by, [pair(f"en:x{number}")], ())
    assert "en:fr" not in last_to_serve(served_by, [], ())
    assert "en:fr" in last_to_serve(served_by, [], {"en:fr"})
    served_by = last_to_serve({}, [thin], {"en:fr"})
    assert not last_to_serve(served_by, [shared], {"en:fr"}).get("en:fr")


def test_every_alarm_there_may_be_is_known_and_explained() -> None:
    source = inspect.getsource(alarms_module)
    assert set(re.findall(r'"([a-z]+\.[a-z_]+)", [Ll]evel', source)) == CODES
    page = (DOCS / "watching.md").read_text("utf-8").partition("## Alarms")[2].partition("## Events")[0]
    assert set(re.findall(r"^\| `([a-z]+\.[a-z_]+)`", page, re.MULTILINE)) == CODES


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        # Each has an alarm of its own, silenced or not.
        ({"nodes": [], "pairs": [], "failed_unserved": 4}, [("nodes.none", C, "")]),
        ({"wanted": ["en:fr:speech"], "failed_unserved": 4}, [("pair.lost", C, "en:fr")]),
        ({"wanted": ["en:ko:speech"], "failed_unserved": 4}, [("pair.unserved", W, "en:ko")]),
        ({"failed_without_redis": 4}, []),
        # The alarm is over, and the jobs of that minute are still counted.
        ({"missed_at_ms": AT_MS - 59_000, "failed_unserved": 4}, []),
        ({"missed_at_ms": AT_MS - 61_000, "failed_unserved": 4}, [("jobs.failing", C, "")]),
        # What no other alarm explains.
        ({"failed_unserved": 4}, [("jobs.failing", C, "")]),
        (
            {"wanted": ["en:fr:speech"], "failed_unserved": 2},
            [("pair.lost", C, "en:fr"), ("jobs.failing", C, "")],
        ),
    ],
)
def test_one_cause_is_one_alarm(changed: dict[str, Any], expected: list[tuple[str, Level, str]]) -> None:
    assert raised(jobs_ended=4, jobs_failed=4, **changed) == expected


def test_failures_that_another_alarm_explains_are_not_told_again() -> None:
    sight = Sight(**WELL, wanted=["en:fr:speech"], jobs_ended=10, jobs_failed=7, failed_unserved=4)
    told = {found.code: found.values for found in alarms(sight, [])}
    assert told["jobs.failing"] == {"failed": 3, "ended": 6, "percent": 50.0}


def test_while_redis_settles_nothing_is_missed_that_was_not_missed_before() -> None:
    empty = Sight(**(WELL | {"nodes": [], "pairs": [], "is_settling": True}))
    assert alarms(empty, []) == []
    assert [found.code for found in alarms(empty, [alarm("nodes.none")])] == ["nodes.none"]
    lost = Sight(**WELL, wanted=["en:fr:speech"], is_settling=True)
    assert alarms(lost, []) == []
    assert [found.code for found in alarms(lost, [alarm("pair.lost", subject="en:fr")])] == ["pair.lost"]


@pytest.mark.parametrize("code", ["node.silent", "leader.none"])
def test_while_redis_settles_no_node_is_silent_and_no_leader_missing_unless_it_was_before(code: str) -> None:
    """Neither a heartbeat nor the leader's lease could be written."""
    quiet = node("n2", seen_at_ms=AT_MS - 60_000, alive_until_ms=AT_MS - 15_000)
    back = Sight(**(WELL | {"nodes": [node("n1"), quiet], "leader": None}))
    subject = "n2" if code == "node.silent" else ""
    settling = back._replace(is_settling=True)
    assert alarms(settling, []) == []
    assert [found.code for found in alarms(settling, [alarm(code, subject=subject)])] == [code]
    assert code in [found.code for found in alarms(back, [])]
