"""`lingua node --check FILE`: what a file of engines would serve, tried pair by pair."""

import json
from pathlib import Path
from typing import Any

import click

from lingua_scheduler.cli.options import Exit, fail
from lingua_scheduler.cli.speech.own_engines import OwnEngine, named
from lingua_scheduler.cli.speech.sample import spoken_sample
from lingua_scheduler.cli.speech.shortcomings import told, why_nothing, why_text_only
from lingua_scheduler.cli.speech.trial import Trial, Trials
from lingua_scheduler.cli.wording import counted, plain_lines
from lingua_sdk.audio import SAMPLE_RATE, Audio
from lingua_sdk.domain.losses import STAGES
from lingua_sdk.engines import Abilities, Engine
from lingua_sdk.loading import NoEngine, load_engine
from lingua_sdk.self_test import MAX_PAIRS, pairs_of, problems_of


def check(path: Path, own: OwnEngine, timeout_s: float, as_json: bool) -> None:
    """Load the engines, try every pair, say what will be served. Ends with an exit code if something fails."""
    tried: list[Trial] = []
    try:
        with Trials(own, timeout_s) as trials:
            able = _loaded_abilities(path, own, trials)
            for pair in pairs_of(able)[:MAX_PAIRS]:
                click.echo(f"{named([pair])}  trying …", err=as_json)
                tried.append(trials.attempt(pair, able, _sample(pair[0])))
                if not as_json:
                    _show(own, tried[-1])
    except Exception as error:
        fail(f"{path.name}: {told(error)}", Exit.ENGINES)
    if as_json:
        click.echo(json.dumps(_as_json(own.name, able, tried), ensure_ascii=False))
    else:
        works = named((one.test.source, one.test.target) for one in tried if not one.test.problem)
        click.echo(f"would serve {works}; {able.slots} at once" if works else "would serve nothing")
    if not tried:
        fail(f"{path.name} serves nothing: {why_nothing(own)}", Exit.ENGINES)
    if failed := problems_of([one.test for one in tried]):
        fail(f"{path.name}: {counted(len(failed), 'pair')} failed", Exit.ENGINES)


def loaded(path: Path) -> tuple[Engine, Abilities | None]:
    try:
        return load_engine(path)
    except NoEngine as error:
        fail(str(error), Exit.ENGINES)
    except (Exception, SystemExit) as error:
        fail(f"{path.name}: {told(error)}", Exit.ENGINES)


def _loaded_abilities(path: Path, own: OwnEngine, trials: Trials) -> Abilities:
    if hasattr(own, "load"):
        click.echo(f"loading {path.name} …", err=True)
    return trials.loaded()


def _sample(language: str) -> Audio:
    return spoken_sample() if language.startswith("en") else Audio(bytes(2 * SAMPLE_RATE))


def _show(own: OwnEngine, tried: Trial) -> None:
    test = tried.test
    stages = ", ".join(f"{STAGES.get(stage, stage)} {took_ms:.0f} ms" for stage, took_ms in test.stage_ms.items())
    unheard = "" if test.heard or test.problem else "; no speech was recognised in the sample"
    result = "FAILED" if test.problem else f"ok, {_how(own, tried)}"
    line = f"{test.source} → {test.target}  {result}, {test.took_ms:.0f} ms"
    click.echo(line + (f" ({stages})" if stages else "") + unheard)
    for part in (*test.problem.splitlines(), *(f"warning: {one}" for one in _warnings(tried))):
        click.echo(plain_lines(f"    {part}"))


def _how(own: OwnEngine, tried: Trial) -> str:
    if not tried.test.is_spoken:
        return f"text only ({why_text_only(own, tried.test.target)})"
    return f"{tried.test.speech_s:.1f} s of speech spoken" if tried.test.speech_s else "no speech"


def _warnings(tried: Trial) -> list[str]:
    """What works, and yet would not do for jobs."""
    test = tried.test
    found = []
    if test.is_spoken and not test.problem and not tried.test.speech_s:
        found.append(f"the voice returned no speech for {test.target}")
    if tried.is_late:
        audio_s, allowed_s = _sample(test.source).seconds, tried.allowed_ms / 1000
        found.append(
            f"a job with {audio_s:.1f} s of audio is given up after {allowed_s:.1f} s by default "
            "(job.timeout_base_ms plus job.timeout_factor times the audio); "
            "an engine can ask for more with more_time()"
        )
    return found


def _as_json(name: str, able: Abilities, tried: list[Trial]) -> dict[str, Any]:
    return {
        "engine": name,
        "slots": able.slots,
        "services": [service._asdict() for service in able.services or ()],
        "pairs": [
            {
                "from": one.test.source,
                "to": one.test.target,
                "is_spoken": one.test.is_spoken,
                "speech_s": round(one.test.speech_s, 2),
                "is_heard": one.test.heard,
                "took_ms": one.test.took_ms,
                "allowed_ms": round(one.allowed_ms),
                "stage_ms": one.test.stage_ms,
                "problem": one.test.problem or None,
                "warnings": _warnings(one),
            }
            for one in tried
        ],
    }
