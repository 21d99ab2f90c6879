"""`lingua load`"""

import asyncio
import resource
import signal
from contextlib import AsyncExitStack
from importlib import resources
from pathlib import Path

import click
import msgspec
import uvloop
from rich.console import Group
from rich.live import Live

from lingua_scheduler.cli.credentials import shown_to
from lingua_scheduler.cli.load.crowd import ANSWER_WITHIN_S, Crowd, Plan, probe, sessions_for
from lingua_scheduler.cli.load.sheet import State, line, sheet
from lingua_scheduler.cli.load.tally import SHARES, LoadReport
from lingua_scheduler.cli.options import Exit, fail
from lingua_scheduler.cli.scheduler_access import addressed, asked, node_command, not_allowed, url_option
from lingua_scheduler.cli.speech.failures import UNREACHABLE, why_unreachable
from lingua_scheduler.cli.wording import PlainConsole, plain
from lingua_scheduler.domain.pools.names import Facet
from lingua_scheduler.protocol.http import PoolList
from lingua_sdk import wav
from lingua_sdk.access import AccessDenied
from lingua_sdk.address import BadAddress, socket_url
from lingua_sdk.audio import SAMPLE_RATE
from lingua_sdk.domain.errors import ErrorCode
from lingua_sdk.domain.languages import Pair, is_code
from lingua_sdk.http import Refused, get

MAX_SPEAKERS = 2_000
MAX_RATE = 500.0
MAX_SECONDS = 86_400
DEFAULT_SPEAKERS = 10
# For a server that does not say what it serves.
OTHERWISE = "zh"
# A scheduler cuts longer utterances (sessions.max_duration_ms, 10 s by default).
MAX_AUDIO_S = 8.0
# Files of this process besides the sockets.
OTHER_FILES = 100
DRAW_EVERY_S = 0.5
LINE_EVERY_S = 5.0
NOBODY = frozenset({ErrorCode.NO_CAPABLE_NODE.value, ErrorCode.NO_AVAILABLE_NODE.value})


@click.command()
@click.argument("address", metavar="[URL]", required=False)
@url_option
@click.option("--from", "src_lang", default="en", show_default=True, metavar="LANG", help="Source language.")
@click.option(
    "--to", "tgt_lang", metavar="LANG", help="Target language.  [default: what nodes serve, most slots first]"
)
@click.option(
    "--speakers",
    type=click.IntRange(1, MAX_SPEAKERS),
    help=f"Speakers at the pace of speech, with pauses.  [default: {DEFAULT_SPEAKERS}]",
)
@click.option(
    "--rate", type=click.FloatRange(0.1, MAX_RATE), help="Instead of --speakers: whole utterances per second."
)
@click.option(
    "--seconds",
    type=click.FloatRange(1, MAX_SECONDS),
    default=60.0,
    show_default=True,
    help="Duration; Ctrl-C ends it earlier.",
)
@click.option(
    "--ramp-up",
    "ramp_up_s",
    type=click.FloatRange(0, 3_600),
    default=5.0,
    show_default=True,
    help="Seconds until the full load is reached.",
)
@click.option(
    "--audio",
    "sound",
    type=click.Path(path_type=Path),
    help=f"WAV file to send, its first {MAX_AUDIO_S:g} s.  [default: an English sentence]",
)
@click.option("--max-p99-ms", type=click.FloatRange(0, min_open=True), help="Fail if p99 is higher.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def load(
    address: str | None,
    url: str,
    src_lang: str,
    tgt_lang: str | None,
    speakers: int | None,
    rate: float | None,
    seconds: float,
    ramp_up_s: float,
    sound: Path | None,
    max_p99_ms: float | None,
    as_json: bool,
) -> None:
    """Load-test a scheduler with simulated speakers.

    Shows latency percentiles, and every failure by its error code.

    Each speaker is a session of its own over the public WebSocket and says the same recording again and again. Real
    nodes do real work for all of it. Latency is from the end of an utterance to its translation; the time for which
    the scheduler waits for more speech (sessions.hangover_manual_ms) is part of it.

    \b
    lingua load --speakers 50
    lingua load --url ws://127.0.0.1:5010 --to es --rate 20 --seconds 300
    lingua load ws://127.0.0.1:5010 --speakers 200 --max-p99-ms 1500 --json

    The exit code is 1 if any utterance or session failed, or p99 is above --max-p99-ms. The first Ctrl-C ends the
    load and shows the result; a second one leaves at once.
    """
    if speakers is not None and rate is not None:
        fail("--speakers and --rate exclude each other; leave one of them out", Exit.SETTINGS)
    url = address or url
    for language in (src_lang, tgt_lang):
        if language is not None and not is_code(language):
            fail(f"{language!r} is not a language code; try --from en --to zh", Exit.SETTINGS)
    try:
        socket_url(url, "/ws/session")
    except BadAddress as error:
        fail(str(error), Exit.SETTINGS)
    audio = _audio(sound)
    tgt_lang = tgt_lang or _served_target(url, src_lang)
    sessions = speakers or (sessions_for(rate) if rate else DEFAULT_SPEAKERS)
    plan = Plan(url, src_lang, tgt_lang, sessions, rate or 0.0, seconds, min(ramp_up_s, seconds), audio, shown_to(url))
    _allow_files(sessions)
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            crowd = runner.run(_load(plan, as_json))
    except KeyboardInterrupt:
        raise SystemExit(Exit.INTERRUPTED) from None
    problems = crowd.tally.problems(max_p99_ms)
    if as_json:
        click.echo(msgspec.json.encode(_report(plan, crowd, problems)))
    else:
        console = PlainConsole()
        for text in sheet(plan, crowd.tally, crowd.elapsed_s, State.OVER):
            console.print(text)
    if problems:
        fail("; ".join(problems), Exit.FOUND)


def _served_target(url: str, src_lang: str) -> str:
    """The target for which most nodes speak from this source, as it is now."""
    try:
        pools = msgspec.json.decode(asked(url, lambda: asyncio.run(_pools(url))), type=PoolList)
    except msgspec.DecodeError:
        return OTHERWISE  # not a scheduler, which the first utterance will tell
    nodes = {
        tgt: served.get(Facet.SPEECH, 0)
        for (src, tgt), served in ((Pair.parse(name), served) for name, served in pools.pairs.items())
        if src == src_lang != tgt and served.get(Facet.SPEECH)
    }
    for wide in pools.wide:
        targets = wide.speech if wide.translations is None else wide.translations.get(src_lang, [])
        if src_lang in wide.sources:
            nodes |= {tgt: wide.nodes + nodes.get(tgt, 0) for tgt in targets if tgt in wide.speech and tgt != src_lang}
    if not nodes:
        fail(
            f"no node serves a pair from {src_lang}; start a node with: {node_command(url)},"
            " or choose another with --from",
            Exit.SCHEDULER,
        )
    return max(sorted(nodes), key=lambda tgt: nodes[tgt])


async def _pools(url: str) -> bytes:
    try:
        return await get(url, "/v1/pools", shown_to(url))
    except Refused:
        return b""


def _audio(sound: Path | None) -> bytes:
    try:
        if sound is not None:
            pcm16 = wav.read(sound)
        else:
            with resources.as_file(resources.files("lingua_scheduler.cli") / "assets" / "sample-en.wav") as path:
                pcm16 = wav.read(path)
    except wav.BadSound as error:
        fail(str(error), Exit.SETTINGS)
    if not pcm16:
        fail(f"{sound} is a WAV file without any sound in it", Exit.SETTINGS)
    return pcm16[: int(MAX_AUDIO_S * SAMPLE_RATE) * 2]


def _allow_files(sessions: int) -> None:
    """Every session is a socket, hence an open file."""
    wanted = sessions + OTHER_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return
    if hard != resource.RLIM_INFINITY and hard < wanted:
        fail(
            f"{sessions} sessions need {wanted} open files, and this process may have {hard} (ulimit -Hn); use fewer",
            Exit.SETTINGS,
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


async def _load(plan: Plan, as_json: bool) -> Crowd:
    try:
        failure = await probe(plan)
    except AccessDenied as error:
        not_allowed(plan.address, error)
    except UNREACHABLE as error:
        fail(why_unreachable(error, plan.address, ANSWER_WITHIN_S), Exit.SCHEDULER)
    if failure is not None and failure.code in NOBODY:
        fail(
            f"no node serves {plan.src_lang} → {plan.tgt_lang}"
            f" ({failure.code}: {addressed(failure.hint, plan.address)});"
            " lingua pools shows the pairs, --from and --to choose one",
            Exit.SCHEDULER,
        )
    crowd = Crowd(plan)
    running = asyncio.ensure_future(crowd.run())
    loop = asyncio.get_running_loop()

    def stop() -> None:
        """The first Ctrl-C ends the load; a second one is not caught."""
        crowd.stop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop)
    await _show_until_over(running, crowd, plan, as_json)
    await running
    return crowd


async def _show_until_over(running: "asyncio.Future[None]", crowd: Crowd, plan: Plan, as_json: bool) -> None:
    """Live on a terminal, else a line now and then; on standard error, so that the result can be piped."""
    console = PlainConsole(stderr=True)
    async with AsyncExitStack() as stack:
        live = None
        if console.is_terminal and not console.is_dumb_terminal:
            live = stack.enter_context(Live(console=console, auto_refresh=False, transient=True))
        while not running.done():
            if live is not None:
                state = State.WAITING if crowd.is_over else State.SPEAKING
                live.update(Group(*sheet(plan, crowd.tally, crowd.elapsed_s, state)), refresh=True)
            elif not as_json:
                click.echo(line(plan, crowd.tally, crowd.elapsed_s), err=True)
            await asyncio.wait((running,), timeout=DRAW_EVERY_S if live is not None else LINE_EVERY_S)


def _report(plan: Plan, crowd: Crowd, problems: list[str]) -> LoadReport:
    tally = crowd.tally
    return LoadReport(
        url=plain(plan.address),
        src_lang=plan.src_lang,
        tgt_lang=plan.tgt_lang,
        speakers=None if plan.rate else plan.sessions,
        rate=plan.rate or None,
        seconds=round(crowd.elapsed_s, 1),
        said=tally.said,
        translated=tally.translated,
        late=tally.late,
        no_text=tally.no_text,
        failed=dict(tally.failed),
        gaps=dict(tally.gaps),
        unanswered=tally.unanswered,
        sessions_lost=dict(tally.sessions_lost),
        sessions_resumed=tally.resumed,
        latency_ms={name: tally.took.at(share) for name, share in SHARES.items()}
        | {"max": tally.took.max_ms if tally.translated else None},
        problems=problems,
        notes=tally.notes(),
    )
