"""HTTP: make a pairing code for a private node."""

from lingua_scheduler.console.operations import Call, KnownProblem, Operation, Problem
from lingua_scheduler.domain.access.scopes import Scope
from lingua_scheduler.protocol.http import PairingAnswer
from lingua_scheduler.services.nodes.pairings import Pairings, Unpaired
from lingua_scheduler.services.watching.overview import Overview
from lingua_sdk.domain.errors import HttpCode
from lingua_sdk.domain.pairing import CODE_MS

_PUBLIC = "every session may use {}, so it needs no pairing code; private nodes have a key made with --private"


def pairing(pairings: Pairings, overview: Overview) -> Operation:
    async def make(call: Call[None, None]) -> PairingAnswer:
        node_id = call.path["node_id"]
        is_unknown = await overview.is_unknown(node_id, call.principal.limited_to)
        code = Unpaired.UNKNOWN if is_unknown else await pairings.make(node_id)
        if code is Unpaired.UNKNOWN:
            raise Problem(404, HttpCode.UNKNOWN_NODE, f"there is no node {node_id}; GET /v1/nodes lists them")
        if code is Unpaired.PUBLIC:
            raise Problem(409, HttpCode.NODE_NOT_PRIVATE, _PUBLIC.format(node_id))
        return PairingAnswer(node_id=node_id, code=code, valid_ms=CODE_MS)

    return Operation(
        method="POST",
        path="/v1/nodes/{node_id}/pair",
        needs=(Scope.FLEET_OPERATE,),
        tag="fleet",
        summary="Make a pairing code for a private node",
        description="One session, of any tenant, that sends the code as `pairing_code` in `session_init` is translated "
        "by this node alone. The code is for one session and valid for 5 minutes.",
        handle=make,
        answer=PairingAnswer,
        problems=(
            KnownProblem(404, HttpCode.UNKNOWN_NODE.value, "No such node"),
            KnownProblem(409, HttpCode.NODE_NOT_PRIVATE.value, "The node is not private"),
        ),
    )
