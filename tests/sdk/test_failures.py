"""What the owner of a node is told of an exception, and what never is."""

import pytest

from lingua_sdk.failures import BrokenContract, at_stage, description_of, message_of, stage_of

SPEECH = "meet me at the station at nine"


def caught(raise_it: object, *texts: str, stage: str = "translate") -> Exception:
    with pytest.raises(Exception) as found:  # noqa: PT011 - any
        with at_stage(stage, texts):
            raise_it()  # type: ignore[operator]
    return found.value


def test_a_message_of_literals_is_shown_with_stage_and_traceback() -> None:
    def run_out() -> None:
        raise RuntimeError("CUDA out of memory; free some")

    error = caught(run_out)
    assert stage_of(error).stage == "translate"
    told = description_of(error)
    assert told.startswith("RuntimeError: CUDA out of memory; free some\n")
    assert "test_failures.py" in told
    assert 'raise RuntimeError("CUDA out of memory; free some")' in told


def test_a_message_of_the_interpreter_is_shown() -> None:
    assert message_of(caught(lambda: 1 / 0)) == "division by zero"
    assert message_of(caught(lambda: len(7))) == "object of type … has no len()"  # type: ignore[arg-type]


@pytest.mark.parametrize("is_known", [True, False])
def test_no_word_of_the_speech_is_shown_whether_the_pipeline_knows_it_or_not(is_known: bool) -> None:
    def quote() -> None:
        raise ValueError(f"cannot translate {SPEECH} into German: {SPEECH!r}")

    def look_up() -> None:
        dict[str, str]()[SPEECH]

    def number() -> None:
        int(SPEECH)

    for failing in (quote, look_up, number):
        told = description_of(caught(failing, *([SPEECH] if is_known else [])))
        assert not any(word in told.partition("\n")[0] for word in ("meet", "station", "nine"))
        assert SPEECH not in told
    assert description_of(caught(quote)).startswith("ValueError: cannot translate … into German: …\n")


def test_words_of_the_job_are_hidden_also_in_what_a_library_says() -> None:
    error = MemoryError("no room for station")
    assert message_of(error, [SPEECH]) == "…"
    with pytest.raises(OSError, match="broken") as raised:
        raise OSError(5, "station is broken")
    assert "station" not in message_of(raised.value, [SPEECH])


def test_a_broken_contract_is_told_in_full() -> None:
    assert (
        message_of(BrokenContract("translate() must return str, got None")) == "translate() must return str, got None"
    )


def test_the_innermost_stage_counts_and_without_one_there_is_none() -> None:
    with pytest.raises(KeyError) as found:
        with at_stage("speak", ()), at_stage("recognise", ()):
            raise KeyError
    assert stage_of(found.value).stage == "recognise"
    assert stage_of(KeyError()) == ("", ())
