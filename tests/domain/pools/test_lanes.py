"""Lanes: among which nodes a job looks for one."""

import pytest

from lingua_scheduler.domain.pools.lanes import Lane, Whose, lanes_of
from lingua_scheduler.domain.pools.selection import PoolMap

MAP = PoolMap({"en:zh:speech": {0: 2}, "en:zh:speech@acme": {1: 1}})
PAIR = ("en:zh:speech",)


def tenants(whose: Whose, *private_only: str) -> list[str]:
    return [lane.tenant for lane in lanes_of(whose, MAP, private_only)]


@pytest.mark.parametrize(
    ("whose", "private_only", "found"),
    [
        (Whose(), (), [""]),
        (Whose("acme"), (), ["acme", ""]),
        (Whose("acme"), ("acme",), ["acme"]),
        (Whose("beta"), ("acme",), [""]),
        (Whose("beta"), ("beta",), ["beta"]),
        (Whose("acme", is_private_only=True), (), ["acme"]),
        (Whose("beta", is_private_only=True), (), ["beta"]),
    ],
)
def test_private_nodes_come_first_and_public_ones_only_where_they_may(
    whose: Whose, private_only: tuple[str, ...], found: list[str]
) -> None:
    assert tenants(whose, *private_only) == found


def test_a_tenant_with_private_nodes_only_has_no_nodes_if_it_has_no_private_ones() -> None:
    (lane,) = lanes_of(Whose("beta"), MAP, ("beta",))
    assert not lane.map.serves_all(PAIR)
    assert lane.names(PAIR) == ("en:zh:speech@beta",)


def test_a_public_lane_has_the_names_as_they_are() -> None:
    assert Lane(MAP).names(PAIR) is PAIR
