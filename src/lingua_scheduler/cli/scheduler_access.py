"""Access of commands to a scheduler over HTTP: its address, and sentences for what goes wrong on the way."""

import asyncio
import re
from collections.abc import Callable
from typing import NoReturn, TypeVar

import click

from lingua_scheduler.cli.credentials import shown_to, source_of
from lingua_scheduler.cli.options import DEFAULT_ADDRESS, Exit, fail, load_settings
from lingua_scheduler.configuration.data_dirs import resolved_data_dir
from lingua_scheduler.configuration.loading import URL_VARIABLE
from lingua_sdk.access import PROXY_ASKS, AccessDenied
from lingua_sdk.address import BadAddress, socket_url
from lingua_sdk.http import Absent, Refused, get, post
from lingua_sdk.trouble import Failures, Trouble, trouble_of

T = TypeVar("T")

URL_HELP = "URL of the scheduler: ws://, wss://, http:// or https://; the path is optional."
# An instance is asked while its last heartbeat is younger than this.
ALIVE_MS = 10_000
NODE_PATH = "/ws/node"
_NODE_COMMAND = re.compile(r"\blingua node(?![-\w])")
ANY_ADDRESS = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}


def url_option(command: Callable[..., None]) -> Callable[..., None]:
    """`--url`, or `--data-dir` for the scheduler whose embedded Redis is there, as in commands that read Redis."""
    folder = click.option(
        "--data-dir",
        is_eager=True,
        expose_value=False,
        callback=_keep_folder,
        help="Instead of --url: data directory of a running scheduler's embedded Redis.",
    )
    url = click.option(
        "--url", default=DEFAULT_ADDRESS, show_default=True, envvar=URL_VARIABLE, callback=_resolved, help=URL_HELP
    )
    return url(folder(command))


def _keep_folder(context: click.Context, _option: click.Parameter, folder: str | None) -> None:
    context.meta["lingua.data_dir"] = folder


def _resolved(context: click.Context, option: click.Parameter, url: str) -> str:
    folder = context.meta.get("lingua.data_dir")
    if not folder:
        return url
    source = context.get_parameter_source(option.name or "")
    if source is click.core.ParameterSource.COMMANDLINE:
        raise click.UsageError("--url and --data-dir exclude each other; leave one of them out")
    return address_of(folder)


def address_of(folder: str) -> str:
    """Where the scheduler listens that uses the embedded Redis in this folder."""
    # Imported here, because all commands import this module and few are given a folder: the store takes as long to
    # import as all the rest of most of them.
    from lingua_scheduler.store.connection import RedisAway
    from lingua_scheduler.store.servers.embedded import running_url
    from lingua_scheduler.store.store import Store, StoreError

    settings = load_settings(None, {"redis.data_dir": folder}, (), tells_hints=False).settings.redis
    redis_url = running_url(resolved_data_dir(settings))
    if not redis_url:
        fail(f"no embedded Redis is running in {folder}; start one with: lingua serve --data-dir {folder}", Exit.REDIS)

    async def look() -> list[str]:
        store = Store(redis_url, key_prefix=settings.key_prefix, allow_eviction=True)
        await store.open()
        try:
            known = (await store.instances.known()).values()
        finally:
            await store.close()
        living = sorted((one for one in known if one.address), key=lambda one: one.silent_ms)
        return [one.address for one in living if one.silent_ms < ALIVE_MS]

    try:
        found = asyncio.run(look())
    except (RedisAway, StoreError) as error:
        fail(f"the embedded Redis in {folder} cannot be used: {error}", Exit.REDIS)
    if not found:
        fail(f"no scheduler uses the embedded Redis in {folder} now; start one with: lingua serve", Exit.SCHEDULER)
    # With a scheme if it has TLS.
    scheme, _, place = found[0].rpartition("://")
    host, _, port = place.rpartition(":")
    return f"{'wss' if scheme else 'ws'}://{ANY_ADDRESS.get(host, host)}:{port}"


def got(url: str, path: str, *, absent: str = "") -> bytes:
    """A page of the scheduler; fails as `asked` does."""
    return asked(url, lambda: asyncio.run(get(url, path, shown_to(url))), absent=absent)


def posted(url: str, path: str, body: bytes, *, absent: str = "") -> bytes:
    """What the scheduler answers to a JSON body; fails as `asked` does."""
    return asked(url, lambda: asyncio.run(post(url, path, body, shown_to(url))), absent=absent)


def asked(url: str, ask: Callable[[], T], *, absent: str = "") -> T:
    """What the scheduler answers; every failure ends the command with one sentence that blames the right thing.

    `absent` is the sentence where a name that the user gave is unknown: a mistake in the input, not of the scheduler.
    """
    try:
        return ask()
    except BadAddress as error:
        fail(str(error), Exit.SETTINGS)
    except AccessDenied as error:
        not_allowed(url, error)
    except Refused as error:
        if absent and isinstance(error, Absent):
            fail(absent, Exit.SETTINGS)
        fail(f"the scheduler at {url} refused ({error})", Exit.SCHEDULER)
    except BrokenPipeError:
        raise  # our own output
    except Failures as error:
        fail(unreachable(url, trouble_of(error)), Exit.SCHEDULER)


def not_allowed(url: str, denied: AccessDenied) -> NoReturn:
    """Ends the command with the scheduler's words, and the next step."""
    fail(why_not_allowed(url, denied), Exit.NOT_ALLOWED)


def why_not_allowed(url: str, denied: AccessDenied) -> str:
    if denied.detail == PROXY_ASKS:
        return f"{url} cannot be asked: {denied.detail}; {denied.advice}"
    source = source_of(url)
    if denied.status == 403:
        step = "lingua whoami shows what your key may do; ask an administrator for one that may do this"
    else:
        step = f"log in with: lingua login --url {url}"
        step += f" (the key of {source} was not accepted)" if source else ""
    return f"the scheduler at {url} refused ({denied.code}: {denied.detail.rstrip('.')}); {step}"


def node_command(url: str) -> str:
    """What starts a node for this scheduler; the default address goes without saying."""
    address = socket_url(url, NODE_PATH).removesuffix(NODE_PATH)
    return "lingua node" if address == DEFAULT_ADDRESS else f"lingua node --url {address}"


def addressed(text: str, url: str) -> str:
    """A sentence of a scheduler that says how to start a node: it does not know the address at which it was asked."""
    return with_command(text, node_command(url))


def with_command(text: str, command: str) -> str:
    return _NODE_COMMAND.sub(lambda _: command, text)


def unreachable(url: str, trouble: Trouble) -> str:
    if trouble.is_absent:
        return f"no scheduler answers at {url} ({trouble.reason}); {trouble.advice}"
    return f"{url} cannot be asked: {trouble.reason}; {trouble.advice}"
