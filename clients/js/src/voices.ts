// Voices in a room from browser to browser (WebRTC). The scheduler stages offers, answers and candidates: of two offers that
// cross it lets one pass, so an own offer always gives way to one that arrives. Older pages offer to everyone they see.
import type { Entered, VoiceSignal } from "./room-events.js";
import type { Room } from "./rooms.js";

// Those who are in the room offer to one that enters. Only when nothing comes, it offers itself.
const OFFERED_WITHIN_MS = 2_000;
// One that does not answer has no voice: a program, or a browser without WebRTC.
const ANSWERED_WITHIN_MS = 60_000;
const MAX_RESTARTS = 3;
const RESTART_AFTER_MS = 1_000;
// More candidates than a link has.
const MAX_EARLY = 64;

interface VoiceLink {
  peer: RTCPeerConnection;
  sender: RTCRtpSender | null;
  /** Candidates that came before the description. */
  early: RTCIceCandidateInit[];
  /** Signals are handled one after the other. */
  turn: Promise<void>;
  restarts: number;
  timer: ReturnType<typeof setTimeout> | undefined;
}

export interface VoiceEvents {
  /** A member (its session id) can be heard: give the stream to an audio element. */
  heard(id: string, stream: MediaStream): void;
  gone(id: string): void;
  /** A link is there, or is not any more. */
  changed?(): void;
}

export type VoiceRoom = Pick<Room, "on" | "signal">;

export class Voices {
  readonly #on: VoiceEvents;
  readonly #make: (servers: RTCIceServer[]) => RTCPeerConnection;
  #room: VoiceRoom | null = null;
  #listeners: (() => void)[] = [];
  #code = "";
  #me = "";
  #servers: RTCIceServer[] = [];
  readonly #links = new Map<string, VoiceLink>();
  #members = new Set<string>();
  #track: MediaStreamTrack | null = null;
  #isFirst = true;
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(on: VoiceEvents, make = (iceServers: RTCIceServer[]): RTCPeerConnection => new RTCPeerConnection({ iceServers })) {
    this.#on = on;
    this.#make = make;
  }

  /** How many voices are connected. */
  get connected(): number {
    return [...this.#links.values()].filter(({ peer }) => peer.connectionState === "connected").length;
  }

  /** Of the members of a room that was made with `voices`; before it is entered. */
  follow(room: VoiceRoom): void {
    this.leave();
    this.#room = room;
    this.#listeners = [
      room.on("entered", (entered) => this.#enter(entered)),
      room.on("members", ({ members }) => this.#told(members.map(({ sessionId }) => sessionId))),
      room.on("signal", ({ signal }) => this.#heard(signal)),
    ];
  }

  /** Nothing more is heard of the room, and nothing is said. */
  leave(): void {
    for (const remove of this.#listeners.splice(0)) remove();
    this.#reset();
    this.#room = null;
  }

  /** What the others hear; null: nothing. No new offer is needed for it. */
  use(track: MediaStreamTrack | null): void {
    this.#track = track;
    for (const { sender } of this.#links.values()) sender?.replaceTrack(track).catch(() => {});
  }

  #enter({ code, sessionId, iceServers }: Entered): void {
    this.#reset();
    this.#code = code;
    this.#me = sessionId;
    this.#servers = iceServers.map(({ urls, username, credential }) => ({ urls, ...(username ? { username } : {}), ...(credential ? { credential } : {}) }));
    this.#isFirst = true;
  }

  #reset(): void {
    clearTimeout(this.#timer);
    for (const id of [...this.#links.keys()]) this.#drop(id);
    this.#members = new Set();
    this.#code = "";
  }

  #told(ids: string[]): void {
    if (!this.#code) return;
    const others = ids.filter((id) => id !== this.#me);
    const added = others.filter((id) => !this.#members.has(id));
    this.#members = new Set(others);
    for (const id of [...this.#links.keys()]) if (!this.#members.has(id)) this.#drop(id);
    if (this.#isFirst) this.#timer = setTimeout(() => this.#offerTo([...this.#members]), OFFERED_WITHIN_MS);
    else this.#offerTo(added);
    this.#isFirst = false;
  }

  #heard(signal: VoiceSignal): void {
    const id = signal.to;
    if (!this.#members.has(id) || signal.room_code !== this.#code) return;
    if (signal.type === "webrtc_offer") this.#offered(id, signal.sdp as RTCSessionDescriptionInit);
    else if (signal.type === "webrtc_answer") this.#inTurn(id, (link) => this.#answered(link, signal.sdp as RTCSessionDescriptionInit));
    else this.#inTurn(id, (link) => this.#candidate(link, signal.candidate as RTCIceCandidateInit));
  }

  #offerTo(ids: string[]): void {
    for (const id of ids) if (this.#members.has(id) && !this.#links.has(id)) this.#offer(this.#open(id), id);
  }

  #offer(link: VoiceLink, id: string): void {
    link.sender ??= link.peer.addTransceiver("audio", { direction: "sendrecv", streams: [new MediaStream()] }).sender;
    link.sender.replaceTrack(this.#track).catch(() => {});
    link.timer = setTimeout(() => link.peer.signalingState === "have-local-offer" && this.#drop(id), ANSWERED_WITHIN_MS);
    this.#inTurn(id, async ({ peer }) => {
      await peer.setLocalDescription(await peer.createOffer());
      this.#describe("webrtc_offer", id, peer);
    });
  }

  #offered(id: string, sdp: RTCSessionDescriptionInit): void {
    const known = this.#links.get(id);
    // Another connection of the same member, or our own offer, which the scheduler has dropped for this one.
    if (known && (known.peer.signalingState !== "stable" || isAnother(known.peer, sdp))) this.#drop(id);
    if (!this.#links.has(id)) this.#open(id);
    this.#inTurn(id, async (link) => {
      const { peer } = link;
      await peer.setRemoteDescription(sdp);
      const [transceiver] = peer.getTransceivers();
      if (transceiver) this.#speakThrough(link, transceiver);
      await peer.setLocalDescription(await peer.createAnswer());
      this.#describe("webrtc_answer", id, peer);
      await this.#addEarly(link);
    });
  }

  #speakThrough(link: VoiceLink, transceiver: RTCRtpTransceiver): void {
    transceiver.direction = "sendrecv";
    // Older pages play the stream that is named, not the track.
    if (link.sender !== transceiver.sender) transceiver.sender.setStreams?.(new MediaStream());
    link.sender = transceiver.sender;
    link.sender.replaceTrack(this.#track).catch(() => {});
  }

  async #answered(link: VoiceLink, sdp: RTCSessionDescriptionInit): Promise<void> {
    if (link.peer.signalingState !== "have-local-offer") return;
    await link.peer.setRemoteDescription(sdp);
    await this.#addEarly(link);
  }

  async #candidate(link: VoiceLink, candidate: RTCIceCandidateInit): Promise<void> {
    if (link.peer.remoteDescription) await link.peer.addIceCandidate(candidate);
    else if (link.early.length < MAX_EARLY) link.early.push(candidate);
  }

  async #addEarly({ peer, early }: VoiceLink): Promise<void> {
    for (const candidate of early.splice(0)) await peer.addIceCandidate(candidate).catch(() => {});
  }

  #inTurn(id: string, act: (link: VoiceLink) => Promise<void>): void {
    const link = this.#links.get(id);
    if (!link) return;
    // A description that does not fit is of a connection that is gone on the other side; its next offer mends it.
    link.turn = link.turn.then(() => (this.#links.get(id) === link ? act(link) : undefined)).catch(() => {});
  }

  #open(id: string): VoiceLink {
    const peer = this.#make(this.#servers);
    const link: VoiceLink = { peer, sender: null, early: [], turn: Promise.resolve(), restarts: 0, timer: undefined };
    this.#links.set(id, link);
    peer.onicecandidate = ({ candidate }) => candidate && this.#sendCandidate(id, candidate.toJSON());
    peer.ontrack = ({ track }) => this.#on.heard(id, new MediaStream([track]));
    peer.onconnectionstatechange = () => this.#changed(id, link);
    return link;
  }

  #changed(id: string, link: VoiceLink): void {
    this.#on.changed?.();
    if (link.peer.connectionState === "connected") link.restarts = 0;
    if (link.peer.connectionState !== "failed" || link.restarts >= MAX_RESTARTS) return;
    link.restarts += 1;
    // Not at once on both sides.
    const waitMs = (link.restarts + Math.random()) * RESTART_AFTER_MS;
    clearTimeout(link.timer);
    link.timer = setTimeout(() => {
      if (this.#links.get(id) !== link || link.peer.connectionState !== "failed") return;
      link.peer.restartIce();
      this.#offer(link, id);
    }, waitMs);
  }

  #describe(type: "webrtc_offer" | "webrtc_answer", id: string, { localDescription }: RTCPeerConnection): void {
    if (!localDescription) return;
    const sdp = { type: localDescription.type, sdp: localDescription.sdp };
    this.#room?.signal({ type, room_code: this.#code, to: id, sdp });
  }

  #sendCandidate(id: string, candidate: RTCIceCandidateInit): void {
    this.#room?.signal({ type: "webrtc_ice", room_code: this.#code, to: id, candidate });
  }

  #drop(id: string): void {
    const link = this.#links.get(id);
    if (!link) return;
    this.#links.delete(id);
    clearTimeout(link.timer);
    link.peer.onicecandidate = link.peer.ontrack = link.peer.onconnectionstatechange = null;
    link.peer.close();
    this.#on.gone(id);
    this.#on.changed?.();
  }
}

/** Whether an offer is of another connection than the one that is there: each has a certificate of its own. */
function isAnother({ remoteDescription }: RTCPeerConnection, offer: RTCSessionDescriptionInit): boolean {
  return remoteDescription !== null && fingerprint(remoteDescription.sdp) !== fingerprint(offer.sdp);
}

function fingerprint(sdp = ""): string | undefined {
  return /a=fingerprint:(.*)/.exec(sdp)?.[1]?.trim();
}
