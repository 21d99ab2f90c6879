"""`lingua node`"""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from lingua_scheduler.cli.options import Exit, fail
from lingua_scheduler.cli.scheduler_access import url_option
from lingua_scheduler.cli.speech import check, engines, file_node
from lingua_scheduler.cli.speech.joining import JOIN_VARIABLE, NodePlace, place_of_node
from lingua_scheduler.cli.speech.own_engines import OwnEngine, named
from lingua_scheduler.cli.speech.tls_options import tls_options
from lingua_scheduler.cli.wording import PlainConsole, plain_lines, stamp, table_console
from lingua_scheduler.domain.nodes.nodes import NODE_ID
from lingua_scheduler.engines import catalogue
from lingua_scheduler.engines.catalogue import STAGES, Choices, Stage
from lingua_scheduler.engines.crew import Crew
from lingua_scheduler.engines.sim import LANGUAGES, SimEngine
from lingua_sdk.address import BadAddress, socket_url
from lingua_sdk.domain.languages import is_code
from lingua_sdk.engines import Abilities, Engine
from lingua_sdk.loading import importing_beside
from lingua_sdk.node import Node

SIM_SLOTS = 4
SIM_DELAY_MS = 120
# A recogniser takes a core while it listens, and memory for each utterance at once.
MOST_SLOTS = 4
MOST_PAIRS_NAMED = 20
# Options that make sense for engines of a file; the others choose or configure the installed ones.
GO_WITH_FILE = ("url", "joining", "languages", "slots", "node_id", "only_check", "timeout_s", "as_json")
NODE_ID_RULE = "1 to 64 letters, digits and . _ : -, with a letter or a digit first"


def _engine_options(command: Callable[..., None]) -> Callable[..., None]:
    """What the owner of a node brings, and which of the engines are to be used."""
    folder = click.Path(path_type=Path, file_okay=False, exists=True)
    options = [
        click.option(f"--{stage}", metavar="NAME", help=f"Use only this {stage}: {', '.join(catalogue.names(stage))}.")
        for stage in STAGES
    ]
    options += [
        click.option("--whisper-model", type=folder, help="Directory of a Whisper model in CTranslate2 format."),
        click.option("--nllb-model", type=folder, help="Directory of an NLLB or M2M100 model in CTranslate2 format."),
        click.option("--argos-model", "argos_models", type=folder, multiple=True, help="Directory of an Argos model."),
        click.option(
            "--piper-voice",
            "piper_voices",
            type=click.Path(path_type=Path, dir_okay=False, exists=True),
            multiple=True,
            help="Piper voice: an .onnx file, with its .onnx.json next to it.",
        ),
        click.option(
            "--models-dir", type=click.Path(path_type=Path), help="Directory of models fetched with lingua models."
        ),
        click.option(
            "--device",
            type=click.Choice(["auto", "cpu", "cuda"]),
            default="auto",
            show_default=True,
            help="Where to run models that support a GPU.",
        ),
    ]
    for option in reversed(options):
        command = option(command)
    return command


@click.command()
@url_option
@click.option(
    "--engine",
    type=click.Choice(["auto", "sim"]),
    default="auto",
    show_default=True,
    help="auto = installed speech engines; sim = measure the audio and invent the words.",
)
@click.option("--languages", help="Serve only these languages, comma-separated.  [default: all supported]")
@click.option(
    "--slots",
    type=click.IntRange(1, 256),
    help="Concurrent jobs.  [default: one per CPU core, at most 4; sim: 4; FILE: as it says]",
)
@click.option(
    "--join",
    "joining",
    metavar="STRING",
    envvar=JOIN_VARIABLE,
    help="Join a scheduler, with a string of lingua keys create --kind enrol or a file that has it; needed once.",
)
@tls_options
@click.option("--id", "node_id", help="Node id, kept over restarts.  [default: assigned by the scheduler]")
@click.option(
    "--delay-ms", type=click.FloatRange(0, 60_000), help=f"Milliseconds sim spends on a job.  [default: {SIM_DELAY_MS}]"
)
@_engine_options
@click.option("--list", "only_list", is_flag=True, help="Show the installed engines, then exit.")
@click.option(
    "--check", "only_check", is_flag=True, help="With FILE: try every pair of its engines, then exit. Alone: --list."
)
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(0.1, 3600),
    default=60,
    show_default=True,
    help="With --check FILE: maximum seconds for each pair.",
)
@click.option("--json", "as_json", is_flag=True, help="With --list or --check: output JSON.")
@click.argument("file", required=False, type=click.Path(path_type=Path, dir_okay=False, exists=True))
def node(
    file: Path | None,
    url: str,
    engine: str,
    languages: str | None,
    slots: int | None,
    node_id: str | None,
    joining: str | None,
    delay_ms: float | None,
    only_list: bool,
    only_check: bool,
    timeout_s: float,
    as_json: bool,
    **brought: Any,
) -> None:
    """Run a node: connect to a scheduler and process jobs.

    It serves the language pairs that the speech engines on this machine support, reports which engines are missing and
    how to install them, and reconnects automatically. With FILE, a Python file, it serves the engines of that file.

    \b
    lingua node --list             show the installed engines
    lingua node                    use all of them, with a local scheduler
    lingua node --url wss://scheduler.example --languages en,pt
    lingua node --join lingua-join_…   join a scheduler; afterwards --url
    lingua node --whisper-model ~/whisper-large-v3 --piper-voice es.onnx
    lingua node my_engines.py      serve engines of your own
    lingua node --check my_engines.py   try them first, pair by pair
    lingua node --engine sim       simulate: invented words, all languages

    SIGTERM or Ctrl-C stops it after its running jobs have finished.
    """
    codes = _codes(languages)
    _must_be_of_a_check(as_json, only_list or only_check, only_check and file is not None)
    _must_be_node_id(node_id)
    if file is not None:
        _must_go_with_file()
        _must_be_address(url)
        with importing_beside(file):
            own = OwnEngine(*check.loaded(file), codes, slots)
            if only_check:
                check.check(file, own, timeout_s, as_json)
            else:
                place = _place(joining, url, node_id)
                file_node.serve(file, own, lambda: _node(place, own), place)
        return
    only_list = only_list or only_check
    if delay_ms is not None and engine != "sim":
        fail("--delay-ms requires --engine sim; real engines take as long as they need", Exit.SETTINGS)
    _must_be_address(url)
    if engine == "sim":
        if only_list:
            fail("--list shows real engines; remove --engine sim", Exit.SETTINGS)
        spoken = codes or list(LANGUAGES)
        abilities = Abilities(spoken, spoken, spoken, slots=slots or SIM_SLOTS, takes_text=True)
        sim = SimEngine(base_ms=SIM_DELAY_MS if delay_ms is None else delay_ms)
        place = _place(joining, url, node_id)
        worker = _node(place, sim, abilities)
        click.echo(f"{stamp()} This node is simulated: it measures the audio and invents the words.", err=True)
        asyncio.run(file_node.serving(worker, place.url, place.advice))
        return
    choices = _choices(codes, brought)
    found = catalogue.survey(choices)
    crew = Crew(found, choices, _tell)
    try:
        if only_list and as_json:
            click.echo(engines.as_json(found, crew))
        else:
            engines.show(found, crew, table_console(stderr=not only_list))
        if not crew.pairs:
            fail(_nothing_to_do(crew, codes), Exit.ENGINES)
        if not only_list:
            _work(crew, slots or min(MOST_SLOTS, os.cpu_count() or 1), _place(joining, url, node_id))
    finally:
        crew.close()


def _place(joining: str | None, url: str, node_id: str | None) -> NodePlace:
    return place_of_node(joining, url, node_id, is_url_given=_is_given("url"))


def _node(place: NodePlace, engine: Engine, abilities: Abilities | None = None) -> Node:
    return Node(place.url, engine, abilities, node_id=place.node_id, on_event=_tell, token=place.token, tls=place.tls)


def _work(crew: Crew, slots: int, place: NodePlace) -> None:
    worker = _node(place, crew.pipeline(slots))
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
            fail(f"cannot load {loading} ({why}); choose other engines with --recogniser or --translator", Exit.ENGINES)
    click.echo(f"{stamp()} serving {named(crew.pairs)}; {slots} at once", err=True)
    asyncio.run(file_node.serving(worker, place.url, place.advice))


def _must_be_address(url: str) -> None:
    """Check the arguments before searching for engines, which is slow."""
    try:
        socket_url(url, "/ws/node")
    except BadAddress as error:
        fail(str(error), Exit.SETTINGS)


def _must_be_node_id(node_id: str | None) -> None:
    if node_id is not None and not NODE_ID.fullmatch(node_id):
        fail(f"--id {node_id!r} cannot be a node id: {NODE_ID_RULE}", Exit.SETTINGS)


def _must_be_of_a_check(as_json: bool, is_shown: bool, is_tried: bool) -> None:
    """Refuse what has no effect without --list or --check."""
    if as_json and not is_shown:
        fail("--json goes with --list or --check", Exit.SETTINGS)
    if _is_given("timeout_s") and not is_tried:
        fail("--timeout goes with --check FILE", Exit.SETTINGS)


def _is_given(name: str) -> bool:
    return click.get_current_context().get_parameter_source(name) is ParameterSource.COMMANDLINE


def _must_go_with_file() -> None:
    for option in click.get_current_context().command.params:
        name = option.name or ""
        if isinstance(option, click.Option) and option.expose_value and name not in GO_WITH_FILE and _is_given(name):
            hint = "; --check tries those of FILE" if name == "only_list" else ""
            fail(f"{option.opts[0]} is for installed engines and does not go with FILE{hint}", Exit.SETTINGS)


def _tell(event: str, detail: str) -> None:
    click.echo(plain_lines(f"{stamp()} node {event}: {detail}"), err=True)


def _codes(languages: str | None) -> list[str] | None:
    if languages is None:
        return None
    codes = [code.strip() for code in languages.split(",") if code.strip()]
    wrong = [code for code in codes if not is_code(code)]
    if wrong or not codes:
        what = f"{wrong[0]!r} is not a language code" if wrong else "no language is named"
        fail(f"{what}; for example: --languages en,zh", Exit.SETTINGS)
    return codes


def _choices(codes: list[str] | None, brought: dict[str, Any]) -> Choices:
    only: dict[Stage, list[str]] = {}
    for stage in STAGES:
        if (named := brought.pop(stage)) is not None:
            only[stage] = [name.strip() for name in named.split(",") if name.strip()]
            unknown = [name for name in only[stage] if name not in catalogue.names(stage)]
            if unknown:
                known = ", ".join(catalogue.names(stage))
                fail(f"{unknown[0]!r} is not a {stage}; known: {known}", Exit.SETTINGS)
    models_dir = brought.pop("models_dir")
    return Choices(engines.shelf(models_dir), languages=codes, only=only, **brought)


def _nothing_to_do(crew: Crew, codes: list[str] | None) -> str:
    if codes is not None and crew.possible:
        others = named(crew.possible[:MOST_PAIRS_NAMED]) + (", …" if len(crew.possible) > MOST_PAIRS_NAMED else "")
        return f"--languages {','.join(codes)} leaves no language pair to serve; without it: {others}"
    return (
        f"no translation is possible with the installed engines: {crew.lacks}. For English to Portuguese: "
        f"{catalogue.get_first()} "
        "(in a checkout: make speech). Without engines: lingua node --engine sim"
    )
