"""`lingua node`"""

import asyncio
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from lingua_scheduler.cli.options import DEFAULT_ADDRESS, Exit, fail
from lingua_scheduler.cli.speech import engines
from lingua_scheduler.cli.wording import PlainConsole, plain
from lingua_scheduler.domain.pools.languages import is_code
from lingua_scheduler.engines import catalogue
from lingua_scheduler.engines.catalogue import STAGES, Choices, Stage
from lingua_scheduler.engines.crew import Crew
from lingua_scheduler.engines.sim import LANGUAGES, SimEngine
from lingua_scheduler.sdk.address import BadAddress, socket_url
from lingua_scheduler.sdk.engines import Abilities
from lingua_scheduler.sdk.node import Node
from lingua_scheduler.telemetry import logs, traces

SIM_SLOTS = 4
SIM_DELAY_MS = 120
# A recogniser takes a core while it listens, and memory for each utterance at once.
MOST_SLOTS = 4
MOST_PAIRS_NAMED = 20


def _engine_options(command: Callable[..., None]) -> Callable[..., None]:
    """What the owner of a node brings, and which of the engines are to be used."""
    folder = click.Path(path_type=Path, file_okay=False, exists=True)
    options = [
        click.option(f"--{stage}", metavar="NAME", help=f"Only this {stage}: {', '.join(catalogue.names(stage))}.")
        for stage in STAGES
    ]
    options += [
        click.option("--whisper-model", type=folder, help="Folder of a Whisper model in CTranslate2's format."),
        click.option("--nllb-model", type=folder, help="Folder of an NLLB or M2M100 model in CTranslate2's format."),
        click.option("--argos-model", "argos_models", type=folder, multiple=True, help="Folder of an Argos model."),
        click.option(
            "--piper-voice",
            "piper_voices",
            type=click.Path(path_type=Path, dir_okay=False, exists=True),
            multiple=True,
            help="A Piper voice: the .onnx file, with its .onnx.json beside it.",
        ),
        click.option("--models-dir", type=click.Path(path_type=Path), help="Where lingua models keeps them."),
        click.option(
            "--device",
            type=click.Choice(["auto", "cpu", "cuda"]),
            default="auto",
            show_default=True,
            help="Where models run that can run on a GPU.",
        ),
    ]
    for option in reversed(options):
        command = option(command)
    return command


@click.command()
@click.option(
    "--url", default=DEFAULT_ADDRESS, show_default=True, help="The scheduler: ws:// or http://, with or without a path."
)
@click.option(
    "--engine",
    type=click.Choice(["auto", "sim"]),
    default="auto",
    show_default=True,
    help="auto: the real engines found here. sim: measures the audio and makes up the rest; says so.",
)
@click.option("--languages", help="Only these, comma-separated.  [default: all it can]")
@click.option("--slots", type=click.IntRange(1, 256), help="Jobs at once.  [default: one a core, at most 4; sim: 4]")
@click.option("--id", "node_id", help="Keep this id over restarts.  [default: the scheduler gives one]")
@click.option(
    "--delay-ms", type=click.FloatRange(0, 60_000), help=f"How long sim works on a job.  [default: {SIM_DELAY_MS}]"
)
@_engine_options
@click.option("--list", "--check", "only_list", is_flag=True, help="Show which engines are here, and connect nowhere.")
@click.option("--json", "as_json", is_flag=True, help="With --list: machine-readable.")
def node(
    url: str,
    engine: str,
    languages: str | None,
    slots: int | None,
    node_id: str | None,
    delay_ms: float | None,
    only_list: bool,
    as_json: bool,
    **brought: Any,
) -> None:
    """Run a node: it dials in, says which languages it serves, works, and reconnects by itself.

    It serves exactly the pairs that the engines on this machine can do, and says what is missing and how to get it.

    \b
    lingua node --list                                 which engines are here
    lingua node                                        all of them, on this machine's scheduler
    lingua node --url wss://scheduler.example --languages en,pt
    lingua node --whisper-model ~/whisper-large-v3 --nllb-model ~/nllb-200 --piper-voice es.onnx
    lingua node --engine sim                           made-up words, in all simulated languages

    SIGTERM or Ctrl-C lets running jobs finish, then leaves.
    """
    codes = _codes(languages)
    if as_json and not only_list:
        fail("--json goes with --list", Exit.SETTINGS)
    if delay_ms is not None and engine != "sim":
        fail("--delay-ms goes with --engine sim; real engines take the time they need", Exit.SETTINGS)
    _must_be_address(url)
    if engine == "sim":
        if only_list:
            fail("--list is about real engines; leave --engine sim out", Exit.SETTINGS)
        spoken = codes or list(LANGUAGES)
        abilities = Abilities(recognises=spoken, repairs=spoken, speaks=spoken, slots=slots or SIM_SLOTS)
        sim = SimEngine(base_ms=SIM_DELAY_MS if delay_ms is None else delay_ms)
        worker = Node(url, sim, abilities, node_id=node_id, on_event=_tell)
        click.echo("This node is simulated: it measures audio and makes up the words.", err=True)
        asyncio.run(_serve(worker))
        return
    choices = _choices(codes, brought)
    found = catalogue.survey(choices)
    crew = Crew(found, choices, _tell)
    try:
        if only_list and as_json:
            click.echo(engines.as_json(found, crew))
        else:
            engines.show(found, crew, PlainConsole(stderr=not only_list))
        if not crew.pairs:
            fail(_nothing_to_do(crew, codes), Exit.ENGINES)
        if not only_list:
            _work(crew, slots or min(MOST_SLOTS, os.cpu_count() or 1), url, node_id)
    finally:
        crew.close()


def _work(crew: Crew, slots: int, url: str, node_id: str | None) -> None:
    worker = Node(url, crew.pipeline(slots), node_id=node_id, on_event=_tell)
    loading = ""

    def show(what: str) -> None:
        nonlocal loading
        loading = what
        status.update(f"loading {what} …")

    with PlainConsole(stderr=True).status("loading …") as status:
        try:
            crew.warm_up(slots, show)
        except Exception as error:
            why = f"{type(error).__name__}: {error}"
            fail(f"{loading} cannot be loaded ({why}); choose others with --recogniser or --translator", Exit.ENGINES)
    click.echo(f"serving {_named(crew.pairs)}; {slots} at once", err=True)
    asyncio.run(_serve(worker))


def _must_be_address(url: str) -> None:
    """Before engines are looked for, which takes a while."""
    try:
        socket_url(url, "/ws/node")
    except BadAddress as error:
        fail(str(error), Exit.SETTINGS)


def _tell(event: str, detail: str) -> None:
    click.echo(plain(f"node {event}: {detail}"), err=True)


def _codes(languages: str | None) -> list[str] | None:
    if languages is None:
        return None
    codes = [code.strip() for code in languages.split(",") if code.strip()]
    wrong = [code for code in codes if not is_code(code)]
    if wrong or not codes:
        named = f"{wrong[0]!r} is not a language code" if wrong else "no language is named"
        fail(f"{named}; try --languages en,zh", Exit.SETTINGS)
    return codes


def _choices(codes: list[str] | None, brought: dict[str, Any]) -> Choices:
    only: dict[Stage, list[str]] = {}
    for stage in STAGES:
        if (named := brought.pop(stage)) is not None:
            only[stage] = [name.strip() for name in named.split(",") if name.strip()]
            unknown = [name for name in only[stage] if name not in catalogue.names(stage)]
            if unknown:
                known = ", ".join(catalogue.names(stage))
                fail(f"{unknown[0]!r} is no {stage}; there are {known}", Exit.SETTINGS)
    models_dir = brought.pop("models_dir")
    return Choices(engines.shelf(models_dir), languages=codes, only=only, **brought)


def _nothing_to_do(crew: Crew, codes: list[str] | None) -> str:
    if codes is not None and crew.possible:
        others = _named(crew.possible[:MOST_PAIRS_NAMED]) + (", …" if len(crew.possible) > MOST_PAIRS_NAMED else "")
        return f"--languages {','.join(codes)} leaves no pair; without it: {others}"
    return (
        f"no translation can be made here: {crew.lacks}. For English to Portuguese: {catalogue.get_first()} "
        "(in a checkout: make speech). Without any: lingua node --engine sim"
    )


def _named(pairs: Sequence[tuple[str, str]]) -> str:
    return ", ".join(f"{source} → {target}" for source, target in pairs)


async def _serve(worker: Node) -> None:
    logs.configure("info", "auto")
    tracing = traces.configure(traces.NODE, os.environ)
    if tracing is not None:
        tracing.install()
    try:
        await worker.serve()
    finally:
        if tracing is not None:
            await tracing.close()
