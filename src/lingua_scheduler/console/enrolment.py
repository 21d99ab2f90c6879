"""HTTP: nodes join with an enrolment key; operators list, approve and ban them."""

from typing import Any, NoReturn

from lingua_scheduler.console.operations import Call, KnownProblem, Operation, Problem
from lingua_scheduler.domain.access.credential_sets import TooManyCredentials
from lingua_scheduler.domain.access.credentials import Credential
from lingua_scheduler.domain.access.enrolment import EnrolmentRefused, NodeIdTaken
from lingua_scheduler.domain.access.scopes import Scope
from lingua_scheduler.protocol.http_enrolment import BanAnswer, EnrolmentsQuery, JoinedNode, JoinedNodes
from lingua_scheduler.services.access.enrolment import Enrolment
from lingua_sdk.domain.errors import ErrorCode, HttpCode
from lingua_sdk.protocol.enrolment import Enrolled, EnrolRequest

_TAG = "access"
_UNKNOWN = KnownProblem(404, HttpCode.UNKNOWN_NODE.value, "No valid credential is for this node")
_REFUSED = KnownProblem(403, HttpCode.ENROLMENT_REFUSED.value, "The enrolment key has ended or is used up")
_TAKEN = KnownProblem(409, ErrorCode.NODE_ID_CONFLICT.value, "The node id belongs to another credential")


class EnrolmentOperations:
    def __init__(self, enrolment: Enrolment, audience: str) -> None:
        self._enrolment = enrolment
        self._audience = audience

    @property
    def operations(self) -> tuple[Operation, ...]:
        return (
            Operation(
                method="POST",
                path="/v1/nodes/enrol",
                needs=(Scope.NODE_ENROL,),
                tag=_TAG,
                summary="Join as a node, with an enrolment key",
                description="The node keeps the private key and signs its tokens with it. Safe to repeat: the same "
                "public key gets the same credential.",
                handle=self._enrol,
                body=EnrolRequest,
                answer=Enrolled,
                problems=(_REFUSED, _TAKEN),
            ),
            Operation(
                method="GET",
                path="/v1/enrolments",
                needs=(Scope.KEYS_READ,),
                tag=_TAG,
                summary="List the valid credentials of nodes; those that wait for approval come first",
                handle=self._list,
                query=EnrolmentsQuery,
                answer=JoinedNodes,
            ),
            Operation(
                method="POST",
                path="/v1/nodes/{node_id}/approve",
                needs=(Scope.KEYS_WRITE,),
                tag=_TAG,
                summary="Approve a node that has joined",
                handle=self._approve,
                answer=JoinedNode,
                problems=(_UNKNOWN,),
            ),
            Operation(
                method="POST",
                path="/v1/nodes/{node_id}/ban",
                needs=(Scope.KEYS_WRITE,),
                tag=_TAG,
                summary="Ban a node: end its credentials",
                description="Its connection is closed, and its jobs are retried on other nodes. It cannot come back "
                "with the same credential or the same key pair.",
                handle=self._ban,
                answer=BanAnswer,
                problems=(_UNKNOWN,),
            ),
        )

    async def _enrol(self, call: Call[EnrolRequest, None]) -> Enrolled:
        try:
            made = await self._enrolment.enrol(call.principal.key_id, call.body.public_key, call.body.node_id or "")
        except (EnrolmentRefused, TooManyCredentials) as error:
            raise Problem(403, HttpCode.ENROLMENT_REFUSED, str(error)) from None
        except NodeIdTaken as error:
            raise Problem(409, ErrorCode.NODE_ID_CONFLICT, str(error)) from None
        return Enrolled(
            node_id=made.node_id,
            credential_id=made.id,
            audience=self._audience,
            is_approved=not made.is_pending,
            expires_ms=made.expires_ms,
        )

    async def _list(self, call: Call[None, EnrolmentsQuery]) -> JoinedNodes:
        found = self._enrolment.nodes(call.principal)
        if call.query.label:
            name, _, value = call.query.label.partition("=")
            found = [one for one in found if one.labels.get(name) == value]
        return JoinedNodes(nodes=[described(one) for one in found])

    async def _approve(self, call: Call[None, None]) -> JoinedNode:
        approved = await self._enrolment.approve(call.principal, call.path["node_id"])
        if approved is None:
            _unknown(call)
        return described(approved)

    async def _ban(self, call: Call[None, None]) -> BanAnswer:
        banned = await self._enrolment.ban(call.principal, call.path["node_id"])
        if not banned:
            _unknown(call)
        keys = sorted({one.enrolled_with for one in banned if one.enrolled_with})
        return BanAnswer(node_id=call.path["node_id"], outcome="banned", enrolled_with=keys)


def described(one: Credential) -> JoinedNode:
    return JoinedNode(
        node_id=one.node_id,
        credential_id=one.id,
        tenant=one.tenant,
        is_approved=not one.is_pending,
        is_ephemeral=one.is_ephemeral,
        is_private=one.is_private,
        labels=one.labels,
        max_slots=one.max_slots,
        enrolled_with=one.enrolled_with,
        created_ms=one.created_ms,
        expires_ms=one.expires_ms,
    )


def _unknown(call: Call[Any, Any]) -> NoReturn:
    node_id = call.path["node_id"]
    raise Problem(404, HttpCode.UNKNOWN_NODE, f"no credential is for {node_id}; GET /v1/enrolments lists them")
