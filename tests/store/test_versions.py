"""The version of the data: written by the first, kept for the release before, refused by those who do not know it."""

import asyncio

import pytest

from lingua_scheduler.domain.maintenance.versions import DATA_VERSION, VersionClaimOutcome, refusal
from lingua_scheduler.store.store import Store, StoreError


async def test_the_first_writes_it_and_everybody_else_finds_it(store: Store) -> None:
    outcomes = [claimed.outcome for claimed in await asyncio.gather(*(store.versions.claim() for _ in range(5)))]
    assert sorted(outcomes) == [VersionClaimOutcome.SAME] * 4 + [VersionClaimOutcome.WRITTEN]
    assert await store.versions.read() == str(DATA_VERSION)


async def test_lost_data_is_marked_again(store: Store) -> None:
    await store.claim_data()
    await store.line.call("DEL", store.keys.version)
    await store.claim_data()
    assert await store.versions.read() == str(DATA_VERSION)


async def test_data_lost_in_the_middle_of_an_upgrade_keeps_the_version_of_the_release_before(store: Store) -> None:
    await store.line.call("SET", store.keys.version, DATA_VERSION - 1)
    await store.claim_data()
    await store.line.call("DEL", store.keys.version)
    await store.claim_data()
    assert await store.versions.read() == str(DATA_VERSION - 1)
    assert (await store.versions.claim(finish=True)).outcome is VersionClaimOutcome.RAISED
    await store.line.call("DEL", store.keys.version)
    await store.claim_data()
    assert await store.versions.read() == str(DATA_VERSION)


async def test_two_adjacent_versions_run_together_until_the_upgrade_is_finished(store: Store) -> None:
    await store.versions.claim(1)
    assert (await store.versions.claim(2)).outcome is VersionClaimOutcome.OLDER
    assert (await store.versions.claim(1)).outcome is VersionClaimOutcome.SAME, "one can go back"
    assert (await store.versions.claim(2, finish=True)).outcome is VersionClaimOutcome.RAISED
    assert (await store.versions.claim(1)).outcome is VersionClaimOutcome.NEWER
    assert (await store.versions.claim(2, finish=True)).outcome is VersionClaimOutcome.SAME


async def test_data_two_versions_back_is_refused_with_the_way_there(store: Store) -> None:
    await store.versions.claim(1)
    for finish in (False, True):
        claimed = await store.versions.claim(3, finish=finish)
        assert claimed.outcome is VersionClaimOutcome.TOO_OLD
    assert await store.versions.read() == "1"
    assert "upgrade in steps" in (refusal(*claimed) or "")


@pytest.mark.parametrize("stored", [str(DATA_VERSION + 1), "99", "something else", "nan", "inf", "1.5", " 1"])
async def test_newer_data_is_refused_and_left_alone(store: Store, stored: str) -> None:
    await store.line.call("SET", store.keys.version, stored)
    with pytest.raises(StoreError, match=f"data has version {stored}.*install the release that wrote it"):
        await store.claim_data()
    assert await store.versions.read() == stored
