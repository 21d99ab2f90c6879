"""Groups: what is heard as one stretch of speech has one name and counted parts."""

from hypothesis import given
from hypothesis import strategies as st

from lingua_scheduler.domain.sessions.result_groups import (
    MAX_CONTEXT_CHARS,
    MAX_PARTS,
    WINDOW_MS,
    Context,
    Groups,
    TurnPart,
)

NOW_MS = 1_700_000_000_000.0


def test_the_limits_are_those_existing_clients_rely_on() -> None:
    assert (WINDOW_MS, MAX_PARTS) == (2_000, 8)


def test_a_group_is_named_after_its_session_and_the_moment_it_began() -> None:
    assert Groups("s-1A2B3C4D").next_part("x", 1_700_000_000_123.4) == TurnPart("group_s-1A2B3C4D_1700000000123", 0)


def test_parts_are_counted_while_the_window_is_open() -> None:
    groups = Groups("s")
    first = groups.next_part("x", NOW_MS)
    assert groups.next_part("x", NOW_MS + WINDOW_MS - 1) == TurnPart(first.group_id, 1)
    # Each part opens the window anew.
    assert groups.next_part("x", NOW_MS + 2 * WINDOW_MS - 2) == TurnPart(first.group_id, 2)


def test_when_the_window_is_over_the_next_part_begins_a_group() -> None:
    groups = Groups("s")
    first = groups.next_part("x", NOW_MS)
    second = groups.next_part("x", NOW_MS + WINDOW_MS)
    assert second.part_index == 0
    assert second.group_id != first.group_id


def test_the_end_of_playback_opens_the_window_anew() -> None:
    groups = Groups("s")
    first = groups.next_part("x", NOW_MS)
    groups.playback_ended(NOW_MS + 5_000)
    assert groups.next_part("x", NOW_MS + 5_000 + WINDOW_MS - 1) == TurnPart(first.group_id, 1)


def test_playback_before_any_part_opens_nothing() -> None:
    groups = Groups("s")
    groups.playback_ended(NOW_MS)
    assert groups.next_part("x", NOW_MS + 1) == TurnPart(f"group_s_{NOW_MS + 1:.0f}", 0)


def test_a_group_has_so_many_parts_and_no_more() -> None:
    groups = Groups("s")
    parts = [groups.next_part("x", NOW_MS + number) for number in range(MAX_PARTS + 1)]
    assert [part.part_index for part in parts] == [0, 1, 2, 3, 4, 5, 6, 7, 0]
    assert len({part.group_id for part in parts[:MAX_PARTS]}) == 1
    assert parts[-1].group_id != parts[0].group_id


@given(st.lists(st.tuples(st.integers(0, 3_000), st.booleans()), max_size=40))
def test_no_two_parts_have_the_same_name(script: list[tuple[int, bool]]) -> None:
    groups, now_ms, parts = Groups("s"), NOW_MS, []
    for pause_ms, is_playback in script:
        now_ms += pause_ms
        if is_playback:
            groups.playback_ended(now_ms)
        else:
            parts.append(groups.next_part("x", now_ms))
    assert len(set(parts)) == len(parts)


def test_many_results_that_leave_at_once_have_different_names() -> None:
    groups = Groups("s")
    parts = [groups.next_part("x", NOW_MS) for _ in range(2 * MAX_PARTS)]
    assert len(set(parts)) == 2 * MAX_PARTS


# What was said so far


def test_speech_within_the_window_continues_what_was_said_in_the_group() -> None:
    groups = Groups("s")
    assert groups.context(NOW_MS) is None
    part = groups.next_part("good morning", NOW_MS)
    groups.next_part("how are you", NOW_MS + 100)
    assert groups.context(NOW_MS + 200) == Context(part.group_id, 2, "good morning how are you", None)
    assert groups.context(NOW_MS + 100 + WINDOW_MS) is None


def test_a_full_group_is_continued_by_nobody() -> None:
    groups = Groups("s")
    for _ in range(MAX_PARTS):
        groups.next_part("x", NOW_MS)
    assert groups.context(NOW_MS + 1) is None


def test_a_group_begins_without_the_words_of_the_one_before() -> None:
    groups = Groups("s")
    groups.next_part("before", NOW_MS)
    groups.next_part("after", NOW_MS + WINDOW_MS)
    context = groups.context(NOW_MS + WINDOW_MS)
    assert context is not None
    assert context.text == "after"


def test_what_is_remembered_of_a_group_is_bounded_and_keeps_its_end() -> None:
    groups = Groups("s")
    groups.next_part("a" * 10_000 + " end", NOW_MS)
    context = groups.context(NOW_MS)
    assert context is not None
    assert len(context.text) == MAX_CONTEXT_CHARS
    assert context.text.endswith(" end")


def test_the_words_before_are_those_of_one_node() -> None:
    groups = Groups("s-1")
    for text, node_id in (("one", "a"), ("two", "a")):
        part = groups.next_part(text, NOW_MS, node_id)
    assert groups.context(NOW_MS) == Context(part.group_id, 2, "one two", "a")
    assert groups.next_part("three", NOW_MS, "b").group_id == part.group_id
    assert groups.context(NOW_MS) == Context(part.group_id, 3, "three", "b")
    groups.next_part("four", NOW_MS, "a")
    assert groups.context(NOW_MS) == Context(part.group_id, 4, "four", "a"), "not what was said two parts ago"
