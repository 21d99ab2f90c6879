"""Ids of instances: safe in a key name, short enough, unlike each other."""

import re

import pytest

from lingua_scheduler.domain.cluster.instances import MAX_ID_LENGTH, LetterId, is_letter_id, made_up_id


@pytest.mark.parametrize("host", ["db-1.example.org", "Büro {1} rechner", "x" * 200, "", "...", "a b\tc\n"])
def test_an_id_is_made_of_any_host_name(host: str) -> None:
    made = made_up_id(host, 4_194_304, "abcdef")
    assert re.fullmatch(r"[A-Za-z0-9_.-]+-4194304-abcdef", made)
    assert len(made) <= MAX_ID_LENGTH


def test_an_id_says_where_the_process_runs() -> None:
    assert made_up_id("db-1", 7, "ab") == "db-1-7-ab"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("s1:17-0", True),
        ("a.b-c_d:1-1", True),
        ("s1", False),
        ("s{1}:1-1", False),
        ("s1:1-1\n", False),
        (":1-1", False),
    ],
)
def test_an_id_of_a_letter_is_told_from_rubbish(text: str, expected: bool) -> None:
    assert is_letter_id(text) is expected


def test_the_id_of_a_letter_is_read_back_as_it_was_written() -> None:
    assert str(LetterId("i-here", "12-0")) == "i-here:12-0"
    assert LetterId.parse("i-here:12-0") == ("i-here", "12-0")
    assert LetterId.parse("rubbish") == ("", "rubbish")
