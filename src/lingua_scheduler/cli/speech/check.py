"""`lingua node --check FILE`: what a file of engines would serve, tried pair by pair."""

import asyncio
import json
from pathlib import Path
from typing import Any

import click

from lingua_scheduler.cli.options import Exit, fail
from lingua_scheduler.cli.speech.own_engines import OwnEngine
from lingua_scheduler.cli.speech.sample import spoken_sample
from lingua_scheduler.cli.speech.shortcomings import told, why_nothing, why_text_only
from lingua_scheduler.cli.wording import counted, plain_lines
from lingua_scheduler.domain.jobs.losses import STAGES
from lingua_scheduler.sdk.audio import SAMPLE_RATE
from lingua_scheduler.sdk.engines import Abilities, Engine
from lingua_scheduler.sdk.loading import NoEngine, load_engine
from lingua_scheduler.sdk.self_test import MAX_PAIRS, PairTest, pairs_of, problems_of, try_pair


def check(path: Path, own: OwnEngine, as_json: bool) -> None:
    """Load the engines, try every pair, say what will be served. Ends with an exit code if something fails."""
    engine = own.engine
    try:
        able, tests = asyncio.run(_tried(path.name, own))
    except Exception as error:
        fail(f"{path.name}: {told(error)}", Exit.ENGINES)
    failed = problems_of(tests)
    if as_json:
        click.echo(json.dumps(_as_json(engine, able, tests), ensure_ascii=False))
    else:
        _show(own, able, tests)
    if not tests:
        fail(f"{path.name} serves nothing: {why_nothing(own)}", Exit.ENGINES)
    if failed:
        fail(f"{path.name}: {counted(len(failed), 'pair')} failed", Exit.ENGINES)


def loaded(path: Path) -> tuple[Engine, Abilities | None]:
    try:
        return load_engine(path)
    except NoEngine as error:
        fail(str(error), Exit.ENGINES)
    except (Exception, SystemExit) as error:
        fail(f"{path.name}: {told(error)}", Exit.ENGINES)


async def _tried(name: str, own: OwnEngine) -> tuple[Abilities, list[PairTest]]:
    engine = own.engine
    if callable(load := getattr(engine, "load", None)):
        click.echo(f"loading {name} …", err=True)
        await load()
    able = own.abilities()
    speech = spoken_sample().samples
    silence = bytes(2 * SAMPLE_RATE)
    pairs = pairs_of(able)[:MAX_PAIRS]
    return able, [await try_pair(engine, pair, able, speech if pair[0].startswith("en") else silence) for pair in pairs]


def _show(own: OwnEngine, able: Abilities, tests: list[PairTest]) -> None:
    for test in tests:
        stages = ", ".join(f"{STAGES.get(stage, stage)} {took_ms:.0f} ms" for stage, took_ms in test.stage_ms.items())
        result = "FAILED" if test.problem else "ok"
        how = "spoken" if test.is_spoken else f"text only ({why_text_only(own, test.target)})"
        unheard = "" if test.heard or test.problem else "; no speech was recognised in the sample"
        line = f"{test.source} → {test.target}  {result}, {how}, {test.took_ms:.0f} ms"
        click.echo(line + (f" ({stages})" if stages else "") + unheard)
        if test.problem:
            click.echo(plain_lines("\n".join(f"    {part}" for part in test.problem.splitlines())))
    works = ", ".join(f"{test.source} → {test.target}" for test in tests if not test.problem)
    click.echo(f"would serve {works}; {able.slots} at once" if works else "would serve nothing")


def _as_json(engine: Engine, able: Abilities, tests: list[PairTest]) -> dict[str, Any]:
    return {
        "engine": engine.name,
        "slots": able.slots,
        "services": [service._asdict() for service in able.services or ()],
        "pairs": [
            {
                "from": test.source,
                "to": test.target,
                "is_spoken": test.is_spoken,
                "is_heard": test.heard,
                "took_ms": test.took_ms,
                "stage_ms": test.stage_ms,
                "problem": test.problem or None,
            }
            for test in tests
        ],
    }
