"""Counters of workers that have ended: a sum that decreased would look like a restart."""

from pathlib import Path

import msgspec

from lingua_scheduler.telemetry.figures import MetricFamily, lasting, merged, replace_file

FILE = "departed.json"
MAX_NAMES = 1000


class Departed(msgspec.Struct, frozen=True, kw_only=True):
    """Workers named here are included in the figures, and must not be counted again."""

    names: list[str] = []
    families: list[MetricFamily] = []


def note(run_dir: Path, name: str, families: list[MetricFamily]) -> None:
    """The last known figures of a live worker. Its name is its number and process id: `0-4711`."""
    replace_file(run_dir / f"{name}.json", msgspec.json.encode(lasting(families)))


def living(run_dir: Path) -> list[str]:
    """Workers with stored figures that are not yet merged into the sum."""
    return sorted(path.stem for path in run_dir.glob("*-*.json"))


def noted(run_dir: Path, name: str) -> list[MetricFamily]:
    try:
        return msgspec.json.decode((run_dir / f"{name}.json").read_bytes(), type=list[MetricFamily])
    except OSError:
        return []


def read(run_dir: Path) -> Departed:
    try:
        return msgspec.json.decode((run_dir / FILE).read_bytes(), type=Departed)
    except OSError:
        return Departed()


def bury(run_dir: Path, name: str) -> None:
    """Add a dead worker's counters to the sum. Only the supervisor writes the sum."""
    before = read(run_dir)
    after = Departed(names=[*before.names, name][-MAX_NAMES:], families=merged((before.families, noted(run_dir, name))))
    replace_file(run_dir / FILE, msgspec.json.encode(after))
    for leftover in (f"{name}.sock", f"{name}.json"):
        (run_dir / leftover).unlink(missing_ok=True)
