"""What an operator of one tenant is shown of the one picture."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lingua_scheduler.domain.watching.changes import changes, delta
from lingua_scheduler.domain.watching.failures import FailedJob
from lingua_scheduler.domain.watching.narrowing import events_of, failure_for, narrowed, nodes_of, without_names
from lingua_scheduler.domain.watching.pair_work import PairDemand, ScalingLook
from lingua_scheduler.domain.watching.picture import Event, Level, Picture
from tests.support.pictures import after, alarm, instance, job, moment, node, pair, picture

TENANTS = ["acme", "beta", ""]


def whole() -> Picture:
    return picture(
        now=moment(sessions=3, slots_total=8),
        nodes=[node("mine", tenant="acme"), node("theirs", tenant="beta"), node("older")],
        pairs=[pair("en:zh"), pair("en:pt", hangs_on="theirs"), pair("en:ko", nodes=0, text_nodes=0)],
        session_languages={"en:ko": 2},
        instances=[instance("i1")],
        dead_letters=4,
        failures=[
            job("job-0-mine", tenant="acme", node_id="theirs", session_id="s-mine"),
            job("job-0-theirs", tenant="beta", session_id="s-theirs"),
            job("job-0-older"),
        ],
        slow=[job("job-0-slow", tenant="beta")],
        alarms=[
            msgspec.structs.replace(alarm("node.lost", "mine"), tenant="acme"),
            msgspec.structs.replace(alarm("node.lost", "theirs"), tenant="beta"),
            alarm("pair.thin", "en:pt"),
            msgspec.structs.replace(alarm("nodes.none", level=Level.CRITICAL), handled_by="olga"),
        ],
    )


def test_only_what_is_the_tenants_is_named() -> None:
    found = narrowed(whole(), "acme")
    assert [one.node_id for one in found.nodes] == ["mine"]
    assert [(one.job_id, one.node_id) for one in found.failures] == [("job-0-mine", "")]
    assert found.slow == []
    assert [(one.code, one.subject, one.handled_by) for one in found.alarms] == [
        ("node.lost", "mine", ""),
        ("nodes.none", "", ""),
    ]
    assert found.verdict is not None
    assert (found.verdict.code, found.needs_look and found.needs_look.nodes) == ("nodes.none", ["mine"])
    raw = msgspec.json.encode(found)
    assert all(word not in raw for word in (b"theirs", b"older", b"beta", b"Valkey", b"olga"))


def test_what_all_share_is_summed_up() -> None:
    found = narrowed(whole(), "acme")
    assert found.now == whole().now
    # A pair that is listed only because another tenant asked for it would tell of it.
    assert [(one.tgt, one.nodes, one.hangs_on) for one in found.pairs] == [("zh", 2, ""), ("pt", 2, "")]
    assert (found.session_languages, found.instances, found.leader, found.dead_letters) == ({}, [], None, 0)
    mine = narrowed(picture(nodes=[node("a", tenant="acme")], pairs=[pair(hangs_on="a")]), "acme")
    assert mine.pairs[0].hangs_on == "a"


def test_what_names_no_tenant_is_nobodys() -> None:
    assert [one.node_id for one in narrowed(whole(), "").nodes] == ["older"]
    assert nodes_of(whole(), "gamma") == set()
    assert nodes_of(None, "acme") == set()


names = st.lists(
    st.tuples(st.sampled_from("abcdefgh"), st.sampled_from(TENANTS)), max_size=8, unique_by=lambda it: it[0]
)


@given(names, names)
def test_no_change_and_no_event_names_what_is_anothers(
    before: list[tuple[str, str]], later: list[tuple[str, str]]
) -> None:
    """Nodes and jobs that come and go, and change their tenant."""

    def seen(some: list[tuple[str, str]]) -> dict[str, Any]:
        return {
            "nodes": [node(f"node-{name}-{tenant}", tenant=tenant) for name, tenant in some],
            "failures": [
                job(f"job-{name}-{tenant}", tenant=tenant, node_id=f"node-{name}-beta") for name, tenant in some
            ],
        }

    one = picture(**seen(before))
    other = after(one, **seen(later))
    change = delta(narrowed(one, "acme"), narrowed(other, "acme"))
    change["events"] = events_of(changes(one, other), "acme", nodes_of(other, "acme"))
    raw = msgspec.json.encode(change).decode()
    assert "beta" not in raw
    assert not [name for name, tenant in (*before, *later) if not tenant and f'-{name}-"' in raw]
    joined = {name for name, tenant in later if tenant == "acme"} - {
        name for name, tenant in before if tenant == "acme"
    }
    assert all(f"node-{name}-acme joined" in raw for name in joined)


def event(kind: str, tenant: str = "", **values: str | int | float) -> Event:
    return Event(
        at_ms=1, kind=kind, level=Level.NOTICE, subject="", text=f"{kind} at gpu-1", values=values, tenant=tenant
    )


def test_events_of_the_tenant_and_those_about_languages() -> None:
    events = [event("pair.served"), event("leader.changed"), event("node.left", "beta"), event("node.left", "acme")]
    assert events_of(events, "acme", ()) == [events[0], events[3]]
    failed = event("job.failed", "acme", node_id="gpu-1")
    assert events_of([failed], "acme", {"gpu-1"}) == [failed]
    (hidden,) = events_of([failed], "acme", {"gpu-2"})
    assert (hidden.values["node_id"], hidden.text) == ("", "job.failed at a node")


def test_a_failure_on_a_foreign_node() -> None:
    failure = FailedJob(
        at_ms=1,
        job_id="j",
        session_id="s",
        utterance_index=0,
        src="en",
        tgt="zh",
        code="X",
        node_id="n1",
        reason="n1 broke",
    )
    assert failure_for(failure, {"n1"}) is failure
    hidden = failure_for(failure, {"n2"})
    assert (hidden.node_id, hidden.reason) == ("", "a node broke")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("node-1 failed", "a node failed"),
        ("node-12 and x-node-1 failed", "node-12 and x-node-1 failed"),
        ("the last was node-1.", "the last was a node."),
        ("(node-1)", "(a node)"),
    ],
)
def test_whole_names_are_replaced(text: str, told: str) -> None:
    assert without_names(text, ["node-1"]) == told


def test_what_others_ask_for_is_not_told() -> None:
    asked = PairDemand(
        src="en", tgt="ko", arrivals_per_s=1.0, node_s_per_job=1.0, real_time_factor=None, waiting=2, load=1.0
    )
    every = msgspec.structs.replace(whole(), scaling=ScalingLook(is_settled=True, headroom=1.5, pairs=[asked]))
    assert narrowed(every, "acme").scaling == ScalingLook()
