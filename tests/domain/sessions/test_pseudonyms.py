"""Nodes know a session by names of their own."""

import re

from lingua_scheduler.domain.sessions.pseudonyms import MAX_NODES, NodeNames, Pseudonyms

KEY = b"k" * 32
SESSION = "s-0123456789ABCDEF"
GROUP = f"group_{SESSION}_1700000000000"


def names_of(names: NodeNames) -> tuple[str, ...]:
    return names.session_id, names.trace_id, names.turn, names.group(GROUP), names.group(f"{GROUP}1")


def test_names_look_like_those_of_a_session() -> None:
    names = Pseudonyms(KEY, SESSION).at("node-a")
    assert re.fullmatch("s-[0-9A-F]{16}", names.session_id)
    assert re.fullmatch("[0-9a-f]{16}", names.trace_id)
    assert names.turn == f"turn-{names.session_id}-"
    assert re.fullmatch("group_[0-9a-f]{16}", names.group(GROUP))


def test_a_node_always_gets_the_same_names_from_every_instance_with_the_key() -> None:
    here, there = Pseudonyms(KEY, SESSION), Pseudonyms(KEY, SESSION)
    assert here.at("node-a") is here.at("node-a")
    assert names_of(here.at("node-a")) == names_of(there.at("node-a"))


def test_no_name_is_that_of_another_node_session_or_key() -> None:
    made = [
        Pseudonyms(KEY, SESSION).at("node-a"),
        Pseudonyms(KEY, SESSION).at("node-b"),
        Pseudonyms(KEY, "s-1123456789ABCDEF").at("node-a"),
        Pseudonyms(b"j" * 32, SESSION).at("node-a"),
    ]
    texts = [name for names in made for name in names_of(names)]
    assert len(set(texts)) == len(texts)
    assert not any(SESSION[2:] in text or "1700000" in text for text in texts)


def test_a_session_that_was_claimed_again_keeps_its_turns_and_changes_its_name() -> None:
    first, again = Pseudonyms(KEY, SESSION).at("n"), Pseudonyms(KEY, SESSION, "-2").at("n")
    assert again.session_id == f"{first.session_id}-2"
    assert (again.turn, again.trace_id, again.group(GROUP)) == (first.turn, first.trace_id, first.group(GROUP))


def test_what_is_remembered_is_bounded_and_what_is_forgotten_comes_out_the_same() -> None:
    session = Pseudonyms(KEY, SESSION)
    first = session.at("node-0")
    for number in range(MAX_NODES + 1):
        session.at(f"node-{number}")
    assert len(session._known) == MAX_NODES
    assert session.at("node-0") is not first
    assert names_of(session.at("node-0")) == names_of(first)


def test_a_node_id_that_no_text_may_hold_has_names_too() -> None:
    assert Pseudonyms(KEY, SESSION).at("n\udcff").session_id.startswith("s-")
