"""The process that decodes: it gets the file and replies, and whatever it does, it ends."""

import asyncio
import sys
from pathlib import Path

import pytest

from lingua_scheduler.protocol.uploads import Decoded, Flaw, NotDecoded, SoundFormat, wav_of
from lingua_scheduler.services.dispatch import sound_files
from lingua_scheduler.services.dispatch.sound_files import SoundFiles
from lingua_scheduler.setting_sections.callers import CallsSettings
from lingua_scheduler.setting_sections.sessions import SessionsSettings
from tests.support.sounds import sample_pcm16
from tests.support.waiting import until


def files(**changes: int) -> SoundFiles:
    return SoundFiles(CallsSettings(**changes), SessionsSettings())


async def test_a_file_becomes_utterances() -> None:
    decoded = await files().decode(wav_of(sample_pcm16()), SoundFormat.WAV)
    assert isinstance(decoded, Decoded)
    assert b"".join(piece.audio for piece in decoded.pieces) == sample_pcm16()


async def test_what_nodes_spoke_becomes_one_file_if_it_can_be_read() -> None:
    assert await files().join([("pcm16", b"\1\0"), ("wav", wav_of(b"\2\0"))]) == wav_of(b"\1\0\2\0")
    assert await files().join([("flac", b"x")]) is None


async def test_a_decoder_that_has_ended_gets_no_more() -> None:
    process = await asyncio.create_subprocess_exec("true", stdin=asyncio.subprocess.PIPE)
    assert process.stdin is not None
    await process.wait()
    await until(process.stdin.is_closing)
    await sound_files._write(process, b"x", b"y")


@pytest.mark.parametrize(
    ("program", "detail"),
    [
        ("import time; time.sleep(60)", "takes too long"),
        ("raise SystemExit(1)", "cannot be decoded"),
        ("import os; os.kill(os.getpid(), 9)", "cannot be decoded"),
        ("import sys; sys.stdin.buffer.read(); sys.stdout.write('x' * 10)", "cannot be decoded"),
        ("import sys; [sys.stdout.write('x' * 2**20) for _ in range(200)]", "cannot be decoded"),
    ],
)
async def test_a_decoder_that_hangs_crashes_or_babbles_is_ended(
    monkeypatch: pytest.MonkeyPatch, program: str, detail: str
) -> None:
    monkeypatch.setattr(sound_files, "_COMMAND", (sys.executable, "-c", program))
    found = await files(decode_timeout_ms=3_000).decode(b"x" * 1_000_000, SoundFormat.WAV)
    assert isinstance(found, NotDecoded)
    assert found.flaw is Flaw.UNREADABLE
    assert detail in found.detail


async def test_a_caller_waits_for_one_decoder_and_not_for_the_files_of_another(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    # Each file is a name, under which its decoder waits until it may go on.
    program = (
        "import os, sys, time\n"
        "folder, name = sys.argv[1], sys.stdin.buffer.read()[-2:].decode()\n"
        "open(os.path.join(folder, 'at-' + name), 'w').close()\n"
        "while not os.path.exists(os.path.join(folder, 'go')): time.sleep(0.01)\n"
    )
    monkeypatch.setattr(sound_files, "_COMMAND", (sys.executable, "-c", program, str(tmp_path)))
    sounds = files(max_decoders=1)

    def at(name: str) -> bool:
        return (tmp_path / f"at-{name}").exists()

    async with asyncio.TaskGroup() as group:
        first = group.create_task(sounds.decode(b"a0", SoundFormat.WAV, "a"))
        await until(lambda: at("a0"))
        hoard = [group.create_task(sounds.decode(b"a%d" % number, SoundFormat.WAV, "a")) for number in (1, 2)]
        await asyncio.sleep(0)
        other = group.create_task(sounds.decode(b"b0", SoundFormat.WAV, "b"))
        await asyncio.sleep(0)
        (tmp_path / "go").touch()
        await first
        await other
        assert not all(task.done() for task in hoard)
        assert at("b0")
