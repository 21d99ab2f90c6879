"""`lingua pair`"""

import click
import msgspec

from lingua_scheduler.cli.options import Exit, fail
from lingua_scheduler.cli.scheduler_access import posted, url_option
from lingua_scheduler.cli.wording import plain
from lingua_scheduler.domain.nodes.nodes import NODE_ID
from lingua_scheduler.protocol.http import PairingAnswer


@click.command()
@click.argument("node_id", metavar="NODE")
@url_option
@click.option("--json", "as_json", is_flag=True, help="Output JSON.")
def pair(node_id: str, url: str, as_json: bool) -> None:
    """Make a pairing code for a private node.

    One session that sends the code is translated by this node alone. The code is valid for 5 minutes, and once. The key
    of an operator is needed. An app sends it as pairing_code in session_init; the commands below make one and use it.

    \b
    lingua pair gpu-7
    lingua translate speech.wav --from en --to zh --pairing-code 4TXK2M7Q
    """
    if not NODE_ID.fullmatch(node_id):
        fail(f"{node_id!r} cannot be a node id; lingua nodes lists them", Exit.SETTINGS)
    absent = f"there is no node {node_id}; lingua nodes lists them"
    said = posted(url, f"/v1/nodes/{node_id}/pair", b"", absent=absent)
    if as_json:
        click.echo(said)
        return
    answer = msgspec.json.decode(said, type=PairingAnswer)
    click.echo(f"for one session with {plain(answer.node_id)}, within {answer.valid_ms // 60_000} minutes:", err=True)
    click.echo(plain(answer.code))
