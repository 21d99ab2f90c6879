"""Queries are read into structs, and what does not fit is named."""

from typing import Any

import msgspec
import pytest
from aiohttp.test_utils import make_mocked_request

from lingua_scheduler.console.answers import Problem
from lingua_scheduler.console.queries import query_of, query_reader


class Filter(msgspec.Struct):
    state: str = "any"
    limit: int = 10


def read(query: str, struct: type | None = Filter) -> Any:
    return query_reader(struct)(make_mocked_request("GET", f"/x?{query}"))


def test_what_is_given_is_read_and_the_rest_has_its_default() -> None:
    assert read("limit=3") == Filter(limit=3)
    assert read("") == Filter()
    assert read("", None) is None


def test_the_credential_is_not_a_parameter() -> None:
    assert read("access_token=secret&limit=3") == Filter(limit=3)
    assert read("access_token=secret", None) is None


@pytest.mark.parametrize(
    ("query", "words"),
    [("limits=3", 'did you mean "limit"?'), ("limit=3&limit=4", "given twice"), ("limit=x", "limit")],
)
def test_what_does_not_fit_is_named(query: str, words: str) -> None:
    with pytest.raises(Problem, match="query parameter") as refused:
        read(f"{query}&access_token=secret")
    assert words in refused.value.detail
    assert "secret" not in refused.value.detail


def test_a_query_that_another_instance_read_is_the_same() -> None:
    assert query_of(Filter, {"state": "done", "limit": 2}) == Filter("done", 2)
    assert query_of(None, None) is None
