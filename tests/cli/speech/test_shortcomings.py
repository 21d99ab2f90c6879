"""Why engines of a file serve nothing, or text alone."""

from typing import Any

import pytest

from lingua_scheduler.cli.speech.own_engines import OwnEngine
from lingua_scheduler.cli.speech.shortcomings import why_nothing, why_text_only
from lingua_sdk.engines import Abilities, JobOutput
from lingua_sdk.pipeline import Pipeline
from tests.support.toys import Ears, Mending, Mind, Voice


class Deaf(Ears):
    def __init__(self) -> None:
        super().__init__()
        self.languages = ()


class Silent(Mind):
    def __init__(self) -> None:
        super().__init__()
        self.pairs = ()


class Whole:
    name = "whole"

    async def translate(self, job: Any, partial: Any) -> JobOutput:
        return JobOutput(job.src_lang)


@pytest.mark.parametrize(
    ("own", "why"),
    [
        (
            OwnEngine(Pipeline(Ears("en"), translator=Mind(("fr", "de"), ("it", "de"))), None),
            "Mind translates from fr and it, but no recogniser knows them (Ears: en)",
        ),
        (OwnEngine(Pipeline(Ears()), None), "there is no translator"),
        (OwnEngine(Pipeline([Ears()], translator=[Silent()]), None), "no translator has a pair (Silent: none)"),
        (OwnEngine(Pipeline([Deaf()], translator=Mind()), None), "no recogniser knows a language (Deaf: none)"),
        (OwnEngine(Pipeline(Ears(), Mending("fr"), Mind()), None), "no repairer knows en (Mending: fr)"),
        (OwnEngine(Pipeline(Ears(), [], Mind()), None), "no repairer knows en (there is none)"),
        (
            OwnEngine(Whole(), Abilities(["en"], ["en"], [], translates=[("fr", "de")])),
            "whole translates from fr, but no recogniser knows fr (whole: en)",
        ),
        (OwnEngine(Whole(), Abilities(["en"], ["en"], ["en"])), "en is the only language"),
    ],
)
def test_why_nothing_is_served_is_said_in_words(own: OwnEngine, why: str) -> None:
    assert why_nothing(own) == why


def test_why_a_pair_has_no_speech_is_said_in_words() -> None:
    spoken = OwnEngine(Pipeline(Ears(), None, Mind(), [Voice("fr"), Voice("it", "es")]), None)
    assert why_text_only(spoken, "zh") == "no voice speaks zh; Voice speaks fr, Voice speaks it and es"
    assert why_text_only(OwnEngine(Pipeline(Ears(), None, Mind()), None), "zh") == "there is no voice"
