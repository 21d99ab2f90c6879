"""`--ca`, `--cert` and `--key` of commands that connect as a node."""

from collections.abc import Callable

import click

from lingua_scheduler.cli.options import Exit, fail
from lingua_sdk.tls import ClientTls, ClientTlsError

_META = "lingua.tls."
_HELP = {
    "ca": "PEM file of the authority that issued the scheduler's certificate.  [default: the system's]",
    "cert": "PEM file of this node's certificate (mTLS); it is the node's credential.",
    "key": "PEM file of the key of --cert.",
}


def tls_options(command: Callable[..., None]) -> Callable[..., None]:
    """They are found with `given_tls`."""
    for name, words in reversed(_HELP.items()):
        option = click.option(f"--{name}", metavar="FILE", expose_value=False, callback=_keep, help=words)
        command = option(command)
    return command


def _keep(context: click.Context, option: click.Parameter, path: str | None) -> None:
    context.meta[f"{_META}{option.name}"] = path or ""


def given_tls() -> ClientTls | None:
    """None if no option was given. Ends the command if a file cannot be used."""
    ca, cert, key = (click.get_current_context().meta.get(f"{_META}{name}", "") for name in _HELP)
    if not (ca or cert or key):
        return None
    if key and not cert:
        fail("--key needs --cert, the certificate that it belongs to", Exit.SETTINGS)
    tls = ClientTls(ca=ca, cert=cert, key=key)
    try:
        tls.context()
    except ClientTlsError as error:
        fail(str(error), Exit.SETTINGS)
    return tls
