"""What is said in a benchmark: noise, the same every time, that passes for audio."""

import random

# Of 20 ms of speech at a variable bit rate: about 30 kbit/s.
OPUS_PACKET_BYTES = (40, 110)
_LENGTH_BYTES = 2
# A packet and its length, on average.
OPUS_STEP_BYTES = sum(OPUS_PACKET_BYTES) // 2 + _LENGTH_BYTES


def speech(size_bytes: int, audio_format: str) -> bytes:
    """Loud samples, or as many Opus packets as come nearest to the size."""
    dice = random.Random(size_bytes)
    if audio_format != "opus":
        return dice.randbytes(size_bytes)
    lengths = _packet_lengths(max(1, round(size_bytes / OPUS_STEP_BYTES)), dice)
    return b"".join(length.to_bytes(_LENGTH_BYTES, "little") + dice.randbytes(length) for length in lengths)


def _packet_lengths(packets: int, dice: random.Random) -> list[int]:
    """Evenly spread, so that the sum is known, in an order that is not: packets of one length are easier to read."""
    least, most = OPUS_PACKET_BYTES
    lengths = [least + round((most - least) * (number + 0.5) / packets) for number in range(packets)]
    dice.shuffle(lengths)
    return lengths
