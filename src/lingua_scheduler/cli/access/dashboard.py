"""`lingua dashboard`"""

import click
import msgspec

from lingua_scheduler.cli.options import Exit, fail
from lingua_scheduler.cli.scheduler_access import posted, url_option
from lingua_scheduler.protocol.http_logins import LoginCode
from lingua_sdk.address import page_url


@click.command()
@url_option
def dashboard(url: str) -> None:
    """Print the address of the dashboard, with a login code.

    The code is for one use within a minute. It is behind the # of the address, which browsers send to no server, so no
    log has it. Where no key is needed there is no code.

    \b
    lingua dashboard
    lingua dashboard --url wss://translate.example.com
    """
    answer = posted(url, "/v1/login/codes", b"")
    try:
        code = msgspec.json.decode(answer, type=LoginCode).code
    except msgspec.DecodeError as error:
        fail(f"the server at {url} is not a scheduler ({error})", Exit.SCHEDULER)
    page = page_url(url, "/dashboard")
    click.echo(f"{page}#code={code}" if code else page)
