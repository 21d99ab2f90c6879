"""Existing peers where everybody needs a credential: it is in their URL, and a refused one backs off as it used to."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import aiohttp
import pytest

from lingua_scheduler.domain.access.credentials import Credential
from lingua_scheduler.domain.access.grants import Grants
from lingua_scheduler.domain.access.principals import Principal, PrincipalKind
from lingua_scheduler.domain.access.scopes import Role
from lingua_scheduler.services.access.signing import MintedToken, TokenSigner
from lingua_scheduler.services.attempts.peers import CloseCode
from lingua_scheduler.services.cluster.seals import load_or_make
from lingua_scheduler.setting_sections.access import AuthSettings
from lingua_sdk.domain.key_texts import KeyKind, KeyText, fresh_key
from tests.support.access import MadeKey, made_key, write_keys_file
from tests.support.field_browser import FieldBrowser
from tests.support.field_gateway import FieldGateway
from tests.support.field_mind import translation
from tests.support.field_node import FieldNode
from tests.support.field_phone import FieldPhone
from tests.support.field_places import LONG_S, Passes, Place, place
from tests.support.field_speech import pcm16, say, sentence_of
from tests.support.servers import RedisProcess
from tests.support.waiting import until

MIDDLE = "bravo charlie delta echo"
NODE_ID = "node-0123ABCD"
# A hundredth of what the page waits, and of what the node does.
PAGE_S = 0.01
NODE_S = (0.05, 0.6)
PAGE_PAUSES = [1, 2, 4, 8, 16, 30, 30]
NODE_PAUSES = [5, 10, 20, 40, 60, 60]

both = pytest.mark.parametrize("count", [1, 2], ids=["one instance", "two instances"])


class Guarded(NamedTuple):
    """Where everybody needs a credential, and the keys that there are."""

    here: Place
    passes: Passes
    service: MadeKey
    node: MadeKey
    client: MadeKey

    async def add(self, key: MadeKey) -> None:
        await self.here.clients_at.scheduler.credentials.add(key.credential)

    async def revoke(self, key: MadeKey) -> None:
        await self.here.clients_at.scheduler.credentials.end(key.credential.id, at_ms=int(time.time() * 1000))


def token_of(folder: Path, service: MadeKey) -> str:
    """As the backend of the page has it made."""
    auth = AuthSettings()
    signer = TokenSigner(load_or_make(folder / "cluster.key"), auth.audience, auth.max_token_ms)
    about = service.credential
    minter = Principal(kind=PrincipalKind.SERVICE, scopes=about.scopes, tenant=about.tenant, key_id=about.id)
    minted = signer.mint(minter, "user-7", Grants(tenant=about.tenant), 600_000, int(time.time() * 1000))
    assert isinstance(minted, MintedToken)
    return minted.text


@asynccontextmanager
async def guarded(folder: Path, server: RedisProcess, count: int = 1) -> AsyncIterator[Guarded]:
    # Keys are older than the tokens that they make.
    old = {"created_ms": int(time.time() * 1000) - 60_000}
    operator = made_key(KeyKind.OPERATOR, role=Role.VIEWER, **old)
    service, client = made_key(KeyKind.SERVICE, **old), made_key(KeyKind.CLIENT, **old)
    node = made_key(KeyKind.NODE, node_id=NODE_ID, **old)
    passes = Passes(operator.text, node.text, token_of(folder, service), client.text, service.text)
    keys = write_keys_file(folder / "keys.toml", operator, service, client, node)
    async with place(folder, server.url, count, passes, auth__mode="required", auth__keys_file=keys) as here:
        yield Guarded(here, passes, service, node, client)


@both
@pytest.mark.slow
async def test_all_of_them_work_with_a_credential_in_their_url(
    tmp_path: Path, server: RedisProcess, count: int
) -> None:
    async with guarded(tmp_path, server, count) as (here, *_):
        node, browser, phone, gateway = await here.node(), await here.browser(), await here.phone(), here.gateway()
        # It registers without an id, as after every restart; its key has one.
        assert node.said[0]["node_id"] is None
        assert node.node_id == NODE_ID
        spoken = sentence_of(3, start=10)
        await browser.say(MIDDLE, presses_send=True)
        await phone.say(spoken)
        async with asyncio.timeout(LONG_S):
            # Its tenant is its own invention, and its second socket may find the other instance.
            asked = await gateway.ask(await gateway.open_session(), pcm16(say(MIDDLE)), port=here.nodes_at.port)
        await until(lambda: browser.shown and phone.results, LONG_S)
        assert browser.texts == [(MIDDLE, translation(MIDDLE, "en", "zh"))]
        assert [frame["text_asr"] for _, frame in phone.results] == [spoken]
        assert (asked.ended_by, asked.text) == ("translation_result", translation(MIDDLE, "en", "zh"))
        assert not browser.alerts
        assert not phone.errors
        assert await here.is_healthy(node)
        assert browser.refusals == phone.refusals == node.refusals == []


@both
@pytest.mark.slow
async def test_a_node_and_a_page_that_were_cut_off_come_back_with_what_they_have(
    tmp_path: Path, server: RedisProcess, count: int
) -> None:
    async with guarded(tmp_path, server, count) as (here, *_):
        node, browser = await here.node(reconnect_s=NODE_S), await here.browser(reconnect_s=PAGE_S)
        first = browser.session_id
        node.cut()
        browser.cut()
        await until(lambda: browser.session_id and browser.session_id != first, LONG_S)
        await until(lambda: node.connections == 2 and node.is_connected, LONG_S)
        await until(lambda: here.serves(node), LONG_S)
        await browser.say(MIDDLE, presses_send=True)
        await until(lambda: browser.shown, LONG_S)
        assert node.node_id == NODE_ID
        assert browser.refusals == node.refusals == []


@pytest.mark.parametrize("has_one", [False, True], ids=["no credential", "a revoked one"])
async def test_whoever_is_refused_hears_it_before_the_upgrade_and_backs_off(
    tmp_path: Path, server: RedisProcess, has_one: bool
) -> None:
    """An accepted socket would start their pauses anew: once a second for ever, from every page."""
    async with guarded(tmp_path, server) as found:
        port = found.here.clients_at.port
        for key in (found.service, found.node, found.client):
            await found.revoke(key)
        shown = found.passes if has_one else Passes()
        browser = FieldBrowser(port, reconnect_s=PAGE_S, credential=shown.browser)
        node = FieldNode(port, reconnect_s=NODE_S, credential=shown.node)
        phone = FieldPhone(port, reconnect_s=0.3, credential=shown.phone)
        gateway = FieldGateway(port, credential=shown.gateway)
        try:
            for peer in (browser, node, phone):
                peer.open()
            with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
                await gateway.open_session()
            assert refused.value.status == 401
            await until(lambda: len(browser.pauses_s) >= len(PAGE_PAUSES), LONG_S)
            await until(lambda: len(node.pauses_s) >= len(NODE_PAUSES) and phone.refusals, LONG_S)
        finally:
            for peer in (browser, node, phone):
                await peer.stop()
            await gateway.close()
        assert [round(pause / PAGE_S) for pause in browser.pauses_s][: len(PAGE_PAUSES)] == PAGE_PAUSES
        assert [round(pause / NODE_S[0] * 5) for pause in node.pauses_s][: len(NODE_PAUSES)] == NODE_PAUSES
        assert set(browser.refusals) | set(node.refusals) | set(phone.refusals) == {401}
        assert not browser.connected_at
        assert not node.connections
        # A page raises a blocking alert for every frame that says `error`.
        assert not browser.heard


async def test_a_key_that_is_revoked_ends_what_it_opened_and_its_owner_backs_off(
    tmp_path: Path, server: RedisProcess
) -> None:
    async with guarded(tmp_path, server) as found:
        node = await found.here.node(reconnect_s=NODE_S)
        browser = await found.here.browser(reconnect_s=PAGE_S)
        await found.revoke(found.node)
        # The page's token ends with the key that made it.
        await found.revoke(found.service)
        await until(lambda: len(browser.refusals) >= 4 and len(node.refusals) >= 3, LONG_S)
        assert browser.close_codes == [CloseCode.REVOKED]
        assert [round(pause / PAGE_S) for pause in browser.pauses_s][:4] == PAGE_PAUSES[:4]
        assert [round(pause / NODE_S[0] * 5) for pause in node.pauses_s][:3] == NODE_PAUSES[:3]
        assert set(browser.refusals) | set(node.refusals) == {401}
        assert not browser.alerts


async def test_a_refused_node_gets_in_when_its_key_is_known(tmp_path: Path, server: RedisProcess) -> None:
    """Nobody restarts it."""
    async with guarded(tmp_path, server) as found:
        late = made_key(KeyKind.NODE)
        node = FieldNode(found.here.nodes_at.port, reconnect_s=NODE_S, credential=late.text)
        node.open()
        try:
            await until(lambda: len(node.refusals) >= 2, LONG_S)
            await found.add(late)
            await until(lambda: node.is_connected, LONG_S)
        finally:
            await node.stop()


async def test_a_node_would_spoil_a_key_with_the_name_of_its_own_computer_so_none_has_it(
    tmp_path: Path, server: RedisProcess
) -> None:
    async with guarded(tmp_path, server) as found:
        usual = fresh_key(KeyKind.NODE)
        spoilt = KeyText(usual.kind, usual.id, "localhost" + usual.secret[9:])
        await found.add(MadeKey(str(spoilt), Credential(id=spoilt.id, kind=spoilt.kind, digest=spoilt.digest)))
        node = FieldNode(found.here.nodes_at.port, reconnect_s=NODE_S, credential=str(spoilt))
        node.open()
        try:
            await until(lambda: node.refusals, LONG_S)
        finally:
            await node.stop()
        assert set(node.refusals) == {401}
        # The same draws, by whoever makes keys: these come first, and are not taken.
        draws = iter([*spoilt.id, *spoilt.secret, *usual.id, *usual.secret])
        assert fresh_key(KeyKind.NODE, lambda _: next(draws)) == usual
