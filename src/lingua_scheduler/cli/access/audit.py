"""`lingua audit`: list, export and verify the audit log, straight from Redis."""

import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

import click
import msgspec
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from lingua_scheduler.cli.audit_access import NO_KEY, keys_here
from lingua_scheduler.cli.groups import Group
from lingua_scheduler.cli.options import Exit, fail, load_settings
from lingua_scheduler.cli.redis_access import redis_options, with_store
from lingua_scheduler.cli.wording import counted, plain, table_console
from lingua_scheduler.configuration.data_dirs import audit_anchor_path
from lingua_scheduler.domain.access.audit import AuditEntry, read_entry
from lingua_scheduler.domain.access.audit_anchors import Anchor, read_anchors
from lingua_scheduler.domain.access.audit_check import AuditCheck, AuditFault, AuditVerdict
from lingua_scheduler.domain.access.audit_filters import AuditFilter
from lingua_scheduler.domain.access.audit_keys import AuditKeys
from lingua_scheduler.services.access.anchoring import AnchorMemory
from lingua_scheduler.store.access.audit import AuditStore
from lingua_scheduler.store.store import Store

# Fewer are read in a moment.
LONG = 5_000
SHOWN_FAULTS = 10


@click.group(cls=Group)
def audit() -> None:
    """Read and verify the audit log: who changed what, and when.

    \b
    lingua audit list                           the latest entries
    lingua audit export > audit.jsonl           all entries, one line of JSON each
    lingua audit verify --anchors lingua.log    find out whether it was tampered with

    These commands read Redis directly.
    """


@audit.command("list")
@redis_options
@click.option("--limit", type=click.IntRange(1, 10_000), default=50, show_default=True, help="Maximum number shown.")
@click.option("--action", help="Only this action, such as nodes.drain, or all of a noun, such as keys.")
@click.option("--actor", help="Only entries whose actor contains this text: a key id, a kind or an address.")
@click.option("--json", "as_json", is_flag=True, help="Output JSON.")
def list_entries(
    redis_url: str | None,
    data_dir: str | None,
    config: Path | None,
    limit: int,
    action: str | None,
    actor: str | None,
    as_json: bool,
) -> None:
    """Show the latest entries of the audit log, newest first.

    \b
    lingua audit list --action nodes.drain
    lingua audit list --actor 10.0.0.7 --limit 200
    """
    wanted = AuditFilter(action=action or "", actor=actor or "")

    async def look(store: Store) -> list[AuditEntry]:
        found: list[AuditEntry] = []
        async for text in _texts(store.audit.page_back, "+"):
            entry = read_entry(text)
            if entry is not None and wanted.fits(entry):
                found.append(entry)
            if len(found) == limit:
                break
        return found

    found = with_store(look, redis_url, data_dir, config)
    if as_json:
        click.echo(msgspec.json.encode({"entries": found}))
        return
    if not found:
        click.echo("there are no such entries in the audit log")
        return
    columns = ("seq", "time", "actor", "action", "object", "outcome", "values")
    table = Table(*columns, box=None, pad_edge=False, header_style="dim")
    for entry in found:
        values = " ".join(f"{name}={value}" for name, value in entry.values.items())
        cells = (str(entry.seq), _time(entry.at_ms), str(entry.actor), entry.action, entry.object)
        table.add_row(*map(plain, (*cells, entry.outcome.value, values)))
    table_console().print(table)


@audit.command()
@redis_options
@click.option("--output", type=click.Path(path_type=Path, dir_okay=False), help="File to write.  [default: output]")
def export(redis_url: str | None, data_dir: str | None, config: Path | None, output: Path | None) -> None:
    """Write the whole audit log, oldest entry first, one line of JSON each.

    \b
    lingua audit export | jq 'select(.action == "keys.create")'
    lingua audit export --output audit.jsonl
    """

    async def write(store: Store) -> int:
        count = 0
        with _target(output) as file, _progress(await store.audit.length(), "exporting") as advance:
            async for text in _texts(store.audit.page, "0-0"):
                # What cannot be read keeps its line: verify names it.
                file.write(f"{text}\n")
                count += 1
                advance()
        return count

    count = with_store(write, redis_url, data_dir, config)
    if output is not None:
        click.echo(f"{counted(count, 'line')} written to {output}")


@audit.command()
@redis_options
@click.option(
    "--anchors",
    "anchor_files",
    type=click.Path(path_type=Path, exists=True, dir_okay=False, allow_dash=True),
    multiple=True,
    help="Log of the schedulers (lingua serve) with signed anchors; may be repeated; - is standard input.",
)
@click.option("--from", "start", type=click.IntRange(1), default=1, help="Begin with this entry, after a known loss.")
@click.option("--key-file", help="Keys of the audit log, instead of audit.key_file or the cluster key.")
@click.option("--json", "as_json", is_flag=True, help="Output JSON.")
def verify(
    redis_url: str | None,
    data_dir: str | None,
    config: Path | None,
    anchor_files: tuple[Path, ...],
    start: int,
    key_file: str | None,
    as_json: bool,
) -> None:
    """Check that no entry of the audit log was changed, removed or reordered.

    It needs the key that the log is written with. The log alone does not show whether its last entries were cut off
    together with its head, or whether all of it was written anew with the key. Anchors do: schedulers write them to
    their ordinary log (event audit.anchor), which should be kept on another machine.

    \b
    lingua audit verify
    lingua audit verify --anchors /var/log/lingua.log
    journalctl -u lingua | lingua audit verify --anchors -

    Exit codes: 0 good, 1 broken, 2 invalid settings or no key, 3 Redis is unusable.
    """
    flags = {"redis.url": redis_url, "redis.data_dir": data_dir, "audit.key_file": key_file}
    settings = load_settings(config, flags, ()).settings
    keys = keys_here(settings)
    anchors = list(_anchors(anchor_files))
    remembered = _remembered(audit_anchor_path(settings))
    if anchor_files and not anchors:
        fail("the files given with --anchors contain no anchor (event audit.anchor)", Exit.SETTINGS)

    async def look(store: Store) -> AuditVerdict:
        await _require_key(store.audit, keys)
        known = anchors if remembered is None else [*anchors, remembered]
        check = AuditCheck(keys, known, await store.audit.head(), start)
        with _progress(await store.audit.length(), "verifying") as advance:
            async for text in _texts(store.audit.page, "0-0"):
                check.feed(text)
                advance()
        return check.verdict()

    verdict = with_store(look, redis_url, data_dir, config)
    public = {key_id: keys.public_key(key_id) for key_id in keys.ids}
    if as_json:
        told = msgspec.to_builtins(verdict) | {"good": verdict.is_good, "public_keys": public}
        click.echo(msgspec.json.encode(told))
    else:
        _show(verdict, public, is_anchored=bool(anchor_files))
        if remembered is not None and remembered.head.seq > verdict.last and not verdict.is_good:
            click.echo(
                f"the log is shorter than it was: this machine remembers entry {remembered.head.seq}, signed, in "
                f"{audit_anchor_path(settings)}"
            )
    raise SystemExit(0 if verdict.is_good else Exit.FOUND)


async def _texts(page: Callable[[str], Any], place: str) -> AsyncIterator[str]:
    """Page by page, so that a long log is never held as a whole."""
    while place:
        texts, place = await page(place)
        for text in texts:
            yield text


async def _require_key(store: AuditStore, keys: AuditKeys) -> None:
    """Without any key, everything would look forged."""
    texts, _ = await store.page_back(most=1)
    last = read_entry(texts[0]) if texts else None
    if last is not None and not keys.is_keyed and last.key not in keys.ids:
        fail(f"{NO_KEY}; give --key-file, or the --config of a scheduler", Exit.SETTINGS)


def _remembered(path: Path | None) -> Anchor | None:
    """The last signed head that a scheduler on this machine has kept."""
    try:
        return AnchorMemory(path).read() if path is not None else None
    except OSError as error:
        fail(f"{path} cannot be read: {error.strerror}", Exit.SETTINGS)


def _anchors(files: tuple[Path, ...]) -> Iterator[Anchor]:
    for path in files:
        try:
            with click.open_file(str(path), errors="replace") as lines:
                yield from read_anchors(lines)
        except OSError as error:
            fail(f"{path} cannot be read: {error.strerror}", Exit.SETTINGS)


@contextmanager
def _target(output: Path | None) -> Iterator[IO[str]]:
    if output is None:
        yield sys.stdout
        return
    try:
        with output.open("w", encoding="utf-8") as file:
            yield file
    except OSError as error:
        fail(f"{output} cannot be written: {error.strerror}", Exit.SETTINGS)


@contextmanager
def _progress(total: int, doing: str) -> Iterator[Callable[[], None]]:
    """A bar on a terminal, if it takes a while."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    is_shown = console.is_terminal and total >= LONG
    with Progress(*columns, console=console, transient=True, disable=not is_shown) as progress:
        task = progress.add_task(doing, total=total)
        yield lambda: progress.advance(task)


def _show(verdict: AuditVerdict, public: dict[str, str], *, is_anchored: bool) -> None:
    for key_id, key in public.items():
        click.echo(f"key {key_id}: " + (f"public key of anchors {key}" if key else "none; forgery is not found"))
    if verdict.entries:
        click.echo(f"entries {verdict.first} to {verdict.last}, {verdict.entries} in all")
    if is_anchored:
        others = f"; {verdict.anchors_past} of entries that are not kept any more" * bool(
            verdict.anchors_past
        ) + f"; {verdict.anchors_foreign} of other keys, ignored" * bool(verdict.anchors_foreign)
        click.echo(f"{counted(verdict.anchors, 'anchor')} checked{others}")
    for fault in verdict.faults[:SHOWN_FAULTS]:
        click.secho(_told(fault), fg="red")
    if verdict.fault_count > SHOWN_FAULTS:
        click.echo(f"and {verdict.fault_count - SHOWN_FAULTS} more faults; --json lists up to 100")
    if verdict.is_good:
        if verdict.entries:
            click.secho("the audit log is unbroken", fg="green")
        else:
            click.echo("the log is empty; without an anchor it cannot be known whether it always was")
    else:
        click.echo(f"the audit log is broken; the first fault is at entry {verdict.faults[0].seq}")


def _told(fault: AuditFault) -> str:
    place = f"entry {fault.seq}" if fault.until == fault.seq else f"entries {fault.seq} to {fault.until}"
    return f"{place} ({fault.kind.value}): {fault.words}"


def _time(at_ms: int) -> str:
    try:
        return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%Y-%m-%d %H:%M:%S}Z"
    except (OverflowError, ValueError, OSError):
        return str(at_ms)
