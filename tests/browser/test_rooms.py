"""Two and three real pages with the habits of the existing client (both sides offer at once, early candidates are
lost): their voices connect through the staging, on one instance and across two."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page

from tests.support.browser import browser, page_of
from tests.support.schedulers import scheduler_on
from tests.support.servers import RedisProcess
from tests.support.waiting import until

FLAGS = (
    "--use-fake-device-for-media-stream",
    "--use-fake-ui-for-media-stream",
    # Without it a page's own addresses are names that only a multicast DNS knows.
    "--disable-features=WebRtcHideLocalIpsWithMdns",
)

# As the existing client: it enters a room on room_create_ack, syncs its links on room_members, offers to everyone it
# has no link to, answers what it is offered, and loses candidates that come before there is a remote description.
CLIENT = """
(port) => {
  const app = window.app = {id: '', code: '', members: [], links: new Map(), alerts: [], lost: 0, results: []};
  const socket = new WebSocket(`ws://127.0.0.1:${port}/ws/session`);
  const send = (type, more) => socket.send(JSON.stringify({type, ...more}));
  app.send = send;
  socket.onopen = () => send('session_init', {client_version: 'web-client-v1.0', platform: 'web',
    mode: 'one_way', src_lang: 'zh', tgt_lang: 'en'});
  const wanted = (other) => other.session_id !== app.id && other.raw_voice_preferences[app.id] !== false;
  let microphone = null;
  const ensure = async (id) => {
    if (app.links.has(id)) return app.links.get(id);
    microphone = microphone || await navigator.mediaDevices.getUserMedia({audio: true});
    const pc = new RTCPeerConnection({iceServers: []});
    app.links.set(id, pc);
    microphone.getTracks().forEach((track) => pc.addTrack(track, microphone));
    pc.onicecandidate = ({candidate}) => candidate &&
      send('webrtc_ice', {room_code: app.code, to: id, candidate: candidate.toJSON()});
    return pc;
  };
  const describe = (pc) => ({type: pc.localDescription.type, sdp: pc.localDescription.sdp});
  const sync = async () => {
    const others = app.members.filter(wanted).map((member) => member.session_id);
    for (const [id, pc] of [...app.links]) if (!others.includes(id)) { pc.close(); app.links.delete(id); }
    for (const id of others) {
      if (app.links.has(id)) continue;
      const pc = await ensure(id);
      await pc.setLocalDescription(await pc.createOffer());
      send('webrtc_offer', {room_code: app.code, to: id, sdp: describe(pc)});
    }
  };
  const hear = {
    session_init_ack: (frame) => { app.id = frame.session_id; },
    room_create_ack: (frame) => { app.code = frame.room_code; },
    room_members: (frame) => { if (frame.room_code === app.code) { app.members = frame.members; return sync(); } },
    error: (frame) => { app.alerts.push(frame.message); },
    translation_result: (frame) => { app.results.push(frame); },
    webrtc_offer: async (frame) => {
      if (!app.members.some((member) => member.session_id === frame.to && wanted(member))) return;
      const pc = await ensure(frame.to);
      await pc.setRemoteDescription(frame.sdp);
      await pc.setLocalDescription(await pc.createAnswer());
      send('webrtc_answer', {room_code: app.code, to: frame.to, sdp: describe(pc)});
    },
    webrtc_answer: async (frame) => app.links.get(frame.to)?.setRemoteDescription(frame.sdp),
    webrtc_ice: async (frame) => {
      const pc = app.links.get(frame.to);
      if (!pc || !pc.remoteDescription) { app.lost += 1; return; }
      await pc.addIceCandidate(frame.candidate);
    },
  };
  // Handlers are not waited for, as in the client.
  socket.onmessage = async (message) => {
    const frame = JSON.parse(message.data);
    try { await hear[frame.type]?.(frame); } catch (error) { console.log(String(error)); }
  };
  app.states = () => [...app.links.values()].map((pc) => pc.iceConnectionState).sort();
}
"""


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def talking() -> AsyncIterator[Browser]:
    async with browser(*FLAGS) as found:
        yield found


class Pages:
    def __init__(self, stack: AsyncExitStack, opened: Browser, ports: list[int]) -> None:
        self._stack = stack
        self._opened = opened
        self._ports = ports
        self._count = 0

    async def one(self) -> Page:
        port = self._ports[self._count % len(self._ports)]
        self._count += 1
        page = await self._stack.enter_async_context(page_of(self._opened))
        # A page of the scheduler's own origin may use the microphone.
        await page.goto(f"http://127.0.0.1:{self._ports[0]}/talk")
        await page.evaluate(CLIENT, port)
        await until(lambda: page.evaluate("app.id"), what="the page has a session")
        return page


@pytest_asyncio.fixture(loop_scope="session", params=[1, 2], ids=["one", "two"])
async def pages(request: pytest.FixtureRequest, server: RedisProcess, talking: Browser) -> AsyncIterator[Pages]:
    async with AsyncExitStack() as stack:
        changes = {"server__allowed_origins": ("*",)}
        schedulers = [
            await stack.enter_async_context(scheduler_on(server.url, **changes)) for _ in range(request.param)
        ]
        yield Pages(stack, talking, [scheduler.port for scheduler, _ in schedulers])


async def are_connected(page: Page, others: int) -> None:
    async def found() -> bool:
        states = await page.evaluate("app.states()")
        return len(states) == others and set(states) <= {"connected", "completed"}

    await until(found, what=f"{others} voices are connected")


@pytest.mark.asyncio(loop_scope="session")
async def test_voices_of_existing_pages_connect(pages: Pages) -> None:
    a, b = await pages.one(), await pages.one()
    await a.evaluate("app.send('room_create', {client_ts: Date.now()})")
    code = await until(lambda: a.evaluate("app.code"), what="the first page is in its room")
    await b.evaluate("code => app.send('room_join', {room_code: code, display_name: 'Bob'})", code)
    for page in (a, b):
        await are_connected(page, 1)
    c = await pages.one()
    await c.evaluate("code => app.send('room_join', {room_code: code})", code)
    for page in (a, b, c):
        await are_connected(page, 2)
    # The box: the one that unticks it loses the link, and gets it back.
    await b.evaluate(
        "app.send('room_raw_voice_preference', {room_code: app.code, target_session_id: app.members[0].session_id, "
        "receive_raw_voice: false})"
    )
    await are_connected(b, 1)
    assert not await a.evaluate("app.alerts.length")
