"""Into which languages an utterance is translated."""

import pytest

from lingua_scheduler.domain.rooms.fan_out import (
    FanOut,
    fan_out,
    instances_of,
    is_for,
    is_same,
    terms_in_room,
    terms_of_recognition,
)
from lingua_scheduler.domain.rooms.feeds import RoomUtterance
from lingua_scheduler.domain.rooms.guests import GuestCount, GuestsAt
from lingua_scheduler.domain.rooms.rooms import AboutMember, Participant, RoomName, RoomState
from lingua_scheduler.domain.sessions.terms import Terms

ALL = ("en", "zh", "pt", "ja")


def plan_of(state: RoomState, speaker: str, source: str, most: int, served: tuple[str, ...] = ALL) -> FanOut:
    return fan_out(state, speaker, source, most, lambda language: language if language in served else None)


def room(*languages: str, speech: bool = True) -> RoomState:
    """Its members are called 0, 1, … and read these languages."""
    members = tuple(
        Participant(str(number), "i 1-1", AboutMember(language=language, speech=speech), number)
        for number, language in enumerate(languages)
    )
    return RoomState(RoomName("default", "483920"), "id", "r", 1, 0, False, members)


def test_each_language_of_the_others_is_translated_into_once() -> None:
    plan = plan_of(room("en", "zh", "pt", "zh"), "0", "en", 8)
    assert plan.targets == {"zh": True, "pt": True}
    assert (plan.is_source_heard, plan.languages) == (False, ("zh", "pt"))


def test_the_speakers_own_language_needs_no_translation() -> None:
    plan = plan_of(room("en", "en-GB", "zh"), "0", "en", 8)
    assert (plan.targets, plan.is_source_heard, plan.languages) == ({"zh": True}, True, ("zh", "en"))


def test_no_one_else_means_no_plan_of() -> None:
    assert plan_of(room("zh"), "0", "en", 8).is_empty
    # What is no language is not asked for.
    assert plan_of(room("en", ""), "0", "en", 8).is_empty
    assert plan_of(room("en", "auto!"), "0", "en", 8).is_empty


def test_who_reads_a_language_too_many_reads_what_was_said() -> None:
    plan = plan_of(room("en", "pt", "zh", "zh", "ja"), "0", "en", 2)
    assert (list(plan.targets), plan.languages) == (["zh", "pt"], ("zh", "pt", "en"))
    utterance = RoomUtterance(1, "0", 0, "en", plan.languages)
    assert is_for("ja", utterance, "en")
    assert not is_for("ja", utterance, "zh")


def test_guests_take_no_language_away_from_members_and_none_that_no_node_serves() -> None:
    guests = (GuestsAt("there", "1", {"ja": GuestCount(9, 0), "xx": GuestCount(99, 0)}),)
    state = room("en", "zh", "pt")._replace(guests=guests)
    assert list(plan_of(state, "0", "en", 2).targets) == ["zh", "pt"]
    plan = plan_of(state, "0", "en", 8)
    assert (list(plan.targets), plan.is_source_heard) == (["zh", "pt", "ja"], True)
    # A member is told that none serves its language.
    assert list(plan_of(room("en", "xx"), "0", "en", 8).targets) == ["xx"]


def test_of_many_languages_of_guests_only_some_are_looked_up() -> None:
    asked: list[str] = []
    languages = {f"x{a}{b}": GuestCount(1, 0) for a in "abcdefghij" for b in "abcdefghij"}
    state = room("en", "zh")._replace(guests=(GuestsAt("there", "1", languages),))

    def served_as(language: str) -> None:
        asked.append(language)

    fan_out(state, "0", "en", 4, served_as)
    assert len(asked) == 16


def test_variants_that_nodes_serve_by_one_tag_are_one_language() -> None:
    guests = {f"de-x{number:03}": GuestCount(1, 0) for number in range(15)}
    state = room("en", "zh", "de-AT", "pt", speech=False)._replace(guests=(GuestsAt("there", "1", guests),))
    plan = fan_out(state, "0", "en", 8, lambda language: language.partition("-")[0])
    assert plan.targets == {"zh": False, "de": True, "pt": False}
    assert not plan.is_source_heard
    utterance = RoomUtterance(1, "0", 0, "en", plan.languages, plan.read_as)
    for language in (*guests, "de-AT", "de"):
        assert is_for(language, utterance, "de")
        assert not is_for(language, utterance, "zh")
        assert not is_for(language, utterance, "en")
    assert instances_of(state, utterance, "de") == {"i", "there"}
    assert instances_of(state, utterance, "zh") == {"i"}


def test_variants_of_a_language_that_is_too_many_are_left_out() -> None:
    plan = fan_out(room("en", "zh", "de-AT", "zh-CN"), "0", "en", 1, lambda language: language.partition("-")[0])
    assert (plan.targets, plan.read_as, plan.is_source_heard) == ({"zh": True}, {"zh-CN": "zh"}, True)


def test_speech_is_made_if_one_listener_wants_it() -> None:
    assert plan_of(room("en", "zh", speech=False), "0", "en", 8).targets == {"zh": False}
    mixed = room("en", "zh", speech=False).members + room("", "", "zh").members[2:]
    assert plan_of(room()._replace(members=mixed), "0", "en", 8).targets == {"zh": True}


def test_if_the_language_is_not_known_every_one_is_translated_into() -> None:
    plan = plan_of(room("en", "zh", "en"), "0", "auto", 8)
    assert (plan.targets, plan.is_source_heard) == ({"zh": True, "en": True}, False)


@pytest.mark.parametrize(
    ("language", "source", "same"),
    [("zh", "zh", True), ("zh-CN", "zh", True), ("zh", "zh-TW", True), ("en", "zh", False), ("auto", "auto", False)],
)
def test_variants_of_a_language_are_the_same(language: str, source: str, same: bool) -> None:
    assert is_same(language, source) is same


def test_an_outcome_is_for_its_language_and_the_source_for_its_variants() -> None:
    spoken = RoomUtterance(1, "s", 0, "en", ("zh", "en"))
    assert is_for("zh", spoken, "zh")
    assert not is_for("zh-TW", spoken, "zh")
    assert is_for("en-GB", spoken, "en")
    assert is_for("pt", spoken, "en")
    assert not is_for("zh", spoken, "en")


def test_terms_in_a_room_keep_what_was_asked_for_otherwise() -> None:
    asked = Terms("zh", "en", dialect="d", features={"a": True})
    assert terms_in_room(asked) == asked


def test_terms_of_both_ways_become_one_way_with_two_sources() -> None:
    asked = Terms("auto", "en", mode="two_way_auto", lang_a="zh", lang_b="en")
    into = terms_in_room(asked)._replace(tgt_lang="pt")
    assert into.complaint() is None
    assert into.pools() == ("zh:pt:speech", "en:pt:speech")


def test_guests_are_listeners_too() -> None:
    guests = (GuestsAt("there", "1", {"ja": GuestCount(0, 3), "pt": GuestCount(1, 0)}),)
    plan = plan_of(room("en", "zh")._replace(guests=guests), "0", "en", 8)
    assert plan.targets == {"zh": True, "ja": False, "pt": True}
    utterance = RoomUtterance(1, "0", 0, "en", plan.languages)
    both = room("en", "zh")._replace(guests=guests)
    assert instances_of(both, utterance, "ja") == {"there"}
    assert instances_of(both, utterance, "zh") == {"i"}


def test_terms_of_recognition_ask_for_text_alone() -> None:
    terms = terms_of_recognition(Terms("zh", "en"))
    assert terms.pools() == ("zh:zh:text",)
