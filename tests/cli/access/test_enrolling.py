"""`lingua keys create --kind enrol`: one node by default, and one string to join with."""

import pytest

from lingua_scheduler.store.store import Store
from lingua_sdk.domain.key_texts import KeyKind, KeyText
from lingua_sdk.joining import JoinString
from tests.support.keyed import created, keys
from tests.support.servers import RedisProcess

SETTINGS, USAGE = 2, 2


async def test_an_enrolment_key_is_for_one_node_unless_more_are_asked_for(server: RedisProcess, store: Store) -> None:
    plain = await created(server, "--kind", "enrol")
    many = await created(
        server,
        *("--kind", "enrol", "--max-nodes", "0", "--label", "region=eu", "--label", "owner=A. B.", "--approve"),
        *("--ephemeral", "--nodes-expire", "90d", "--slots", "4"),
    )
    service = await created(server, "--kind", "service")
    known = (await store.credentials.read()).credentials
    assert (known[plain["id"]].max_nodes, known[service["id"]].max_nodes) == (1, 0)
    one = known[many["id"]]
    assert (one.max_nodes, one.labels, one.max_slots) == (0, {"region": "eu", "owner": "A. B."}, 4)
    assert (one.needs_approval, one.is_ephemeral, one.nodes_live_ms) == (True, True, 90 * 86_400_000)
    assert (many["labels"], many["needs_approval"]) == ({"region": "eu", "owner": "A. B."}, True)


async def test_with_an_address_standard_output_has_the_join_string_alone(server: RedisProcess) -> None:
    made = await keys(server, "create", "--kind", "enrol", "--url", "wss://host.example")
    joining = JoinString.parse(made.stdout)
    assert (joining.address, joining.key.kind) == ("wss://host.example", KeyKind.ENROLMENT)
    assert "lingua node --join" in made.stderr
    assert joining.key.secret not in made.stderr
    told = await created(server, "--kind", "enrol", "--url", "host.example:5010")
    assert JoinString.parse(told["join"]) == ("ws://host.example:5010", KeyText.parse(told["key"]))


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--kind", "service", "--label", "a=b"), "--label"),
        (("--kind", "node", "--approve"), "--approve is for --kind enrol"),
        (("--kind", "node", "--max-nodes", "3"), "--max-nodes is for --kind enrol"),
        (("--kind", "enrol", "--label", "region"), "NAME=VALUE"),
        (("--kind", "enrol", "--label", "a=1", "--label", "a=2"), "twice"),
        (("--kind", "enrol", "--label", "Region=eu"), "a-z"),
        (("--kind", "enrol", "--nodes-expire", "soon"), "duration"),
        (("--kind", "enrol", "--node-id", "x"), "--node-id is for --kind node"),
    ],
)
async def test_what_makes_no_sense_is_refused(server: RedisProcess, arguments: tuple[str, ...], says: str) -> None:
    made = await keys(server, "create", *arguments)
    assert made.exit_code == USAGE
    assert says in " ".join(made.output.split())


async def test_a_node_that_joined_has_no_key_to_rotate(server: RedisProcess, store: Store) -> None:
    from lingua_sdk.identity import KeyPair
    from tests.support.joining import joined_credential

    node = joined_credential(KeyPair())
    await store.credentials.write(await store.credentials.version(), [node])
    rotated = await keys(server, "rotate", node.id)
    assert rotated.exit_code == SETTINGS
    assert "join again" in rotated.output
