"""What workers that are gone have counted: a sum that shrank would look like a restart of everything."""

from pathlib import Path

import msgspec

from lingua_scheduler.telemetry.figures import Family, lasting, merged, replace_file

FILE = "departed.json"
MAX_NAMES = 1000


class Departed(msgspec.Struct, frozen=True, kw_only=True):
    """Whoever is named here is in the figures, and must not be counted again."""

    names: list[str] = []
    families: list[Family] = []


def note(run_dir: Path, name: str, families: list[Family]) -> None:
    """What a living worker has told others so far. Its name is its number and its process id: `0-4711`."""
    replace_file(run_dir / f"{name}.json", msgspec.json.encode(lasting(families)))


def living(run_dir: Path) -> list[str]:
    """Whoever has noted something and is not buried yet."""
    return sorted(path.stem for path in run_dir.glob("*-*.json"))


def noted(run_dir: Path, name: str) -> list[Family]:
    try:
        return msgspec.json.decode((run_dir / f"{name}.json").read_bytes(), type=list[Family])
    except OSError:
        return []


def read(run_dir: Path) -> Departed:
    try:
        return msgspec.json.decode((run_dir / FILE).read_bytes(), type=Departed)
    except OSError:
        return Departed()


def bury(run_dir: Path, name: str) -> None:
    """Add what a dead worker counted; only the supervisor does this, so nobody else writes the sum."""
    before = read(run_dir)
    after = Departed(names=[*before.names, name][-MAX_NAMES:], families=merged((before.families, noted(run_dir, name))))
    replace_file(run_dir / FILE, msgspec.json.encode(after))
    for leftover in (f"{name}.sock", f"{name}.json"):
        (run_dir / leftover).unlink(missing_ok=True)
