"""`lingua dead-letters`"""

import time
from pathlib import Path

import click
import msgspec
from rich.table import Table

from lingua_scheduler.cli.options import Exit, fail, load_settings
from lingua_scheduler.cli.redis_access import redis_options, with_store
from lingua_scheduler.cli.wording import table_console
from lingua_scheduler.domain.cluster.instances import is_letter_id
from lingua_scheduler.protocol.http_instances import DeadLetterList, Purged, Replayed
from lingua_scheduler.services.cluster.dead_letters import list_dead_letters, purge, replay
from lingua_scheduler.store.cluster.inbox import limits_of
from lingua_scheduler.store.store import Store


@click.command("dead-letters")
@click.argument("verb", type=click.Choice(["list", "replay", "purge"]), default="list")
@click.argument("letter_ids", metavar="[ID]...", nargs=-1)
@redis_options
@click.option("--all", "all_letters", is_flag=True, help="With replay or purge: all dead letters.")
@click.option(
    "--limit", type=click.IntRange(1, 1000), default=100, show_default=True, help="With list: maximum number shown."
)
@click.option("--json", "as_json", is_flag=True, help="Output JSON.")
def dead_letters(
    verb: str,
    letter_ids: tuple[str, ...],
    redis_url: str | None,
    data_dir: str | None,
    config: Path | None,
    all_letters: bool,
    limit: int,
    as_json: bool,
) -> None:
    """List, replay or delete dead letters.

    A dead letter is a message between scheduler instances that could not be handled.

    \b
    lingua dead-letters                list them, with the reasons
    lingua dead-letters replay s1:1731715200000-0
    lingua dead-letters replay --all   put them back into their inboxes
    lingua dead-letters purge --all
    """
    if verb == "list":
        if letter_ids or all_letters:
            raise click.UsageError("list takes no ids and no --all; use them with replay or purge")
        _show(with_store(lambda store: list_dead_letters(store, limit), redis_url, data_dir, config), as_json)
        return
    if bool(letter_ids) == all_letters:
        raise click.UsageError(f"name the letters to {verb}: their ids, or --all")
    for letter_id in letter_ids:
        if not is_letter_id(letter_id):
            fail(f"{letter_id} is not the id of a dead letter; lingua dead-letters lists them", Exit.SETTINGS)
    chosen = None if all_letters else letter_ids
    limits = limits_of(load_settings(config, {}, ()).settings.inbox)

    async def work(store: Store) -> Replayed | Purged:
        if verb == "replay":
            return await replay(store, chosen, limits)
        return Purged(purged=await purge(store, chosen))

    notes = (f"dead-letters.{verb}", " ".join(letter_ids) or "all")
    _tell(with_store(work, redis_url, data_dir, config, notes=notes), as_json, is_choice=not all_letters)


def _show(found: DeadLetterList, as_json: bool) -> None:
    if as_json:
        click.echo(msgspec.json.encode(found))
        return
    if not found.total:
        click.echo("there are no dead letters")
        return
    columns = ("id", "kind", "about", "from", "tries", "reason", "age")
    table = Table(*columns, box=None, pad_edge=False, header_style="dim")
    for letter in found.dead_letters:
        age_s = max(0.0, time.time() - letter.buried_at_ms / 1000)
        tries = str(letter.deliveries)
        table.add_row(
            letter.letter_id, letter.kind, letter.subject, letter.sender, tries, letter.reason, f"{age_s:.0f} s"
        )
    table_console().print(table)
    if found.total > len(found.dead_letters):
        click.echo(f"and {found.total - len(found.dead_letters)} more; --limit shows more of them")


def _tell(done: Replayed | Purged, as_json: bool, *, is_choice: bool) -> None:
    if as_json:
        click.echo(msgspec.json.encode(done))
    elif isinstance(done, Purged):
        click.echo(f"{done.purged} dead letters were deleted")
    else:
        click.echo(
            f"{done.replayed} dead letters were put back"
            + (f"; {done.full} inboxes are full" * bool(done.full))
            + (
                f"; {done.bare} cannot be replayed, because their speech was not kept (inbox.keep_speech)"
                * bool(done.bare)
            )
        )
    if is_choice and isinstance(done, Replayed) and done.gone:
        fail(f"{done.gone} of these letters do not exist; lingua dead-letters lists them", Exit.SETTINGS)
