"""How much a run measures."""

import msgspec


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    repeats: int = 5
    # Jobs of one sample; large audio gets half of them.
    jobs: int = 10_000
    sessions: int = 64
    in_flight: int = 1
    nodes: int = 8
    # Processes of the scheduler.
    workers: int = 1
    # Jobs a second; 0: as fast as results come back.
    rate: float = 0.0
    fleets: tuple[int, ...] = (10, 1_000, 10_000)
    # Sessions that speak at real pace.
    speakers: int = 2_000
    # How long one sample of what happens at real pace takes.
    phase_s: float = 10.0
    # Repeats of saturation, which takes long.
    rounds: int = 2
    # Of a soak.
    minutes: float = 30.0

    @property
    def concurrency(self) -> int:
        return self.sessions * self.in_flight


# A minute and a quarter on two cores: most of it is starting schedulers and waiting at real pace.
QUICK = Plan(repeats=2, jobs=1_000, fleets=(10, 1_000), speakers=200, phase_s=1.0, rounds=1)
LARGEST_FLEET = 100_000
