"""What the owner of a node is told of an exception: stage, type, message and traceback, and no word of the speech.

A message may quote what was said. It is shown only as far as it cannot: see `message_of`."""

import asyncio
import dis
import re
import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, TracebackType
from typing import NamedTuple

HIDDEN = "…"
MAX_MESSAGE_CHARS = 500

_QUOTED = re.compile(r"""'[^']*'|"[^"]*"|“[^”]*”|«[^»]*»|`[^`]*`""")
_WORD = re.compile(r"\w+")
_HIDDEN_AGAIN = re.compile(rf"{HIDDEN}(?:\W*{HIDDEN})+")
_MARK = "_lingua_stage"
# Files whose frames are between a node and its engine.
_NOT_THEIRS = (str(Path(__file__).parent), str(Path(asyncio.__file__).parent), "<frozen")
# The commands of the scheduler's package, which run engines too.
_COMMANDS = str(Path("lingua_scheduler", "cli"))


def _is_theirs(filename: str) -> bool:
    return not filename.startswith(_NOT_THEIRS) and _COMMANDS not in filename


class BrokenContract(TypeError):
    """An engine returned something else than its method must; the message has no value of it, only its type."""


def type_name(made: object) -> str:
    return "None" if made is None else type(made).__name__


class AtStage(NamedTuple):
    """Where in a job an exception was raised, and the texts the job had by then."""

    stage: str = ""
    texts: tuple[str, ...] = ()


@contextmanager
def at_stage(stage: str, texts: Iterable[str]) -> Iterator[None]:
    """Mark exceptions that leave this block with their stage."""
    try:
        yield
    except Exception as error:
        if not hasattr(error, _MARK):
            setattr(error, _MARK, AtStage(stage, tuple(texts)))
        raise


def stage_of(error: BaseException) -> AtStage:
    found = getattr(error, _MARK, None)
    return found if isinstance(found, AtStage) else AtStage()


def description_of(error: BaseException) -> str:
    """Type, message and traceback. Source lines are shown, values are not."""
    message = message_of(error, stage_of(error).texts)
    told = f"{type(error).__name__}: {message}" if message else type(error).__name__
    return _with_traceback(told, error)


def whole_description_of(error: BaseException) -> str:
    """The same with the whole message, for when there is no speech: while engines load, and in a self-test."""
    if isinstance(error, SyntaxError):
        return "".join(traceback.format_exception_only(error)).strip()
    return _with_traceback(f"{type(error).__name__}: {error}" if str(error) else type(error).__name__, error)


def _with_traceback(told: str, error: BaseException) -> str:
    """The frames of the engine and what it calls: the owner of a node cannot change those before it."""
    frames = traceback.extract_tb(error.__traceback__)
    first = next((place for place, frame in enumerate(frames) if _is_theirs(frame.filename)), len(frames))
    lines = "".join(traceback.format_list(frames[first:])).rstrip()
    return f"{told}\n{lines}" if lines else told


def message_of(error: BaseException, texts: Iterable[str] = ()) -> str:
    """The message of an exception without what may be speech.

    Hidden are: what stands in quotes, and the words of the job's texts. If Python code raised it, every word that is
    not a literal of that code is hidden too. What a library in C raises ("CUDA out of memory") has no literals to
    compare with.
    """
    text = str(error)
    if isinstance(error, BrokenContract):
        return text
    text = _QUOTED.sub(HIDDEN, text[:MAX_MESSAGE_CHARS].partition("\n")[0])
    said = {word for known in texts for word in _words(known)}
    literals = _literals(error.__traceback__) if _is_raised_by_python(error.__traceback__) else None

    def shown(match: re.Match[str]) -> str:
        word = match[0].casefold()
        is_safe = word not in said and (literals is None or word in literals)
        return match[0] if is_safe else HIDDEN

    return _HIDDEN_AGAIN.sub(HIDDEN, _WORD.sub(shown, text))


def _words(text: str) -> Iterator[str]:
    return (word.casefold() for word in _WORD.findall(text))


def _is_raised_by_python(place: TracebackType | None) -> bool:
    """Whether a `raise` statement is where it began, rather than a call into C or an operation."""
    if place is None:
        return True
    while place.tb_next is not None:
        place = place.tb_next
    return dis.opname[place.tb_frame.f_code.co_code[place.tb_lasti]] in ("RAISE_VARARGS", "RERAISE")


def _literals(place: TracebackType | None) -> set[str]:
    """The words in string literals of all functions on the way."""
    found: set[str] = set()
    while place is not None:
        found.update(_words_in(place.tb_frame.f_code))
        place = place.tb_next
    return found


def _words_in(code: CodeType) -> Iterator[str]:
    for constant in code.co_consts:
        if isinstance(constant, str):
            yield from _words(constant)
