"""Repair of English: what is mended, and what must never be touched."""

import threading
from typing import Any

import pytest

from lingua_scheduler.engines.harper import without_fillers
from tests.support.engines import loaded


@pytest.fixture(scope="module")
def harper() -> Any:
    return loaded("harper", "Harper", "harper")


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("Um, I I think we should uh go to the the station.", "I think we should go to the station."),
        ("He go to school every day.", "He goes to school every day."),
        ("She don't like coffee.", "She doesn't like coffee."),
        ("I have a apple and an car.", "I have an apple and a car."),
        ("They is here.", "They are here."),
        ("and and then we we left", "and then we left"),
    ],
)
def test_fillers_stutters_and_agreement_are_mended(harper: Any, said: str, meant: str) -> None:
    assert harper.repair(said, "en") == meant


@pytest.mark.parametrize(
    "said",
    [
        "Did he go to school?",
        "Does she like coffee?",
        "I suggest that he go home.",
        "Make it work.",
        "If I were you, I would stay.",
        "I had had enough of that that day.",
        "I told you you were right.",
        "I gave her her book.",
        "It was very very good.",
        "No, no, no, I do not want that.",
        "Bye bye, see you.",
        "Uh-huh, I see.",
        "Uh oh.",
        "Hmm.",
        "Bartek lives in Wroclaw and works at Szczecin Maritime.",
        "an hour ago at a university",
        "Can you hear me? I can not hear you.",
        "The patient takes 50 mg of ibuprofen, not 500.",
        "their there they're",
        "I ain't going nowhere.",
        "",
    ],
)
def test_what_was_meant_is_never_changed(harper: Any, said: str) -> None:
    assert harper.repair(said, "en") == said


def test_threads_do_not_get_in_each_others_way(harper: Any) -> None:
    mended: list[str] = []
    threads = [
        threading.Thread(target=lambda: mended.append(harper.repair("He go to school.", "en"))) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert mended == ["He goes to school."] * 4


@pytest.mark.parametrize(
    ("said", "rest"),
    [
        ("Umm, where is it?", "Where is it?"),
        ("where is, uh, it?", "where is, it?"),
        ("The umbrella and the herm.", "The umbrella and the herm."),
        ("uh", "uh"),
    ],
)
def test_fillers_go_and_words_that_look_like_them_stay(said: str, rest: str) -> None:
    assert without_fillers(said) == rest
