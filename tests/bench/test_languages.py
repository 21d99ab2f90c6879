"""Nodes with many languages beside nodes with few: every figure is there."""

from bench import scenarios
from bench.languages import CODES
from bench.plan import Plan
from lingua_sdk.domain.languages import is_code

TINY = Plan(repeats=1, jobs=100)


def test_there_are_99_languages() -> None:
    assert len(set(filter(is_code, CODES))) == 99


async def test_every_figure_of_many_languages_is_there() -> None:
    run = await scenarios.run(["languages"], TINY, lambda _: None)
    medians = {figure.name: figure.median for figure in run.figures}
    for kind in ("2 languages", "99 languages"):
        for metric in (
            "registration: p50", "registration: in scripts", "registration: redis CPU", "registration: scheduler CPU",
            "a node: redis memory", "heartbeat: scheduler CPU", "heartbeat: redis CPU", "heartbeat: in scripts",
            "dispatch: p50", "dashboard: picture", "dashboard: change",
        ):  # fmt: skip
            assert medians[f"languages/{kind}/{metric}"] > 0, (kind, metric)
