"""What the commands about jobs share: a look into Redis, tables and words."""

from pathlib import Path

import click
import msgspec
from rich.table import Table
from rich.text import Text

from lingua_scheduler.cli.options import load_settings
from lingua_scheduler.domain.jobs.jobs import LIVE, JobState
from lingua_scheduler.domain.pools.pools import Admission
from lingua_scheduler.protocol.http_jobs import JobView
from lingua_scheduler.services.cluster.pool_map import PoolMapCopy
from lingua_scheduler.services.dispatch.explaining import Explainer
from lingua_scheduler.services.dispatch.lookup import Lookup
from lingua_scheduler.store.store import Store

STYLES = {JobState.DONE: "green", JobState.FAILED: "red", JobState.CANCELLED: "yellow"} | dict.fromkeys(LIVE, "cyan")
# Sentences and names that people chose; all else is copied into the next command, and never cut.
_FOLDED = ("reason", "session", "why")


def lookup_in(store: Store, config: Path | None, pool_map: PoolMapCopy | None = None) -> Lookup:
    admission = Admission(load_settings(config, {}, ()).settings.pools.admission)
    return Lookup(store, Explainer(store, pool_map or PoolMapCopy(store.pools), admission))


def echo(answer: msgspec.Struct) -> None:
    click.echo(msgspec.json.encode(answer))


def job_table(*columns: str) -> Table:
    """Ids are copied into the next command, so they are never cut; sentences give way."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    for column in columns:
        table.add_column(column, no_wrap=column not in _FOLDED, overflow="fold")
    return table


def state_word(state: str) -> Text:
    return Text(state, style=STYLES.get(JobState(state), "") if state in JobState.__members__ else "")


def pair_of(job: JobView) -> str:
    return f"{job.src_lang}→{job.tgt_lang}"
