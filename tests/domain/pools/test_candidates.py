"""Why a node is not taken, in words."""

import pytest

from lingua_scheduler.domain.pools.candidates import Candidate, CandidateVerdict, services_for


@pytest.mark.parametrize("verdict", CandidateVerdict)
def test_every_verdict_has_words(verdict: CandidateVerdict) -> None:
    assert Candidate("n1", 0, verdict, service="tts").in_words()


@pytest.mark.parametrize(
    ("pool", "services"),
    [
        ("en:zh:speech", {"asr", "semantic", "nmt", "tts"}),
        ("en:zh:text", {"asr", "semantic", "nmt"}),
        ("en:en:speech", {"asr", "semantic", "tts"}),
    ],
)
def test_a_job_needs_only_the_services_of_its_pool(pool: str, services: set[str]) -> None:
    assert set(services_for(pool)) == services


def test_a_job_that_brings_text_needs_no_recognition() -> None:
    assert services_for("text/zh:en:text") == ("nmt",)
    assert services_for("text/zh:en:speech") == ("nmt", "tts")
    assert services_for("text/en:en:speech") == ("tts",)
