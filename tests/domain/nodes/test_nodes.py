"""The state that follows from what a node says of itself."""

import pytest

from lingua_scheduler.domain.nodes.nodes import Features, LoadLimits, MachineLoad, NodeState, Profile
from lingua_scheduler.domain.pools.pools import Languages
from lingua_sdk.domain.languages import Pair

PROFILE = Profile(
    declared=Languages(),
    down=frozenset(),
    max_jobs=4,
    features=Features(acknowledges=True),
    reports_jobs=True,
    takes_jobs=True,
    boot_id="b",
    version="2.0.0",
    platform="linux",
)


@pytest.mark.parametrize(
    ("takes_jobs", "serves_pairs", "is_overloaded", "state"),
    [
        (True, True, False, NodeState.READY),
        (True, True, True, NodeState.DEGRADED),
        (True, False, False, NodeState.REGISTERING),
        (True, False, True, NodeState.REGISTERING),
        (False, True, False, NodeState.DRAINING),
        (False, True, True, NodeState.DRAINING),
        (False, False, False, NodeState.DRAINING),
    ],
)
def test_a_node_is_ready_when_it_takes_jobs_serves_a_pair_and_has_strength_left(
    takes_jobs: bool, serves_pairs: bool, is_overloaded: bool, state: NodeState
) -> None:
    profile = PROFILE._replace(takes_jobs=takes_jobs, is_overloaded=is_overloaded)
    assert profile.state(serves_pairs) is state


BOTH = frozenset({"en", "zh"})
DECLARED = Languages(asr=BOTH, semantic=BOTH, tts=BOTH)


@pytest.mark.parametrize(
    ("down", "languages"),
    [
        (set(), DECLARED),
        ({"asr"}, DECLARED._replace(asr=frozenset())),
        ({"semantic"}, DECLARED._replace(semantic=frozenset())),
        ({"tts"}, DECLARED._replace(tts=frozenset())),
        ({"nmt"}, DECLARED._replace(translations=frozenset())),
        ({"tone"}, DECLARED),
        ({"asr", "semantic", "nmt", "tts"}, Languages(translations=frozenset())),
    ],
)
def test_what_is_down_takes_the_languages_that_need_it_along(down: set[str], languages: Languages) -> None:
    assert PROFILE._replace(declared=DECLARED, down=frozenset(down)).languages == languages


def test_declared_translations_count_while_the_translator_is_up() -> None:
    declared = DECLARED._replace(translations=frozenset({Pair("en", "zh")}))
    assert PROFILE._replace(declared=declared).languages == declared


LIMITS = LoadLimits(cpu=90, memory=80, gpu=70, gpu_memory=60)


@pytest.mark.parametrize(
    "load", [MachineLoad(), MachineLoad(0, 0, 0, 0), MachineLoad(cpu=90, memory=80, gpu=70, gpu_memory=60)]
)
def test_a_machine_up_to_its_limits_is_not_overloaded(load: MachineLoad) -> None:
    assert not LIMITS.exceeded_by(load)


@pytest.mark.parametrize(
    "load", [MachineLoad(cpu=90.1), MachineLoad(memory=81), MachineLoad(gpu=71), MachineLoad(0, 0, 0, 61)]
)
def test_one_measure_above_its_limit_is_enough(load: MachineLoad) -> None:
    assert LIMITS.exceeded_by(load)


@pytest.mark.parametrize(
    ("now", "is_noticed"),
    [
        (MachineLoad(14.9, 50), False),
        (MachineLoad(15, 50), True),
        (MachineLoad(10, 45), True),
        (MachineLoad(10, 50, 0.0), True),
        (MachineLoad(None, 50), True),
        (MachineLoad(10, 50), False),
    ],
)
def test_a_load_that_hardly_changed_is_no_news(now: MachineLoad, is_noticed: bool) -> None:
    assert now.differs(MachineLoad(10, 50)) is is_noticed
