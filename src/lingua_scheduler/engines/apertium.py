"""Between related languages with Debian's Apertium: rules, not a model; a millisecond or two when kept running."""

import os
import re
import select
import shlex
import shutil
import subprocess
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO

MODES = Path("/usr/share/apertium/modes")
ANSWER_WITHIN_S = 5.0
END_WITHIN_S = 5.0
# What the stream between its programs is made of; in a text each is written with a backslash.
_MARKS = re.compile(r"([\[\]{}^$/\\@<>])")
_ESCAPED = re.compile(r"\\(.)")
# Ten at the end of a sentence, which it takes for the short form of December; not in "dez. de 2020".
_TEN = re.compile(r"\b(dez)\.(?!\s*(?:de\s+)?\d)", re.IGNORECASE)
_APART = re.compile(r"\b(diez) \.", re.IGNORECASE)
# Of the two kinds of Portuguese the one our voices speak; it sorts behind the other, and so takes its place.
_MODE_NAME = re.compile(r"([a-z]{2,3})-([a-z]{2,3})(?:_BR)?")
# Modes are named by either kind of code.
_SHORTER = {
    "arg": "an",
    "cat": "ca",
    "eng": "en",
    "epo": "eo",
    "fra": "fr",
    "glg": "gl",
    "ita": "it",
    "oci": "oc",
    "por": "pt",
    "ron": "ro",
    "spa": "es",
}


class Apertium:
    """Every pair for which a package `apertium-…` is installed; one running chain of programs for each."""

    name = "apertium"

    def __init__(self, modes: Path = MODES) -> None:
        found = {pair: path for path in sorted(modes.glob("*.mode")) if (pair := _pair(path.stem))}
        if not found:
            raise ImportError("not installed: no language pair was found")
        self._chains = {pair: Chain(path) for pair, path in found.items()}
        self.pairs: Sequence[tuple[str, str]] = tuple(self._chains)

    def translate(self, text: str, source: str, target: str) -> str:
        is_spanish = (source, target) == ("pt", "es")
        asked = _TEN.sub(r"\1 .", text) if is_spanish else text
        translated = " ".join(self._chains[source, target].ask(asked).split())
        if is_spanish:
            translated = _APART.sub(r"\1.", translated)
        # It forgets that a sentence began with a capital when the first two words become one.
        if text[:1].isupper():
            translated = translated[:1].upper() + translated[1:]
        return translated

    def close(self) -> None:
        for chain in self._chains.values():
            chain.close()


class ChainBroke(RuntimeError):
    """A program of the chain ended or said nothing in time."""


class Chain:
    """Programs that read from one another, kept running: a NUL after each text makes all of them write what they have.

    They end by themselves when we do, since the first one's input closes.
    """

    def __init__(self, mode: Path, answer_within_s: float = ANSWER_WITHIN_S) -> None:
        self._programs = _programs(mode.read_text("utf-8"))
        self._answer_within_s = answer_within_s
        self._processes: list[subprocess.Popen[bytes]] = []
        self._asking = threading.Lock()

    def ask(self, text: str) -> str:
        """Once more with a fresh chain when a program has died; a text that breaks that one too is at fault itself."""
        escaped = _MARKS.sub(r"\\\1", text.replace("\0", " "))
        with self._asking:
            for is_last in (False, True):
                try:
                    # The line end is for the generator of Debian 12, which does not write what ends in a word.
                    return _ESCAPED.sub(r"\1", self._answer(f"{escaped}\n\0".encode()).decode())
                except (OSError, ChainBroke):
                    self._end()
                    if is_last:
                        raise
        raise AssertionError

    def close(self) -> None:
        with self._asking:
            self._end()

    def _answer(self, question: bytes) -> bytes:
        """Write and read by turns: a long text fills the pipes before all of it is written."""
        if any(process.poll() is not None for process in self._processes):
            self._end()
        if not self._processes:
            self._start()
        into, out = self._ends()
        answer = bytearray()
        deadline = time.monotonic() + self._answer_within_s
        ready = select.poll()
        ready.register(out, select.POLLIN)
        ready.register(into, select.POLLOUT)
        while not answer.endswith(b"\0"):
            left_s = deadline - time.monotonic()
            events = dict(ready.poll(left_s * 1000)) if left_s > 0 else {}
            if not events:
                raise ChainBroke("Apertium did not answer in time")
            if into in events:
                question = question[os.write(into, question[: select.PIPE_BUF]) :]
                if not question:
                    ready.unregister(into)
            if out in events:
                part = os.read(out, 65_536)
                if not part:
                    raise ChainBroke("an Apertium process has ended")
                answer += part
        if not answer.endswith(b"\n\0"):
            # The line end is missing: a program died, and the rest took that for the end of the text.
            raise ChainBroke("an Apertium process has ended")
        return bytes(answer[:-1])

    def _start(self) -> None:
        source: int | IO[bytes] = subprocess.PIPE
        for program in self._programs:
            process = subprocess.Popen(
                program,
                stdin=source,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                bufsize=0,
                env=os.environ | {"LC_ALL": "C.UTF-8"},
                start_new_session=True,  # Ctrl-C is for us; they end when we close their input
            )
            if not isinstance(source, int):
                # Only the program that reads may hold it, or the one before would not notice its end.
                source.close()
            self._processes.append(process)
            assert process.stdout is not None
            source = process.stdout

    def _ends(self) -> tuple[int, int]:
        first, last = self._processes[0].stdin, self._processes[-1].stdout
        assert first is not None
        assert last is not None
        return first.fileno(), last.fileno()

    def _end(self) -> None:
        processes, self._processes = self._processes, []
        for process in processes:
            process.kill()
        for process in processes:
            process.wait(END_WITHIN_S)
        if processes and processes[0].stdin and processes[-1].stdout:
            processes[0].stdin.close()
            processes[-1].stdout.close()


def _pair(mode: str) -> tuple[str, str] | None:
    match = _MODE_NAME.fullmatch(mode)
    if match is None:
        return None
    source, target = (_SHORTER.get(code, code) for code in match.groups())
    # Between languages that are not related rules do badly: English goes by way of Portuguese.
    return None if "en" in (source, target) else (source, target)


def _programs(mode: str) -> list[list[str]]:
    """A mode is a shell line; `$1` stands for how words are generated, `$2` for nothing."""
    programs = []
    for part in mode.strip().split("|"):
        program, *arguments = (word for word in shlex.split(part) if word != "$2")
        found = shutil.which(program)
        if found is None:
            raise ImportError(f"{program} is not installed")
        programs.append([found, "-z", *("-n" if word == "$1" else word for word in arguments)])
    return programs
