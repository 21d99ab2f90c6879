"""The clean-up for languages without a repairer."""

import pytest

from lingua_scheduler.engines.cleanup import Cleanup

CLEANUP = Cleanup(["pt", "zh"])


def test_white_space_is_put_in_order() -> None:
    assert CLEANUP.repair("  Bom   dia ,\ntudo  bem ?", "pt") == "Bom dia, tudo bem?"


def test_a_recogniser_caught_in_a_loop_is_cut_short() -> None:
    assert CLEANUP.repair("obrigado obrigado obrigado obrigado obrigado", "pt") == "obrigado"
    assert CLEANUP.repair("e depois, e depois, e depois, e depois, fim", "pt") == "e depois, fim"


@pytest.mark.parametrize(
    "text",
    [
        "Um dois três.",  # "um" is a number here, no filler
        "não não não, isso não",
        "Nous nous levons, vous vous levez.",
        "很高兴见到你，看看吧。",
        "Die, die die Tür öffnen.",
        "muito muito muito bom",
        "R$ 3,50 às 17:30",
        "",
    ],
)
def test_what_people_say_on_purpose_stays(text: str) -> None:
    assert CLEANUP.repair(text, "pt") == text


def test_it_says_by_its_name_that_it_only_cleans_up() -> None:
    assert (CLEANUP.name, CLEANUP.languages) == ("cleanup", ("pt", "zh"))


@pytest.mark.parametrize(
    ("said", "tidied"),
    [
        ("Bom dia..", "Bom dia."),
        ("Good morning. . Where is it?", "Good morning. Where is it?"),
        ("你好。。", "你好。"),
        ("Well... yes.", "Well... yes."),
        ("E assim por diante....", "E assim por diante...."),
    ],
)
def test_a_sentence_ends_once_and_three_dots_stay(said: str, tidied: str) -> None:
    assert CLEANUP.repair(said, "pt") == tidied
