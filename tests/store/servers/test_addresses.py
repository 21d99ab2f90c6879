"""Addresses of a Cluster and of Sentinels, and what is wrong with one that is none."""

import pytest

from lingua_scheduler.store.servers.addresses import Address, read_cluster, read_sentinel
from lingua_scheduler.store.store import Store, StoreError


def test_addresses_of_a_cluster_are_read() -> None:
    assert read_cluster("redis+cluster://a,b:7001,[::1]:7002/0?socket_keepalive=yes").seeds == (
        Address("a", 6379),
        Address("b", 7001),
        Address("::1", 7002),
    )
    connection = read_cluster("rediss+cluster://user:p%40ss@a:1,b:2").connect(Address("c", 3))
    assert type(connection).__name__ == "SSLConnection"
    assert vars(connection).items() >= {"host": "c", "port": 3}.items()
    assert (connection.username, connection.password) == ("user", "p@ss")


@pytest.mark.parametrize("asked", ["", "?socket_timeout=1&socket_connect_timeout=1"])
def test_no_timeout_but_that_of_the_settings_ends_the_connecting(asked: str) -> None:
    of_sentinels = read_sentinel(f"redis+sentinel://a/main{asked}")
    ways = read_cluster(f"redis+cluster://a{asked}").connect, of_sentinels.connect, of_sentinels.connect_to_sentinel
    made = [way(Address("b", 1)) for way in ways]
    assert {(one.socket_timeout, one.socket_connect_timeout) for one in made} == {(None, None)}


def test_addresses_of_sentinels_are_read() -> None:
    url = read_sentinel("redis+sentinel://user:pass@a,b:7/main/3?sentinel_password=sesame&client_name=lingua")
    assert (url.sentinels, url.master_name) == ((Address("a", 26379), Address("b", 7)), "main")
    master, sentinel = url.connect(Address("c", 1)), url.connect_to_sentinel(Address("a", 26379))
    assert (master.username, master.password, master.db, master.client_name) == ("user", "pass", 3, "lingua")
    assert (sentinel.username, sentinel.password, sentinel.db, sentinel.client_name) == (None, "sesame", 0, "lingua")


@pytest.mark.parametrize(
    ("url", "because"),
    [
        ("redis+cluster://", "a host is missing"),
        ("redis+cluster://a,,b", "a host is missing"),
        ("redis+cluster://a:x,b", "a port is not a number"),
        ("redis+cluster://a:1/3", "a Cluster has only database 0"),
        ("redis+cluster://a:1?colour=red", "unknown parameter 'colour'"),
        ("redis+cluster://user:se/same@a:1", "a / in a password is written %2F"),
        ("redis+bluster://a:1", "it must begin with one of"),
        ("redis+sentinel://a,b", "expected /master-name"),
        ("redis+sentinel://a,b/main/0/1", "expected /master-name"),
        ("redis+sentinel://a,b/main/first", "first is not a database number"),
        ("redis+sentinel:///main", "a host is missing"),
        ("redis+sentinel://a:x/main", "a port is not a number"),
        ("redis+sentinel://user:se/same@a/main", "a / in a password is written %2F"),
    ],
)
def test_an_address_that_is_none_is_refused(url: str, because: str) -> None:
    with pytest.raises(StoreError, match=f"is not a Redis address: {because}") as caught:
        Store(url, key_prefix="x")
    assert "same" not in str(caught.value)
