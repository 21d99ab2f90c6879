"""Session ids as they are shown: enough to find a session again, too little to take it over."""

import pytest

from lingua_scheduler.domain.sessions.names import shown_session


def test_of_a_generated_id_half_is_shown() -> None:
    assert shown_session("s-0123ABCD89EF4567") == "s-0123ABCD…"


@pytest.mark.parametrize("shown", ["s-0123ABCD…", "s-0123ABCD"])
def test_a_shortened_id_is_not_shortened_again(shown: str) -> None:
    assert shown_session(shown) == "s-0123ABCD…"


@pytest.mark.parametrize("chosen", ["", "anna", "s-anna-and-bert", "s-0123abcd89ef4567", "s-0123ABCD89EF45678"])
def test_an_id_that_a_caller_chose_is_shown_whole(chosen: str) -> None:
    assert shown_session(chosen) == chosen
