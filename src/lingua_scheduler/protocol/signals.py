"""What instances tell each other without a promise: a signal may be lost, and whoever misses it finds out later."""

import msgspec


class CancelJob(msgspec.Struct, frozen=True, tag="cancel_job"):
    """A job of this owner was cancelled; Redis knows it already."""

    owner: str
    job_id: str


class JobsWait(msgspec.Struct, frozen=True, tag="jobs_wait"):
    """Jobs of this instance wait for a slot in these pools."""

    instance: str
    pools: list[str]


class SlotFreed(msgspec.Struct, frozen=True, tag="slot_freed"):
    """A slot of this pool became free, and nobody here waits for it."""

    instance: str
    pool: str


Signal = CancelJob | JobsWait | SlotFreed

DECODER = msgspec.json.Decoder(Signal)
