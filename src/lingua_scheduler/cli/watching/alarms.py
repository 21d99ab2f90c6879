"""`lingua alarms`"""

import getpass
import socket

import click
import msgspec
from rich.text import Text

from lingua_scheduler.cli.listing import flowing
from lingua_scheduler.cli.options import Exit, duration_ms, fail
from lingua_scheduler.cli.scheduler_access import got, posted, url_option
from lingua_scheduler.cli.wording import LEVEL_MARKS, LEVEL_STYLES, counted, now_ms, plain, short_span, table_console
from lingua_scheduler.domain.watching.handling import MAX_SILENCE_MS, AlarmAction, alarm_id
from lingua_scheduler.domain.watching.picture import Alarm, Level
from lingua_scheduler.protocol.http_watching import HOUR_MS, MAX_BY_CHARS, AlarmChoice, AlarmList

INDENT = 3
# Of what is only worth knowing, on a terminal.
FEW_NOTICES = 3
VERBS = {
    "list": None,
    "ack": AlarmAction.ACKNOWLEDGE,
    "silence": AlarmAction.SILENCE,
    "forget": AlarmAction.FORGET,
    "reset": AlarmAction.RESET,
}
_DONE = {
    AlarmAction.ACKNOWLEDGE: "acknowledged",
    AlarmAction.SILENCE: "silenced",
    AlarmAction.FORGET: "forgotten",
    AlarmAction.RESET: "reset",
}


@click.command()
@click.argument("verb", type=click.Choice(list(VERBS)), default="list")
@click.argument("names", metavar="[ALARM]...", nargs=-1)
@url_option
@click.option("--all", "all_alarms", is_flag=True, help="Every alarm that is raised.")
@click.option(
    "--for",
    "for_ms",
    metavar="TIME",
    callback=duration_ms,
    help="With silence: how long, such as 30m or 2h.  [default: 1h]",
)
@click.option("--by", help="Who does this, as others are shown it.  [default: you, on this machine]")
@click.option("--json", "as_json", is_flag=True, help="Output JSON.")
def alarms(
    verb: str,
    names: tuple[str, ...],
    url: str,
    all_alarms: bool,
    for_ms: int | None,
    by: str | None,
    as_json: bool,
) -> None:
    """List alarms; acknowledge, silence or forget them.

    An alarm is named by its code and its subject, as the list shows it; the code is enough if it has one alarm. What
    you do holds for all instances, until the alarm is over. ack: you work on it; it stays in the list and in the
    verdict. silence: it does not count for a time. forget: it is not shown until it is raised anew. reset undoes that.

    \b
    lingua alarms
    lingua alarms ack pair.lost/en:ko
    lingua alarms silence node.lost/gpu-7 --for 2h
    lingua alarms forget pair.lost/en:ko
    """
    action = VERBS[verb]
    if action is None:
        if names or all_alarms or for_ms is not None:
            raise click.UsageError("list takes no alarms, no --all and no --for; use them with ack, silence or forget")
        _show(_alarms(url), as_json)
        return
    if bool(names) == all_alarms:
        raise click.UsageError(f"name the alarms to {verb}, or use --all; lingua alarms lists them")
    if for_ms is not None and action is not AlarmAction.SILENCE:
        raise click.UsageError("--for requires silence")
    if for_ms is not None and not 1_000 <= for_ms <= MAX_SILENCE_MS:
        fail("--for must be from 1s to 30d", Exit.SETTINGS)
    who = (by if by is not None else _me())[:MAX_BY_CHARS]
    chosen = (
        tuple(_whole_name(url, name) for name in names)
        if not all_alarms
        else tuple(alarm_id(one.code, one.subject) for one in _alarms(url) if "more" not in one.values)
    )
    for name in chosen:
        choice = AlarmChoice(alarm=name, action=action, for_ms=for_ms or HOUR_MS, by=who)
        answer = posted(url, "/v1/alarms", msgspec.json.encode(choice))
        click.echo(answer if as_json else f"{plain(name)} is {_DONE[action]}")


def _alarms(url: str) -> list[Alarm]:
    body = got(url, "/v1/alarms")
    try:
        return msgspec.json.decode(body, type=AlarmList).alarms
    except msgspec.DecodeError as error:
        fail(f"the server at {url} is not a scheduler ({error})", Exit.SCHEDULER)


def _whole_name(url: str, name: str) -> str:
    """A code alone stands for its alarm, if only one with this code is raised."""
    if "/" in name:
        return name
    raised = [alarm_id(one.code, one.subject) for one in _alarms(url) if one.code == name and "more" not in one.values]
    if len(raised) > 1 and name not in raised:
        fail(f"{name} is raised for {', '.join(map(plain, raised[:5]))}; name one of them, or use --all", Exit.SETTINGS)
    return raised[0] if len(raised) == 1 else name


def _me() -> str:
    return f"{getpass.getuser()}@{socket.gethostname()}"


def _show(found: list[Alarm], as_json: bool) -> None:
    if as_json:
        click.echo(msgspec.json.encode(AlarmList(alarms=found)))
        return
    if not found:
        click.echo("no alarm is raised")
        return
    console = table_console()
    at_ms = now_ms()
    shown = [one for one in found if one.level is not Level.NOTICE]
    notices = [one for one in found if one.level is Level.NOTICE]
    few = notices[:FEW_NOTICES] if console.is_terminal else notices
    for alarm in (*shown, *few):
        head = Text(f"{LEVEL_MARKS[alarm.level]} ", style=LEVEL_STYLES[alarm.level])
        head.append(plain(alarm_id(alarm.code, alarm.subject)), style="bold")
        for line in flowing(
            console, head, [f"for {short_span(at_ms - alarm.since_ms)}", *_handled(alarm, at_ms)], INDENT
        ):
            console.print(line)
        for line in Text(plain(alarm.text)).wrap(console, console.width - INDENT):
            console.print(Text(" " * INDENT) + line)
    if len(few) < len(notices):
        console.print(Text(f"and {counted(len(notices) - len(few), 'more notice')}; --json has them", style="dim"))


def _handled(alarm: Alarm, at_ms: int) -> list[str]:
    by = f" by {plain(alarm.handled_by)}" if alarm.handled_by else ""
    found = []
    if alarm.silenced_until_ms:
        found.append(f"silenced for {short_span(alarm.silenced_until_ms - at_ms)}{by}")
    if alarm.acknowledged_at_ms:
        found.append(f"acknowledged {short_span(at_ms - alarm.acknowledged_at_ms)} ago{by}")
    return found
