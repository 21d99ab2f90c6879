"""The process that decodes one uploaded file: order and file on its input, reply on its output.

Apart from the scheduler, so that a file that takes too long, or breaks a decoder, ends this process alone."""

import contextlib
import os
import resource
import sys

from lingua_scheduler.protocol.uploads import (
    SAMPLE_RATE,
    Decoded,
    DecodeOrder,
    Flaw,
    Joined,
    NotDecoded,
    decode_order,
    encode_reply,
)
from lingua_scheduler.uploads.cutting import cut
from lingua_scheduler.uploads.decoding import BadFile, NoLibrary, TooLong, joined, samples_of

MAX_MEMORY_BYTES = 1_610_612_736
MAX_CPU_S = 60
# A file may wait; those who speak live, whom the scheduler serves on the same cores, cannot.
NICENESS = 10
INSTALL = "pip install 'lingua-scheduler[audio]'"


def limit() -> None:
    """No more memory and CPU than a file may need, and CPU that others leave; no files are written."""
    os.nice(NICENESS)
    for kind, most in (
        (resource.RLIMIT_AS, MAX_MEMORY_BYTES),
        (resource.RLIMIT_CPU, MAX_CPU_S),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
    ):
        with contextlib.suppress(ValueError, OSError):  # not every system has all of them
            resource.setrlimit(kind, (most, most))


def reply_to(said: bytes) -> Decoded | Joined | NotDecoded:
    order, sound = decode_order(said)
    try:
        if not isinstance(order, DecodeOrder):
            return Joined(joined(order.sounds))
        pcm16 = samples_of(bytes(sound), order.format, order.max_ms)
        return Decoded(len(pcm16) // (SAMPLE_RATE * 2 // 1000), cut(pcm16, order.piece_ms, order.silence_rms))
    except TooLong:
        return NotDecoded(Flaw.TOO_LONG, "the audio is too long")
    except NoLibrary:
        return NotDecoded(Flaw.NO_LIBRARY, f"this scheduler reads WAV only; for other formats: {INSTALL}")
    except BadFile as error:
        return NotDecoded(Flaw.UNREADABLE, str(error)[:300])
    except MemoryError:
        return NotDecoded(Flaw.UNREADABLE, "the file needs too much memory to be decoded")


if __name__ == "__main__":
    limit()
    sys.stdout.buffer.write(encode_reply(reply_to(sys.stdin.buffer.read())))
