import re

from lingua_scheduler.domain.access.oidc_flows import flow_of


def test_all_parts_of_a_flow_differ_and_can_be_made_again() -> None:
    flow = flow_of("secret")
    assert flow == flow_of("secret")
    assert len({*flow, *flow_of("another")}) == 6


def test_the_verifier_is_one_that_pkce_allows() -> None:
    assert re.fullmatch(r"[A-Za-z0-9_~.-]{43,128}", flow_of("\ud800").verifier)


def test_a_traceback_does_not_show_it() -> None:
    flow = flow_of("secret")
    assert not any(part in repr(flow) for part in flow)
