// Built from clients/js by `make pages`. Do not edit.

// src/announced.ts
var SETTLED_AFTER_MS = 3e3;
var UNTOLD_AFTER_MS = 1e4;
var MAX_MISSED = 512;
var Announced = class {
  #open = /* @__PURE__ */ new Set();
  #wasOne = false;
  // Of this session; the one before it had lower numbers.
  #first = 0;
  /** Something was said, and it is not known yet what becomes of it. */
  isUnsettled = false;
  add(index) {
    this.#open.add(index);
    this.#wasOne = true;
  }
  answered(index) {
    this.#open.delete(index);
    this.#wasOne = true;
  }
  /** The session goes on, and some of the indexes below `next` may have been announced meanwhile. */
  resumed(next, hasOutcome) {
    for (let index = Math.max(this.#first, next - MAX_MISSED); index < next; index++) if (!hasOutcome(index)) this.add(index);
  }
  /** Another session begins. */
  restarted(first) {
    this.#first = first;
    this.#open.clear();
    this.#wasOne = false;
  }
  /** Whether no outcome is still to come, so long after the last speech was sent. */
  areAllIn(idleMs) {
    return this.#open.size === 0 && idleMs > (this.#wasOne ? SETTLED_AFTER_MS : UNTOLD_AFTER_MS);
  }
};

// src/errors.ts
var LinguaError = class extends Error {
  code;
  constructor(code, message, options) {
    super(message, options);
    this.name = new.target.name;
    this.code = code;
  }
};
var AccessDenied = class extends LinguaError {
  /** Of HTTP, or the close code of the WebSocket (4003, 4004, 4007); 0 if the scheduler was not asked. */
  status;
  constructor(code, message, status = 0) {
    super(code, message);
    this.status = status;
  }
};
var TokenNotFetched = class extends LinguaError {
  constructor(cause) {
    super("TOKEN_NOT_FETCHED", `the function given as token failed: ${cause instanceof Error ? cause.message : String(cause)}`, { cause });
  }
};
var Unreachable = class extends LinguaError {
  constructor(message) {
    super("UNREACHABLE", message);
  }
};
var SessionFailed = class extends LinguaError {
  /** What the scheduler said of it; empty if it said nothing. */
  said;
  constructor(code, message, said = "", options) {
    super(code, message, options);
    this.said = said;
  }
};
var BufferFull = class extends LinguaError {
  constructor(message) {
    super("BUFFER_FULL", message);
  }
};
var RoomRefused = class extends LinguaError {
};
var DISMISSALS = /* @__PURE__ */ new Map([
  [4003, ["UNAUTHENTICATED", "the scheduler did not accept the new token"]],
  [4004, ["REVOKED", "the key or token was revoked"]],
  [4007, ["GUESSING", "the connection named sessions of other connections"]]
]);
function dismissal(closeCode) {
  const [code, message] = DISMISSALS.get(closeCode) ?? [];
  return code && message ? new AccessDenied(code, message, closeCode) : void 0;
}

// src/events.ts
var Emitter = class {
  #listeners = /* @__PURE__ */ new Map();
  /** Returns a function that removes the listener. */
  on(name, listener) {
    const listeners = this.#listeners.get(name) ?? /* @__PURE__ */ new Set();
    this.#listeners.set(name, listeners.add(listener));
    return () => void listeners.delete(listener);
  }
  has(name) {
    return Boolean(this.#listeners.get(name)?.size);
  }
  emit(name, event) {
    for (const listener of [...this.#listeners.get(name) ?? []]) {
      try {
        listener(event);
      } catch (error) {
        queueMicrotask(() => {
          throw error;
        });
      }
    }
  }
};
var Signal = class {
  #wake = () => {
  };
  #change = new Promise((wake) => this.#wake = wake);
  tell() {
    this.#wake();
    this.#change = new Promise((wake) => this.#wake = wake);
  }
  async until(isSo) {
    while (!isSo()) await this.#change;
  }
};
var Inbox = class {
  #unread = [];
  #max;
  #news = new Signal();
  #ending;
  constructor(max) {
    this.#max = max;
  }
  get isFull() {
    return this.#unread.length >= this.#max;
  }
  add(value) {
    if (this.#ending) return;
    this.#unread.push(value);
    this.#news.tell();
  }
  /** For what is full, and must not lose the latest. */
  replaceOldest(value) {
    this.#unread.shift();
    this.add(value);
  }
  end(error) {
    this.#ending ??= { error };
    this.#news.tell();
  }
  /** Until half of it was read, or it has ended. */
  hasRoom() {
    return this.#news.until(() => this.#unread.length <= this.#max / 2 || Boolean(this.#ending));
  }
  async next() {
    await this.#news.until(() => this.#unread.length > 0 || Boolean(this.#ending));
    if (this.#unread.length === 0) {
      if (this.#ending?.error) throw this.#ending.error;
      return { done: true, value: void 0 };
    }
    const value = this.#unread.shift();
    this.#news.tell();
    return { done: false, value };
  }
  [Symbol.asyncIterator]() {
    return this;
  }
};

// src/frames.ts
var CHUNK = 1;
var HEAD_BYTES = 12;
var PIECE = 32768;
function bytesOf(audio) {
  if (audio instanceof ArrayBuffer) return new Uint8Array(audio.slice(0));
  return new Uint8Array(audio.buffer, audio.byteOffset, audio.byteLength).slice();
}
function binaryChunk(sessionId, { seq, audio, isFinal }) {
  const id = new TextEncoder().encode(sessionId);
  const frame = new Uint8Array(HEAD_BYTES + id.length + audio.length);
  const head = new DataView(frame.buffer);
  head.setUint8(0, CHUNK);
  head.setUint8(1, id.length);
  head.setUint32(2, seq, true);
  head.setUint32(6, Date.now() % 2 ** 32, true);
  head.setUint8(10, isFinal ? 1 : 0);
  frame.set(id, HEAD_BYTES);
  frame.set(audio, HEAD_BYTES + id.length);
  return frame;
}
function textChunk(sessionId, { seq, audio, isFinal }) {
  const message = {
    type: "audio_chunk",
    session_id: sessionId,
    seq,
    is_final: isFinal,
    payload: toBase64(audio)
  };
  return JSON.stringify(message);
}
function toBase64(bytes) {
  let text = "";
  for (let at = 0; at < bytes.length; at += PIECE) text += String.fromCharCode(...bytes.subarray(at, at + PIECE));
  return btoa(text);
}
function fromBase64(text) {
  try {
    return Uint8Array.from(atob(text), (char) => char.charCodeAt(0));
  } catch {
    return new Uint8Array();
  }
}

// src/first-words.ts
var VERSION = "lingua-js-1";
var SAMPLE_RATE = 16e3;
var TEXT_ALONE = { use_asr: true, use_nmt: true, use_tts: false };
function initOf({ source, target, bothWays, partials = false, init }) {
  return {
    type: "session_init",
    client_version: VERSION,
    platform: "document" in globalThis ? "web" : "node",
    src_lang: bothWays ? "auto" : source,
    tgt_lang: target,
    enable_streaming_asr: partials,
    use_binary_frame: true,
    ...bothWays ? { mode: "two_way_auto", lang_a: bothWays[0], lang_b: bothWays[1] } : {},
    ...init
  };
}
function utteranceOf(init, index, audio, { format = "pcm16", speech = true }) {
  const { src_lang, tgt_lang, mode, lang_a, lang_b, auto_langs, enable_streaming_asr } = init;
  return {
    ...{ type: "utterance", session_id: "", utterance_index: index, manual_cut: true, audio: toBase64(audio) },
    ...{ audio_format: format, sample_rate: SAMPLE_RATE, src_lang, tgt_lang, mode, lang_a, lang_b, auto_langs },
    ...{ enable_streaming_asr, pipeline: speech ? null : TEXT_ALONE }
  };
}
function playbackOf(type, sessionId, { trace_id, group_id }) {
  const about = { session_id: sessionId, trace_id, group_id: group_id ?? null };
  return type === "tts_started" ? { type, ...about, ts_start_ms: Date.now() } : { type, ...about, ts_end_ms: Date.now() };
}

// src/access.ts
var PROTOCOL = "lingua.v1";
var CARRIER = "lingua.auth.";
var SENDABLE = /^[\x21-\x7e]+$/;
var ANSWER_WITHIN_MS = 5e3;
var FETCH_WITHIN_MS = 1e4;
var Access = class {
  #token;
  #shown = "";
  constructor(token) {
    this.#token = token;
  }
  /** Whether there may be a newer token before the present one expires. */
  get canRefresh() {
    return typeof this.#token === "function";
  }
  /** The sub-protocols of a socket. Throws TokenNotFetched, AccessDenied. */
  async protocols() {
    const token = await this.#fetched();
    this.#shown = token;
    return token ? [PROTOCOL, CARRIER + token] : [];
  }
  /** For an open connection; empty if there is none that is newer. */
  async newer() {
    const before = this.#shown;
    this.#shown = await this.#fetched();
    return this.#shown === before ? "" : this.#shown;
  }
  /** Why a handshake was refused, which a WebSocket does not tell; undefined if it was not, or cannot be known. */
  async refusal(url) {
    try {
      const headers = this.#shown ? { Authorization: `Bearer ${this.#shown}` } : {};
      const answer = await fetch(askUrl(url), { headers, signal: AbortSignal.timeout(ANSWER_WITHIN_MS) });
      if (answer.status !== 401 && answer.status !== 403) return void 0;
      const { error, detail } = await answer.json().catch(() => ({}));
      const why = detail ?? `the server answered HTTP ${answer.status}`;
      return new AccessDenied(
        error ?? (answer.status === 401 ? "UNAUTHENTICATED" : "PERMISSION_DENIED"),
        this.#shown ? why : `${why}; pass a key or token as the option "token" of connect`,
        answer.status
      );
    } catch {
      return void 0;
    }
  }
  async #fetched() {
    const text = typeof this.#token === "function" ? await patiently(this.#token) : this.#token ?? "";
    const token = text.trim();
    if (token && !SENDABLE.test(token)) throw new AccessDenied("UNAUTHENTICATED", "the key or token has a space or a letter that none has");
    return token;
  }
};
async function patiently(fetchToken) {
  let timer;
  const late = new Promise((_, fail) => {
    timer = setTimeout(() => fail(new Error(`it took more than ${FETCH_WITHIN_MS / 1e3} s`)), FETCH_WITHIN_MS);
  });
  try {
    const token = await Promise.race([fetchToken(), late]);
    if (typeof token !== "string") throw new TypeError(`it returned ${typeof token}, not a string`);
    return token;
  } catch (error) {
    throw error instanceof AccessDenied ? error : new TokenNotFetched(error);
  } finally {
    clearTimeout(timer);
  }
}
function sessionUrl(text) {
  try {
    const url = new URL(/^[a-z]+:\/\//i.test(text) ? text : `ws://${text}`);
    if (url.protocol === "http:") url.protocol = "ws:";
    if (url.protocol === "https:") url.protocol = "wss:";
    if (url.protocol !== "ws:" && url.protocol !== "wss:") throw new TypeError("not ws, wss, http or https");
    url.hash = "";
    if (!url.pathname.endsWith("/ws/session")) url.pathname = `${url.pathname.replace(/\/$/, "")}/ws/session`;
    return url;
  } catch {
    throw new LinguaError("BAD_ADDRESS", `"${text}" is not an address such as ws://localhost:5010`);
  }
}
function askUrl(url) {
  const ask = new URL(url);
  ask.protocol = url.protocol === "wss:" ? "https:" : "http:";
  ask.pathname = url.pathname.replace(/ws\/session$/, "v1/whoami");
  return ask;
}

// src/heartbeat.ts
var BEAT_MS = 2e3;
var ANSWER_WITHIN_MS2 = 5e3;
var IDLE_BEATS = 10;
var Heartbeat = class {
  #on;
  #timer;
  #beats = 0;
  #silentSince = 0;
  constructor(on) {
    this.#on = on;
    this.#timer = setInterval(() => this.#beat(), BEAT_MS);
  }
  /** The other end was asked for a sign and has not given one. */
  get isAwaited() {
    return this.#silentSince > 0;
  }
  /** Something came. */
  sign() {
    this.#silentSince = 0;
  }
  stop() {
    clearInterval(this.#timer);
  }
  #beat() {
    this.#beats += 1;
    const isWaiting = this.#on.look();
    if (isWaiting === null) {
      this.#silentSince = 0;
      return;
    }
    const now = performance.now();
    if (this.#silentSince && now - this.#silentSince > ANSWER_WITHIN_MS2) {
      this.#silentSince = 0;
      this.#on.dead();
    } else if (isWaiting || this.#beats % IDLE_BEATS === 0) {
      this.#silentSince ||= now;
      this.#on.ask();
    }
  }
};

// src/retries.ts
var FIRST_MS = 200;
var LAST_MS = 4e3;
var Retries = class {
  #ms = FIRST_MS;
  #go = () => {
  };
  /** A try has succeeded. */
  reset() {
    this.#ms = FIRST_MS;
  }
  /** Full jitter, so that many clients do not come back all at once. */
  async pause() {
    const waitMs = Math.random() * this.#ms;
    this.#ms = Math.min(this.#ms * 2, LAST_MS);
    await new Promise((go) => {
      const timer = setTimeout(go, waitMs);
      this.#go = () => {
        clearTimeout(timer);
        go();
      };
    });
  }
  /** Ends the present pause. */
  hurry() {
    this.#go();
  }
};

// src/renewal.ts
var AHEAD_MS = 6e4;
var PART = 0.75;
var MIN_PAUSE_MS = 5e3;
var WRONG_CLOCK_MS = 3e4;
var MAX_TIMER_MS = 2 ** 31 - 1;
var Renewal = class {
  #fetch;
  #send;
  #timer;
  #isStopped = false;
  /** `fetch` returns "" if there is no newer token. */
  constructor(fetch2, send) {
    this.#fetch = fetch2;
    this.#send = send;
  }
  /** `atMs`: when the present token does; 0 = never. */
  expires(atMs) {
    clearTimeout(this.#timer);
    if (!atMs || this.#isStopped) return;
    this.#timer = setTimeout(() => void this.#renew(atMs), Math.min(pauseMs(atMs - Date.now()), MAX_TIMER_MS));
  }
  stop() {
    this.#isStopped = true;
    clearTimeout(this.#timer);
  }
  async #renew(atMs) {
    const token = await this.#fetch().catch(() => "");
    if (this.#isStopped) return;
    if (token) this.#send({ type: "token_refresh", token });
    this.expires(atMs);
  }
};
function pauseMs(leftMs) {
  if (leftMs <= 0) return WRONG_CLOCK_MS;
  return Math.max(MIN_PAUSE_MS, leftMs - AHEAD_MS, leftMs * PART);
}

// src/socket.ts
var OPEN = 1;
var ACK_WITHIN_MS = 1e4;
var SessionSocket = class {
  #socket;
  #on;
  #patience;
  #renewal;
  #wasMet = false;
  #wasOpen = false;
  #end = () => {
  };
  ended = new Promise((done) => this.#end = done);
  /** `newerToken`: if the one in the protocols expires. */
  constructor(socket, on, newerToken) {
    this.#socket = socket;
    this.#on = on;
    this.#renewal = newerToken && new Renewal(newerToken, (message) => this.post(message));
    this.#patience = setTimeout(() => this.hangUp(), ACK_WITHIN_MS);
    socket.onopen = () => {
      this.#wasMet = true;
      this.post({ ...on.greet(), ...newerToken ? { refreshes_token: true } : {} });
    };
    socket.onclose = ({ code }) => this.#over(code);
    socket.onerror = () => {
    };
    socket.onmessage = ({ data }) => this.#took(data);
  }
  /** Whether something that is sent now may arrive. */
  get isOpen() {
    return this.#wasOpen && this.#socket.readyState === OPEN;
  }
  get bufferedAmount() {
    return this.#socket.bufferedAmount;
  }
  /** Into a broken connection nothing is sent; what matters is sent again after it came back. */
  post(message) {
    this.send(JSON.stringify(message));
  }
  send(frame) {
    if (this.#socket.readyState === OPEN) this.#socket.send(frame);
  }
  hangUp(isDead = false) {
    if (isDead && this.#socket.terminate) this.#socket.terminate();
    else this.#socket.close();
    this.#over(0);
  }
  #over(closeCode) {
    clearTimeout(this.#patience);
    this.#renewal?.stop();
    this.#socket.onclose = this.#socket.onmessage = this.#socket.onopen = null;
    this.#end({ wasMet: this.#wasMet, wasOpen: this.#wasOpen, closeCode });
  }
  #took(text) {
    this.#on.sign();
    const message = readable(text);
    if (!message) return;
    if (message.type === "session_init_ack") {
      clearTimeout(this.#patience);
      this.#wasOpen = true;
      this.#renewal?.expires(message.expires_at_ms ?? 0);
      this.#on.opened(message);
    } else if (message.type === "token_refreshed") {
      this.#renewal?.expires(message.expires_at_ms);
    } else if (this.#wasOpen) {
      this.#on.heard(message);
    } else if (message.type === "error") {
      this.#on.refused(message);
      this.hangUp();
    }
  }
};
function readable(text) {
  try {
    const message = typeof text === "string" ? JSON.parse(text) : null;
    return typeof message === "object" && message !== null && "type" in message ? message : null;
  } catch {
    return null;
  }
}

// src/link.ts
var EXPIRED = 4005;
var GIVE_UP_AFTER_MS = 3e5;
var NOT_AGAIN = /* @__PURE__ */ new Set(["INVALID_MESSAGE", "UNSUPPORTED_FEATURE", "INVALID_PAIRING_CODE", "PERMISSION_DENIED"]);
var FIRST_TRIES = 3;
var NEVER_MET = { wasMet: false, wasOpen: false, closeCode: 0 };
var Link = class {
  #urls;
  #access;
  #class;
  #giveUpAfterMs;
  #openUntil;
  #on;
  #heartbeat;
  #retries = new Retries();
  #socket = null;
  #sessionId = "";
  #refused = null;
  #refusals = 0;
  #tries = 0;
  #isOver = false;
  /** Throws LinguaError. */
  constructor({ url, token, webSocket, giveUpAfterMs, openWithinMs }, on) {
    this.#urls = (Array.isArray(url) ? url : [url]).map(sessionUrl);
    this.#access = new Access(token);
    this.#class = webSocket ?? globalThis.WebSocket;
    if (!this.#class) throw new LinguaError("NO_WEBSOCKET", "there is no global WebSocket here: pass webSocket, such as that of the package ws");
    this.#giveUpAfterMs = giveUpAfterMs ?? GIVE_UP_AFTER_MS;
    this.#openUntil = performance.now() + (openWithinMs ?? 0);
    this.#on = on;
    this.#heartbeat = new Heartbeat({
      look: () => this.isOpen ? on.isWaiting(!this.#heartbeat.isAwaited) : null,
      ask: () => this.post({ type: "client_heartbeat", session_id: this.#sessionId, timestamp: Date.now() }),
      dead: () => this.#socket?.hangUp(true)
    });
    void this.#stay();
  }
  get isOpen() {
    return this.#socket?.isOpen ?? false;
  }
  /** Into a broken connection nothing is sent, and the answer is false. */
  post(message) {
    if (!this.isOpen) return false;
    this.#socket?.post(message);
    return true;
  }
  /** The network is back, or the page is visible again. */
  hurry() {
    this.#retries.hurry();
  }
  /** Another connection follows. */
  hangUp() {
    this.#socket?.hangUp();
  }
  stop() {
    this.#isOver = true;
    this.#heartbeat.stop();
    this.#socket?.hangUp();
    this.#retries.hurry();
  }
  async #stay() {
    let openAt = performance.now();
    while (!this.#isOver) {
      let error;
      try {
        const end = await this.#meet();
        if (end.wasOpen) openAt = performance.now();
        error = await this.#reason(end);
      } catch (thrown) {
        error = this.#thrown(thrown);
      }
      if (this.#isOver) return;
      const isLate = performance.now() - openAt > this.#giveUpAfterMs && !this.#isPatient;
      if (isLate) error ??= new Unreachable("the connection was lost and could not be restored");
      if (error) return this.#on.failed(error);
      this.#on.away();
      await this.#on.mayReturn();
      await this.#retries.pause();
    }
  }
  /** The first connection may still be tried. */
  get #isPatient() {
    return this.#sessionId === "" && performance.now() < this.#openUntil;
  }
  get #url() {
    return this.#urls[this.#tries % this.#urls.length];
  }
  /** One socket, to its end. */
  async #meet() {
    const protocols = await this.#access.protocols();
    if (this.#isOver) return NEVER_MET;
    this.#refused = null;
    const newer = protocols.length && this.#access.canRefresh ? () => this.#access.newer() : void 0;
    const socket = new SessionSocket(
      new this.#class(this.#url.href, protocols),
      {
        greet: () => this.#on.greet(),
        sign: () => this.#heartbeat.sign(),
        opened: (ack) => this.#opened(socket, ack),
        heard: (message) => this.#on.heard(message),
        refused: (error) => this.#refused = error
      },
      newer
    );
    this.#socket = socket;
    const end = await socket.ended;
    this.#socket = null;
    return end;
  }
  #opened(socket, ack) {
    this.#sessionId = ack.session_id;
    this.#refusals = 0;
    this.#retries.reset();
    this.#on.opened(socket, ack);
  }
  /** Why no other connection is to be made; undefined if one is. */
  async #reason(end) {
    const dismissed = dismissal(end.closeCode);
    if (dismissed) return dismissed;
    if (end.closeCode === EXPIRED && !this.#access.canRefresh) {
      return new AccessDenied("TOKEN_EXPIRED", "the token has expired; pass a function that fetches another as token", EXPIRED);
    }
    if (end.wasOpen) return void 0;
    return end.wasMet ? this.#notOpened() : this.#notMet();
  }
  #notOpened() {
    const { code = "UNREACHABLE", message = "" } = this.#refused ?? {};
    const why = message || "it did not answer, or closed the connection";
    const error = new SessionFailed(code, `the scheduler did not open a session: ${why}`, message);
    if (NOT_AGAIN.has(code) && (this.#sessionId || this.#isPatient)) return error;
    return this.#otherAddress(this.#refused ? 1 : FIRST_TRIES, error);
  }
  async #notMet() {
    const url = this.#url;
    const refusal = await this.#access.refusal(url);
    if (refusal) {
      this.#refusals += 1;
      return this.#access.canRefresh && this.#refusals < 2 ? void 0 : refusal;
    }
    return this.#otherAddress(1, new Unreachable(`no scheduler answers at ${url.origin}`));
  }
  /** The first connection is tried so often at each address, later ones until it is given up. */
  #otherAddress(tries, error) {
    this.#tries += 1;
    return this.#sessionId || this.#isPatient || this.#tries < tries * this.#urls.length ? void 0 : error;
  }
  #thrown(thrown) {
    if (thrown instanceof TokenNotFetched && (this.#sessionId || this.#isPatient)) return void 0;
    if (thrown instanceof LinguaError) return thrown;
    return new SessionFailed("CLIENT_FAILED", `the client failed: ${String(thrown)}`, "", { cause: thrown });
  }
};

// src/spans.ts
var Spans = class {
  #spans = [];
  // The one of which the last chunk was sent.
  #current;
  get areAnswered() {
    return this.#spans.length === 0;
  }
  get unanswered() {
    return this.#spans;
  }
  /** Nothing is being said. */
  get areOver() {
    return this.#spans.every(({ end }) => end !== null);
  }
  add(seq, isFinal) {
    let span = this.#spans.at(-1);
    if (!span || span.end !== null) {
      span = { start: seq, end: null, open: /* @__PURE__ */ new Set(), isOver: false };
      this.#spans.push(span);
    }
    if (isFinal) span.end = seq;
  }
  sent(seq) {
    this.#current = this.#spans.find(({ start, end }) => start <= seq && (end === null || seq <= end));
  }
  /** The scheduler has ended an utterance. `isFinal`: after the final of what was sent last. */
  ended(index, isFinal) {
    if (!this.#current) return;
    if (!this.#spans.includes(this.#current)) this.#spans.push(this.#current);
    this.#current.open.add(index);
    if (isFinal) this.#current.isOver = true;
  }
  /** Nothing was made of what was sent since the last utterance ended: it was silence. */
  silent() {
    if (!this.#current) return;
    this.#current.isOver = true;
    this.#forget();
  }
  answered(index) {
    const span = this.#spans.find(({ open }) => open.has(index));
    if (span) span.open.delete(index);
    else if (this.#spans[0] && this.#spans[0].end !== null && this.#spans[0].open.size === 0) this.#spans[0].isOver = true;
    this.#forget();
  }
  /** Begins again, with nothing said. */
  clear() {
    this.#current = void 0;
    return this.#spans.splice(0);
  }
  #forget() {
    this.#spans = this.#spans.filter(({ isOver: isOver2, open }) => !isOver2 || open.size > 0);
  }
};

// src/outgoing.ts
var MAX_BYTES = 4e6;
var MAX_CHUNKS = 2e4;
var MAX_UNANSWERED = 64;
var MAX_UNANSWERED_CHARS = 12e6;
var STALE_MS = 6e4;
var Outgoing = class {
  #chunks = [];
  #bytes = 0;
  #unsentBytes = 0;
  #nextSeq = 0;
  #sendFrom = 0;
  #utterances = /* @__PURE__ */ new Map();
  #utteranceChars = 0;
  // The numbers of utterances that are not sent yet.
  #unsent = [];
  spans = new Spans();
  /** No more chunks can be kept without forgetting some that were not sent. */
  get isFull() {
    return this.#unsentBytes >= MAX_BYTES || this.#nextSeq - this.#sendFrom >= MAX_CHUNKS;
  }
  get nextSeq() {
    return this.#nextSeq;
  }
  get unsentBytes() {
    return this.#unsentBytes;
  }
  get hasManyUnanswered() {
    return this.#utterances.size >= MAX_UNANSWERED || this.#utteranceChars >= MAX_UNANSWERED_CHARS;
  }
  get hasUnsentChunks() {
    return this.#sendFrom < this.#nextSeq;
  }
  get isAnswered() {
    return this.#utterances.size === 0 && this.spans.areAnswered;
  }
  /** Nothing is being said, and nothing waits to be sent. */
  get isIdle() {
    return !this.hasUnsentChunks && this.#utterances.size === 0 && this.spans.areOver;
  }
  /** The lowest number of an utterance without an outcome. */
  get firstUnanswered() {
    return Math.min(Infinity, ...this.#utterances.keys());
  }
  add(audio, isFinal, at = Date.now()) {
    const chunk = { seq: this.#nextSeq++, audio, isFinal, at };
    this.spans.add(chunk.seq, isFinal);
    this.#chunks.push(chunk);
    this.#bytes += audio.length;
    this.#unsentBytes += audio.length;
    while (this.#bytes > MAX_BYTES || this.#chunks.length > MAX_CHUNKS) {
      if (this.#chunks[0].seq >= this.#sendFrom) break;
      this.#bytes -= this.#chunks.shift().audio.length;
    }
  }
  addUtterance(message) {
    this.#utterances.set(message.utterance_index, message);
    this.#utteranceChars += message.audio.length;
    this.#unsent.push(message.utterance_index);
  }
  /** The next chunk to send, or undefined; it counts as sent. */
  takeChunk() {
    const first = this.#chunks[0]?.seq ?? this.#nextSeq;
    const chunk = this.#chunks[Math.max(this.#sendFrom, first) - first];
    if (!chunk) return void 0;
    this.#sendFrom = chunk.seq + 1;
    this.#unsentBytes -= chunk.audio.length;
    this.spans.sent(chunk.seq);
    return chunk;
  }
  /** The next whole utterance to send, or undefined; it counts as sent. */
  takeUtterance() {
    const index = this.#unsent.shift();
    return index === void 0 ? void 0 : this.#utterances.get(index);
  }
  answered(index) {
    const message = this.#utterances.get(index);
    if (!message) {
      this.spans.answered(index);
      return;
    }
    this.#utterances.delete(index);
    this.#utteranceChars -= message.audio.length;
    this.#unsent = this.#unsent.filter((other) => other !== index);
  }
  /** The session goes on, and this is the first chunk it does not have. Whole utterances are recognised if they come again. */
  resumed(nextSeq) {
    this.#sendFrom = Math.min(nextSeq, this.#nextSeq);
    const unsent = this.#chunks.filter(({ seq }) => seq >= this.#sendFrom);
    this.#unsentBytes = unsent.reduce((sum, { audio }) => sum + audio.length, 0);
    this.#unsent = [...this.#utterances.keys()];
  }
  /** The session is gone, and another one begins: what has no outcome is said again, under numbers that are higher than any index.
   * Returns how many stretches of speech were too old for that. */
  restarted(nextIndex) {
    const since = Date.now() - STALE_MS;
    const kept = new Map(this.#chunks.map((chunk) => [chunk.seq, chunk]));
    const last = this.#nextSeq - 1;
    let lost = 0;
    this.#chunks = [];
    this.#bytes = this.#unsentBytes = 0;
    this.#nextSeq = this.#sendFrom = Math.max(this.#nextSeq, nextIndex);
    for (const { start, end } of this.spans.clear()) {
      const at = kept.get(end ?? last)?.at ?? 0;
      if (!kept.has(start) || at < since) {
        lost += 1;
        continue;
      }
      for (let seq = start; seq <= (end ?? last); seq++) {
        const chunk = kept.get(seq);
        this.add(chunk.audio, chunk.isFinal, chunk.at);
      }
    }
    this.#unsent = [...this.#utterances.keys()];
    return lost;
  }
};

// src/received.ts
var MAX_AHEAD = 512;
var Received = class {
  #next;
  #ahead = /* @__PURE__ */ new Set();
  /** `first`: no number is lower. */
  constructor(first = 0) {
    this.#next = first;
  }
  /** Everything up to this number has arrived. */
  get last() {
    return this.#next - 1;
  }
  /** For the session that goes on after a break. */
  greeting() {
    return this.last < 0 ? {} : { last_utterance_index: this.last };
  }
  has(number) {
    return number < this.#next || this.#ahead.has(number);
  }
  /** False when it has arrived before. */
  add(number) {
    if (this.has(number)) return false;
    this.#ahead.add(number);
    this.#advance();
    if (this.#ahead.size > MAX_AHEAD) {
      this.#next = Math.min(...this.#ahead);
      this.#advance();
    }
    return true;
  }
  #advance() {
    while (this.#ahead.delete(this.#next)) this.#next += 1;
  }
};

// src/results.ts
function resultOf(message) {
  const shared = { index: message.utterance_index, isLate: Boolean(message.late) };
  if (message.type === "missing_result") {
    const { reason, code, detail } = message;
    return { kind: "gap", ...shared, reason, code: code ?? "", detail: detail ?? "", message };
  }
  return {
    kind: "translation",
    ...shared,
    text: message.text_asr,
    translated: message.text_translated,
    speech: fromBase64(message.tts_audio),
    speechFormat: message.tts_format,
    message
  };
}
function partialOf(message) {
  return { kind: "partial", index: message.utterance_index, text: message.text };
}
function progressOf(message) {
  return {
    kind: "progress",
    index: message.utterance_index,
    step: message.event,
    isError: message.status === "error",
    code: message.error_code ?? "",
    detail: message.hint ?? ""
  };
}

// src/sender.ts
var MAX_PAUSE_MS = 1e4;
var MAX_BUFFERED_BYTES = 1 << 20;
var LOOK_AGAIN_MS = 100;
var APART_MS = 1e3;
var Sender = class {
  #outgoing;
  #on;
  #line = null;
  // Since the last final; 0 once it is known that its utterance has ended.
  #apartUntil = 0;
  #lastSentAt = 0;
  #mayBeSilence = false;
  #pausedUntil = 0;
  #timer;
  constructor(outgoing, on) {
    this.#outgoing = outgoing;
    this.#on = on;
  }
  get isPaused() {
    return this.#pausedUntil > performance.now();
  }
  /** For how long no speech was sent. */
  get idleMs() {
    return performance.now() - this.#lastSentAt;
  }
  /** Null: there is no connection. */
  use(line) {
    this.#line = line;
    this.#mayBeSilence = false;
  }
  /** Another session begins: it has heard nothing yet. */
  begin() {
    this.#apartUntil = 0;
  }
  pauseFor(ms) {
    const pauseMs2 = Math.max(0, Math.min(ms, MAX_PAUSE_MS));
    this.#pausedUntil = performance.now() + pauseMs2;
    this.#pumpLater(pauseMs2 + 10);
  }
  /** The scheduler has ended an utterance: if it was that of the last final, the next one need not wait. */
  inputEnded(index) {
    this.#outgoing.spans.ended(index, this.#apartUntil > 0);
    if (!this.#apartUntil) return;
    this.#apartUntil = 0;
    this.pump();
  }
  pump() {
    const line = this.#line;
    if (!line || this.isPaused) return;
    while (line.socket.bufferedAmount < MAX_BUFFERED_BYTES) {
      if (this.#sendUtterance(line)) continue;
      const waitMs = this.#apartMs();
      if (waitMs > 0) {
        this.#pumpLater(waitMs);
        return;
      }
      if (!this.#sendChunk(line)) {
        this.#on.allSent();
        return;
      }
    }
    this.#pumpLater(LOOK_AGAIN_MS);
  }
  close() {
    clearTimeout(this.#timer);
    this.#line = null;
  }
  /** How long the next chunk waits after a final. */
  #apartMs() {
    if (!this.#apartUntil || !this.#outgoing.hasUnsentChunks) return 0;
    const waitMs = this.#apartUntil - performance.now();
    if (waitMs > 0) return waitMs;
    this.#apartUntil = 0;
    if (this.#mayBeSilence) this.#outgoing.spans.silent();
    return 0;
  }
  #sendUtterance(line) {
    const message = this.#outgoing.takeUtterance();
    if (!message) return false;
    this.#lastSentAt = performance.now();
    line.socket.post({ ...message, session_id: line.sessionId });
    return true;
  }
  #sendChunk({ socket, sessionId, isBinary }) {
    const chunk = this.#outgoing.takeChunk();
    if (!chunk) return false;
    this.#mayBeSilence = true;
    this.#lastSentAt = performance.now();
    if (chunk.isFinal) this.#apartUntil = performance.now() + APART_MS;
    socket.send((isBinary ? binaryChunk : textChunk)(sessionId, chunk));
    return true;
  }
  #pumpLater(ms) {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => {
      if (this.#line) this.#on.resumed();
      this.pump();
    }, ms);
  }
};

// src/turns.ts
var MAX_WAITING = 1e3;
var Turns = class {
  #last = Promise.resolve();
  #waiting = 0;
  get areWaiting() {
    return this.#waiting > 0;
  }
  /** Acts after the calls before it, and when it may. Throws BufferFull, and what those throw. */
  async take(mayAct, act) {
    if (this.#waiting >= MAX_WAITING) throw new BufferFull(`${MAX_WAITING} calls wait until the scheduler takes more; await each of them`);
    this.#waiting += 1;
    const before = this.#last;
    let done = () => {
    };
    this.#last = new Promise((resolve) => done = resolve);
    try {
      await before;
      await mayAct();
      return act();
    } finally {
      this.#waiting -= 1;
      done();
    }
  }
};

// src/session.ts
var MAX_UNREAD = 1e3;
var OVERLOADED_PAUSE_MS = 1e3;
var MAX_LIVE_BYTES = 96e4;
var COME_BACK = /* @__PURE__ */ new Set(["NODE_OVERLOADED", "INVALID_SESSION", "SESSION_CLOSED"]);
var Session = class {
  #init;
  #link;
  #events = new Emitter();
  #inbox = new Inbox(MAX_UNREAD);
  #outgoing = new Outgoing();
  #sender;
  #changed = new Signal();
  #received = new Received();
  #extension = null;
  #nextIndex = 0;
  #announced = new Announced();
  #turns = new Turns();
  #isIterated = false;
  #isFinishing = false;
  // Whether this connection was told so.
  #isCloseSent = false;
  #failure = null;
  #state = "connecting";
  #sessionId = "";
  /** Why no connected node serves these languages, when the session was opened; empty if one does. */
  unserved = "";
  timesResumed = 0;
  /** Use `connect`, which waits until it is open. */
  constructor(options) {
    this.#init = initOf(options);
    this.#sender = new Sender(this.#outgoing, { resumed: () => this.#setState("open"), allSent: () => this.#allSent() });
    this.#link = new Link(options, {
      greet: () => ({ ...this.#init, ...this.#init.resume_token ? this.#received.greeting() : {}, ...this.#extension?.greeting() }),
      opened: (socket, ack) => this.#opened(socket, ack),
      heard: (message) => this.#heard(message),
      away: () => this.#away(),
      mayReturn: () => this.#inbox.hasRoom(),
      isWaiting: (isAlive) => this.#isWaiting(isAlive),
      failed: (error) => this.#end(error)
    });
  }
  get sessionId() {
    return this.#sessionId;
  }
  get state() {
    return this.#state;
  }
  /** Calls a function at each event; returns a function that ends that. */
  on(name, listener) {
    return this.#events.on(name, listener);
  }
  /** Until it is acknowledged. Throws why it was not. */
  async opened() {
    await this.#changed.until(() => this.#sessionId !== "" || this.#state === "ended");
    if (this.#failure) throw this.#failure;
    return this;
  }
  /** A stretch of audio, PCM16 or framed Opus, 16 kHz mono; about 200 ms at a time is good. `isFinal`: a sentence ends.
   * Waits while the scheduler asks for a pause, and while two minutes wait to be sent. Throws LinguaError. */
  send(audio, isFinal = false) {
    const bytes = bytesOf(audio);
    return this.#inTurn(() => this.#add(bytes, isFinal), () => !this.#outgoing.isFull);
  }
  /** Live speech, which cannot wait: false if it is not taken, because half a minute or a call of `send` waits already. A final
   * is taken all the same. */
  trySend(audio, isFinal = false) {
    const isFull = this.#turns.areWaiting || this.#outgoing.unsentBytes >= MAX_LIVE_BYTES;
    if (this.#isClosed || isFull && !isFinal) return false;
    this.#add(bytesOf(audio), isFinal);
    this.#sender.pump();
    return true;
  }
  /** The person has finished a sentence. */
  final() {
    return this.send(new Uint8Array(), true);
  }
  /** Sends chunks as they come, then a final; an empty one says that a sentence has ended. */
  async stream(chunks) {
    for await (const chunk of chunks) await this.send(chunk, chunk.byteLength === 0);
    await this.final();
  }
  /** A whole utterance at once; its number is returned. Waits while too many others have no outcome yet. */
  utterance(audio, options = {}) {
    const bytes = bytesOf(audio);
    const say = () => {
      const index = this.#nextIndex++;
      this.#announced.isUnsettled = true;
      this.#outgoing.addUtterance(utteranceOf(this.#init, index, bytes, options));
      return index;
    };
    return this.#inTurn(say, () => !this.#outgoing.hasManyUnanswered);
  }
  /** Nothing more will be said: iteration ends when everything has its outcome. */
  finish() {
    return this.#inTurn(() => void (this.#isFinishing = true), () => true);
  }
  /** Ends the session now; what has no outcome yet will have none. */
  close() {
    this.#end(null);
  }
  /** Tells the scheduler that a translation begins to be played, or has ended: its groups depend on it. */
  playback(type, result) {
    this.post(playbackOf(type, this.#sessionId, result));
  }
  /** The network is back, or the page is visible again: a lost connection is tried at once. */
  hurry() {
    this.#link.hurry();
  }
  /** For extensions: into a broken connection nothing is sent, and the answer is false. */
  post(message) {
    return this.#link.post(message);
  }
  /** Of the session that begins if this one is lost: one that goes on keeps what it was opened with. */
  wish(init) {
    Object.assign(this.#init, init);
  }
  /** Another one takes the place of the former. */
  use(extension) {
    this.#extension = extension;
  }
  [Symbol.asyncIterator]() {
    this.#isIterated = true;
    return this.#inbox;
  }
  /** Calls take effect in their order, each when there is room. */
  #inTurn(act, hasRoom) {
    const mayAct = () => this.#changed.until(() => this.#isClosed || !this.#sender.isPaused && hasRoom());
    return this.#turns.take(mayAct, () => {
      if (this.#isClosed) throw this.#failure ?? new SessionFailed("SESSION_CLOSED", "the session has ended; open another one");
      const value = act();
      this.#sender.pump();
      return value;
    });
  }
  #add(audio, isFinal) {
    this.#announced.isUnsettled = true;
    this.#outgoing.add(audio, isFinal);
  }
  get #isClosed() {
    return this.#isFinishing || this.#state === "ended";
  }
  #allSent() {
    this.#changed.tell();
    if (!this.#isFinishing || this.#isCloseSent) return;
    this.#isCloseSent = true;
    this.post({ type: "session_close", session_id: this.#sessionId, reason: "done" });
  }
  #opened(socket, ack) {
    const isSecond = this.#sessionId !== "";
    this.#sessionId = ack.session_id;
    this.#init.resume_token = ack.resume_token ?? null;
    this.#isCloseSent = false;
    this.unserved = ack.unserved ?? "";
    if (ack.resumed) this.#resumed(ack.next_seq ?? 0, ack.next_utterance_index ?? 0);
    else if (isSecond && this.#restarted()) return;
    this.#sender.use({ socket, sessionId: ack.session_id, isBinary: ack.use_binary_frame });
    this.#extension?.opened(Boolean(ack.resumed));
    this.#setState("open");
    this.#sender.pump();
  }
  #resumed(nextSeq, nextIndex) {
    this.timesResumed += 1;
    this.#outgoing.resumed(nextSeq);
    this.#nextIndex = Math.max(this.#nextIndex, nextIndex);
    this.#announced.resumed(nextIndex, (index) => this.#received.has(index));
    this.#events.emit("resumed", { nextSeq, nextIndex });
  }
  /** Whether there was nothing more to be said: the session had ended, and its last word was lost. */
  #restarted() {
    if (this.#isFinishing && this.#outgoing.isAnswered) {
      this.#end(null);
      return true;
    }
    this.#sender.begin();
    this.#announced.restarted(Math.max(this.#outgoing.nextSeq, this.#nextIndex));
    const lost = this.#outgoing.restarted(this.#nextIndex);
    this.#received = new Received(Math.min(this.#outgoing.firstUnanswered, this.#nextIndex));
    this.#events.emit("restarted", { lost });
    return false;
  }
  #away() {
    this.#sender.use(null);
    this.#setState(this.#sessionId ? "away" : "connecting");
  }
  #setState(state) {
    const isNew = this.#state !== state && this.#state !== "ended";
    if (isNew) this.#state = state;
    this.#changed.tell();
    if (isNew) this.#events.emit("state", state);
  }
  #end(error) {
    if (this.#state === "ended") return;
    this.#failure = error;
    this.#sender.close();
    this.#setState("ended");
    this.#link.stop();
    this.#extension?.over(error);
    this.#inbox.end(error);
    this.#events.emit("ended", error);
  }
  #heard(message) {
    if (this.#extension?.take(message)) return;
    switch (message.type) {
      case "translation_result":
      case "missing_result":
        return this.#gotOutcome(message);
      case "asr_partial":
        return this.#tell("partial", partialOf(message));
      case "ui_event":
        return this.#gotOn(message);
      case "backpressure":
        return this.#pauseFor(message.resume_after_ms);
      case "session_close_ack":
        return this.#end(null);
      case "error":
        return this.#complained(message);
    }
  }
  #gotOutcome(message) {
    const isOwn = message.session_id === this.#sessionId;
    const index = message.utterance_index;
    if (isOwn) {
      if (this.#received.has(index)) return;
      if (this.#inbox.isFull) return this.#link.hangUp();
      this.#received.add(index);
      this.#announced.answered(index);
      this.#nextIndex = Math.max(this.#nextIndex, index + 1);
      this.#outgoing.answered(index);
      this.#changed.tell();
    }
    if (!this.#extension?.outcome(message, isOwn) && isOwn) this.#tell("result", resultOf(message));
  }
  /** To listeners, and to one that iterates or may do so later. */
  #tell(name, heard) {
    const isWanted = this.#isIterated || !this.#events.has("result");
    if (isWanted && !(heard.kind === "partial" && this.#inbox.isFull)) this.#inbox.add(heard);
    this.#events.emit(name, heard);
  }
  #gotOn(message) {
    const index = message.utterance_index;
    this.#nextIndex = Math.max(this.#nextIndex, index + 1);
    if (!this.#received.has(index)) {
      this.#announced.add(index);
      if (message.event === "INPUT_ENDED") this.#sender.inputEnded(index);
    }
    this.#events.emit("progress", progressOf(message));
  }
  /** Whether an answer is expected. Until all is settled one may be, of speech that is not announced yet. */
  #isWaiting(isAlive) {
    const isIdle = isAlive && !this.#sender.isPaused && this.#outgoing.isIdle;
    if (isIdle && this.#announced.isUnsettled && this.#announced.areAllIn(this.#sender.idleMs)) {
      this.#announced.isUnsettled = false;
      this.#outgoing.spans.clear();
      this.#events.emit("settled", null);
    }
    return this.#announced.isUnsettled || this.#isFinishing;
  }
  #pauseFor(ms) {
    this.#sender.pauseFor(ms);
    this.#setState("paused");
  }
  #complained({ code, message }) {
    if (!COME_BACK.has(code)) return this.#end(new SessionFailed(code, message, message));
    if (code === "NODE_OVERLOADED") this.#pauseFor(OVERLOADED_PAUSE_MS);
    this.#link.hangUp();
  }
};

// src/index.ts
function connect(options) {
  return new Session(options).opened();
}

// src/resampler.ts
var RATE = 16e3;
var LOBES = 24;
var PASS = 0.9;
var KAISER_BETA = 8;
var MAX_PHASES = 4096;
function bessel(x) {
  let sum = 1;
  for (let term = 1, k = 1; term > 1e-12 * sum; k++) {
    term *= (x / (2 * k)) ** 2;
    sum += term;
  }
  return sum;
}
function divisor(a, b) {
  return b === 0 ? a : divisor(b, a % b);
}
var Resampler = class {
  #step;
  #phases;
  #half;
  #taps;
  #input;
  #filled = 0;
  #at = 0;
  // of the next output sample, in input samples × phases
  constructor(inputRate) {
    const common = divisor(inputRate, RATE);
    this.#phases = Math.min(RATE / common, MAX_PHASES);
    this.#step = inputRate / RATE * this.#phases;
    const cutoff = PASS * Math.min(inputRate, RATE) / inputRate;
    this.#half = Math.ceil(LOBES / cutoff);
    this.#taps = Array.from({ length: this.#phases }, (_, phase) => this.#design(phase / this.#phases, cutoff));
    this.#input = new Float32Array(Math.max(inputRate, 4 * this.#half));
    this.reset();
  }
  reset() {
    this.#input.fill(0);
    this.#filled = this.#half;
    this.#at = this.#half * this.#phases;
  }
  /** At most a second less half a filter at once. `emit` gets every sample at 16 kHz. */
  push(samples, emit) {
    this.#input.set(samples, this.#filled);
    this.#filled += samples.length;
    while (true) {
      const whole = Math.floor(this.#at / this.#phases);
      if (whole + this.#half >= this.#filled) break;
      const taps = this.#taps[Math.floor(this.#at - whole * this.#phases)];
      const first = whole - this.#half + 1;
      let sum = 0;
      for (let i = 0; i < taps.length; i++) sum += taps[i] * this.#input[first + i];
      emit(sum);
      this.#at += this.#step;
    }
    const done = Math.floor(this.#at / this.#phases) - this.#half;
    this.#input.copyWithin(0, done, this.#filled);
    this.#filled -= done;
    this.#at -= done * this.#phases;
  }
  /** What is still inside comes out with half a filter of silence. */
  flush(emit) {
    this.push(new Float32Array(this.#half), emit);
    this.reset();
  }
  #design(fraction, cutoff) {
    const taps = new Float32Array(2 * this.#half);
    let sum = 0;
    for (let i = 0; i < taps.length; i++) {
      const distance = i - this.#half + 1 - fraction;
      const place = distance / this.#half;
      const angle = Math.PI * cutoff * distance;
      const window = Math.abs(place) >= 1 ? 0 : bessel(KAISER_BETA * Math.sqrt(1 - place * place)) / bessel(KAISER_BETA);
      taps[i] = (angle === 0 ? 1 : Math.sin(angle) / angle) * window;
      sum += taps[i];
    }
    return taps.map((tap) => tap / sum);
  }
};
function pcm(sample) {
  return Math.round(Math.max(-1, Math.min(1, sample)) * 32767);
}

// src/files.ts
var FRAME_SAMPLES = RATE / 50;
var PAUSE_FRAMES = 40;
var AROUND_FRAMES = 15;
var MAX_FRAMES = 20 * 50;
var MIN_FRAMES = MAX_FRAMES / 2;
var MOMENTS = 25;
var TIMES_THE_QUIETEST = 3;
var SURELY_SILENT = 0.02;
var SURELY_HEARD = 0.1;
var PCM_FORMAT = 1;
var FLOAT_FORMAT = 3;
var EXTENSIBLE = 65534;
var CannotRead = class extends LinguaError {
  constructor(message) {
    super("CANNOT_READ", message);
  }
};
async function sendFile(session, file, options = {}) {
  const indexes = [];
  for (const sentence of sentences(readWav(await bytesIn(file)))) indexes.push(await session.utterance(sentence, options));
  return indexes;
}
async function bytesIn(file) {
  if (file instanceof Uint8Array) return file;
  return new Uint8Array(file instanceof ArrayBuffer ? file : await file.arrayBuffer());
}
function readWav(bytes) {
  const { format, view } = chunksOf(bytes);
  const channels = format.getUint16(2, true);
  const rate = format.getUint32(4, true);
  const read = reader(format, view);
  const size = format.getUint16(14, true) / 8 * channels;
  if (!channels || !rate || !size) throw new CannotRead("the header of the WAV file is broken");
  const mono = new Float32Array(Math.floor(view.byteLength / size));
  for (let i = 0; i < mono.length; i++) {
    let sum = 0;
    for (let channel = 0; channel < channels; channel++) sum += read(i * size + channel * size / channels);
    mono[i] = sum / channels;
  }
  return resampled(mono, rate);
}
function reader(format, view) {
  const tag = format.getUint16(0, true);
  const kind = tag === EXTENSIBLE && format.byteLength >= 26 ? format.getUint16(24, true) : tag;
  const bits = format.getUint16(14, true);
  if (kind === PCM_FORMAT && bits === 16) return (at) => view.getInt16(at, true) / 32768;
  if (kind === FLOAT_FORMAT && bits === 32) return (at) => view.getFloat32(at, true);
  throw new CannotRead(`only WAV files with 16-bit or 32-bit float samples can be read, not format ${kind} with ${bits} bits`);
}
function chunksOf(bytes) {
  const all = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const name = (at) => String.fromCharCode(...bytes.subarray(at, at + 4));
  if (bytes.length < 12 || name(0) !== "RIFF" || name(8) !== "WAVE") throw new CannotRead("this is not a WAV file");
  let format;
  for (let at = 12; at + 8 <= bytes.length; ) {
    const size = Math.min(all.getUint32(at + 4, true), bytes.length - at - 8);
    const chunk = new DataView(bytes.buffer, bytes.byteOffset + at + 8, size);
    if (name(at) === "fmt " && size >= 16) format = chunk;
    if (name(at) === "data" && format) return { format, view: chunk };
    at += 8 + size + size % 2;
  }
  throw new CannotRead("the WAV file has no sound");
}
function resampled(samples, rate) {
  if (rate === RATE) return Int16Array.from(samples, pcm);
  const resampler = new Resampler(rate);
  const result = new Int16Array(Math.ceil(samples.length * RATE / rate) + 1);
  let count = 0;
  const emit = (sample) => {
    if (count < result.length) result[count++] = pcm(sample);
  };
  const step = Math.max(1, Math.floor(rate / 10));
  for (let at = 0; at < samples.length; at += step) resampler.push(samples.subarray(at, at + step), emit);
  resampler.flush(emit);
  return result.subarray(0, count);
}
function* sentences(samples) {
  const levels = levelsOf(samples);
  for (const [start, end] of stretches(levels, silenceOf(levels))) {
    for (const [from, to] of pieces(levels, Math.max(0, start - AROUND_FRAMES), end + AROUND_FRAMES)) {
      yield samples.subarray(from * FRAME_SAMPLES, to * FRAME_SAMPLES);
    }
  }
}
function silenceOf(levels) {
  const ranked = levels.slice().sort();
  const skipped = Math.min(MOMENTS, Math.floor(ranked.length / 10));
  const quietest = ranked[skipped] ?? 0;
  const loudest = ranked[ranked.length - 1 - skipped] ?? 0;
  return Math.min(Math.max(quietest * TIMES_THE_QUIETEST, loudest * SURELY_SILENT), loudest * SURELY_HEARD);
}
function* stretches(levels, silentBelow) {
  let start = -1;
  let end = 0;
  for (let frame = 0; frame < levels.length; frame++) {
    if (levels[frame] < silentBelow) continue;
    if (start >= 0 && frame - end >= PAUSE_FRAMES) {
      yield [start, end];
      start = frame;
    }
    if (start < 0) start = frame;
    end = frame + 1;
  }
  if (start >= 0) yield [start, end];
}
function* pieces(levels, start, end) {
  let from = start;
  while (end - from > MAX_FRAMES) {
    let cut = from + MIN_FRAMES;
    for (let frame = cut; frame < from + MAX_FRAMES; frame++) if (levels[frame] < levels[cut]) cut = frame;
    yield [from, cut];
    from = cut;
  }
  yield [from, end];
}
function levelsOf(samples) {
  return Float64Array.from({ length: Math.ceil(samples.length / FRAME_SAMPLES) }, (_, frame) => {
    const part = samples.subarray(frame * FRAME_SAMPLES, (frame + 1) * FRAME_SAMPLES);
    return Math.sqrt(part.reduce((sum, sample) => sum + sample * sample, 0) / part.length);
  });
}

// src/gate.ts
var PAUSE_FRAMES2 = 8;
var LEAD_FRAMES = 3;
var QUIETEST = 8e-3;
var OVER_NOISE = 3;
var NOISE_RISES = 1.02;
var FRAME_MS = 100;
var Gate = class {
  #noise = QUIETEST;
  #lead = [];
  #quiet = 0;
  #isSpeech = false;
  get isSpeech() {
    return this.#isSpeech;
  }
  /** How long it has been quiet. */
  get quietMs() {
    return this.#quiet * FRAME_MS;
  }
  /** What of it is to be sent. */
  pass({ samples, level, isLast }) {
    const isLoud = level > Math.max(QUIETEST, this.#noise * OVER_NOISE);
    this.#noise = level < this.#noise ? level : Math.min(this.#noise * NOISE_RISES + 1e-6, 0.1);
    this.#quiet = isLoud ? 0 : this.#quiet + 1;
    if (!this.#isSpeech) return this.#begin(samples, isLoud, isLast);
    const isFinal = isLast || this.#quiet >= PAUSE_FRAMES2;
    this.#isSpeech = !isFinal;
    return [{ samples, isFinal }];
  }
  #begin(samples, isLoud, isLast) {
    this.#lead.push(samples);
    if (this.#lead.length > LEAD_FRAMES) this.#lead.shift();
    if (!isLoud) return [];
    this.#isSpeech = !isLast;
    return this.#lead.splice(0).map((lead, i, all) => ({ samples: lead, isFinal: isLast && i === all.length - 1 }));
  }
};

// src/microphone.ts
var WISHES = { echoCancellation: true, noiseSuppression: true, autoGainControl: true, channelCount: 1 };
var REASONS = {
  NotAllowedError: "DENIED",
  SecurityError: "DENIED",
  NotFoundError: "NONE",
  OverconstrainedError: "NONE",
  NotReadableError: "TAKEN",
  AbortError: "TAKEN"
};
var NoMicrophone = class extends LinguaError {
};
function isMicrophonePossible() {
  return globalThis.isSecureContext && Boolean(navigator.mediaDevices?.getUserMedia);
}
function prepareMicrophone({ context, worklet }) {
  return context.audioWorklet.addModule(worklet ?? new URL("./sound.worklet.js", import.meta.url));
}
async function openMicrophone(options = {}) {
  if (!isMicrophonePossible()) throw new NoMicrophone("INSECURE", "a microphone needs https, or localhost");
  const stream = await listen(options.constraints);
  const context = options.context ?? new AudioContext();
  try {
    await prepareMicrophone({ ...options, context });
    const resumed = context.resume();
    if (!options.context) await resumed;
  } catch (cause) {
    stream.getTracks().forEach((track) => track.stop());
    throw new NoMicrophone("FAILED", "the audio worklet cannot be loaded; see the option worklet", { cause });
  }
  return new Microphone(context, stream, !options.context);
}
async function listen(constraints = {}) {
  try {
    return await navigator.mediaDevices.getUserMedia({ audio: { ...WISHES, ...constraints } });
  } catch (cause) {
    const code = REASONS[cause instanceof DOMException ? cause.name : ""] ?? "FAILED";
    throw new NoMicrophone(code, `there is no microphone: ${String(cause)}`, { cause });
  }
}
var Microphone = class {
  #context;
  stream;
  #isOwnContext;
  #source;
  #worklet;
  #isOn = false;
  // Who gets the frames; the last one of a stretch comes when the next may have begun.
  #takers = [];
  #onLost;
  /** Use `openMicrophone`. */
  constructor(context, stream, isOwnContext) {
    this.#context = context;
    this.stream = stream;
    this.#isOwnContext = isOwnContext;
    this.#worklet = new AudioWorkletNode(context, "lingua-capture", { numberOfOutputs: 0 });
    this.#worklet.port.onmessage = ({ data: frame }) => {
      this.#takers[0]?.(frame);
      if (frame.isLast) this.#takers.shift();
    };
    this.#source = context.createMediaStreamSource(stream);
    this.#source.connect(this.#worklet);
    for (const track of stream.getAudioTracks()) track.addEventListener("ended", () => this.#lost());
  }
  /** False once it was closed, unplugged or taken back by the person. */
  get isLive() {
    return this.stream.getAudioTracks().some((track) => track.readyState === "live");
  }
  get isOn() {
    return this.#isOn;
  }
  /** Sends what it hears to a session, until `stop`. */
  talk(session, { detect = "voice", onLevel, onError } = {}) {
    const gate = new Gate();
    const send = (samples, isFinal) => session.send(samples, isFinal).catch((error) => onError?.(error));
    this.start((frame) => {
      const passed = detect === "voice" ? gate.pass(frame) : [{ samples: frame.samples, isFinal: frame.isLast }];
      onLevel?.(frame.level, detect === "all" || gate.isSpeech);
      for (const { samples, isFinal } of passed) void send(samples, isFinal);
    }, onError);
  }
  /** Every 100 ms of sound; the last one comes soon after `stop`, or after it was unplugged, which `onLost` is told. */
  start(onFrame, onLost) {
    this.stop();
    this.#takers.push(onFrame);
    this.#onLost = onLost;
    this.#isOn = true;
    this.#worklet.port.postMessage("start");
  }
  stop() {
    if (this.#isOn) this.#worklet.port.postMessage("stop");
    this.#isOn = false;
  }
  #lost() {
    if (!this.#isOn) return;
    this.stop();
    this.#onLost?.(new NoMicrophone("NONE", "the microphone was unplugged, or is not allowed any more"));
  }
  /** Turns it off; the browser no longer shows that it is used. */
  async close() {
    this.stop();
    this.#source.disconnect();
    this.#worklet.port.postMessage("close");
    this.stream.getTracks().forEach((track) => track.stop());
    if (this.#isOwnContext) await this.#context.close();
  }
};
var KEEP_OPEN_MS = 3e4;
var KeptMicrophone = class {
  #options;
  #onStream;
  #microphone = null;
  #opening = null;
  #timer;
  /** `onStream` hears when it is opened, and when it is closed (null). */
  constructor(options, onStream = () => {
  }) {
    this.#options = options;
    this.#onStream = onStream;
    document.addEventListener("visibilitychange", () => document.hidden && !this.#microphone?.isOn && this.#closeSoon(0));
  }
  /** Asks the person the first time. Throws NoMicrophone. */
  async open() {
    clearTimeout(this.#timer);
    if (this.#microphone?.isLive) return;
    this.#close();
    this.#opening ??= this.#open();
    await this.#opening;
  }
  /** Every 100 ms of sound; the last one comes soon after `stop`. */
  start(onFrame, onLost) {
    clearTimeout(this.#timer);
    this.#microphone?.start(onFrame, onLost);
  }
  stop() {
    this.#microphone?.stop();
    this.#closeSoon(KEEP_OPEN_MS);
  }
  async #open() {
    try {
      this.#microphone = await openMicrophone(this.#options);
      this.#onStream(this.#microphone.stream);
      return this.#microphone;
    } finally {
      this.#opening = null;
    }
  }
  #closeSoon(ms) {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#close(), ms);
  }
  #close() {
    if (!this.#microphone) return;
    void this.#microphone.close();
    this.#microphone = null;
    this.#onStream(null);
  }
};

// src/speech.ts
var PCM_RATE = 16e3;
var OPUS_PACKET_SAMPLES = 960;
var CONTAINERS = ["RIFF", "OggS", "fLaC", "ID3"];
var MAX_BYTES2 = 18e6;
async function decode(bytes, format, context) {
  if (bytes.length > MAX_BYTES2) throw new RangeError("the speech is too long");
  if (CONTAINERS.some((name) => startsWith(bytes, name))) return context.decodeAudioData(bufferOf(bytes));
  const packets = format.startsWith("opus") ? opusPackets(bytes) : null;
  if (packets?.length) return context.decodeAudioData(bufferOf(ogg(packets)));
  if (format.startsWith("pcm") || format.startsWith("opus")) return pcm16(bytes, context);
  return context.decodeAudioData(bufferOf(bytes));
}
function bufferOf(bytes) {
  return bytes.slice().buffer;
}
function startsWith(bytes, text) {
  return ascii(text).every((code, i) => bytes[i] === code);
}
function pcm16(bytes, context) {
  const count = Math.floor(bytes.length / 2);
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const buffer = context.createBuffer(1, Math.max(count, 1), PCM_RATE);
  const samples = buffer.getChannelData(0);
  for (let i = 0; i < count; i++) samples[i] = view.getInt16(2 * i, true) / 32768;
  return buffer;
}
function opusPackets(bytes) {
  const packets = [];
  let at = 0;
  while (at + 2 <= bytes.length) {
    const size = bytes[at] | bytes[at + 1] << 8;
    if (size === 0 || at + 2 + size > bytes.length) return null;
    packets.push(bytes.subarray(at + 2, at + 2 + size));
    at += 2 + size;
  }
  return at === bytes.length ? packets : null;
}
function ogg(packets) {
  const head = new Uint8Array(19);
  const view = new DataView(head.buffer);
  head.set(ascii("OpusHead"));
  head[8] = head[9] = 1;
  view.setUint32(12, PCM_RATE, true);
  const tags = new Uint8Array(16);
  tags.set(ascii("OpusTags"));
  const pages = [page(head, 0, 0, 2), page(tags, 1, 0, 0)];
  packets.forEach((packet, i) => {
    const isLast = i === packets.length - 1;
    pages.push(page(packet, i + 2, (i + 1) * OPUS_PACKET_SAMPLES, isLast ? 4 : 0));
  });
  const whole = new Uint8Array(pages.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const one of pages) {
    whole.set(one, at);
    at += one.length;
  }
  return whole;
}
function page(packet, number, granule, flags) {
  const segments = Math.floor(packet.length / 255) + 1;
  const bytes = new Uint8Array(27 + segments + packet.length);
  const view = new DataView(bytes.buffer);
  bytes.set(ascii("OggS"));
  bytes[5] = flags;
  view.setUint32(6, granule % 2 ** 32, true);
  view.setUint32(10, Math.floor(granule / 2 ** 32), true);
  view.setUint32(14, 1, true);
  view.setUint32(18, number, true);
  bytes[26] = segments;
  bytes.fill(255, 27, 27 + segments - 1);
  bytes[27 + segments - 1] = packet.length % 255;
  bytes.set(packet, 27 + segments);
  view.setUint32(22, checksum(bytes), true);
  return bytes;
}
function checksum(bytes) {
  let sum = 0;
  for (const byte of bytes) {
    sum ^= byte << 24;
    for (let bit = 0; bit < 8; bit++) sum = sum & 2147483648 ? sum << 1 ^ 79764919 : sum << 1;
  }
  return sum >>> 0;
}
function ascii(text) {
  return Uint8Array.from(text, (char) => char.charCodeAt(0));
}

// src/playback.ts
var MAX_QUEUED = 16;
var RELEASED_AFTER_MS = 50;
var Player = class {
  context;
  #session;
  #onError;
  #volume;
  // Decoding takes its time, and the order is that of arrival.
  #decoding = Promise.resolve();
  #queue = [];
  #playing = null;
  #isHeld = false;
  #isMuted = false;
  /** `session` is the one that is told what is played, if `add` does not name another. */
  constructor(session, { context, output, onError } = {}) {
    this.#session = session;
    this.#onError = onError ?? (() => {
    });
    this.context = context ?? new AudioContext();
    this.#volume = this.context.createGain();
    this.#volume.connect(output ?? this.context.destination);
  }
  /** To be called from a touch, a click or a key: browsers stay silent until then. */
  wake() {
    return this.context.resume();
  }
  /** 0…1; 0 also drops what waits. */
  set volume(loudness) {
    this.#volume.gain.value = loudness;
    this.#isMuted = loudness === 0;
    if (this.#isMuted) this.quiet();
  }
  /** Appends a translation. One without speech is passed over, and without sound it is only made ready. */
  add(result, on = {}, session = this.#session) {
    if (this.#isMuted && !on.ready || result.speech.length === 0) return this.#decoding;
    const decoded = decode(result.speech, result.speechFormat, this.context);
    decoded.catch(() => {
    });
    this.#decoding = this.#decoding.then(async () => {
      try {
        this.#append({ buffer: await decoded, result, session, on });
      } catch (error) {
        this.#onError(error);
      }
    });
    return this.#decoding;
  }
  /** Plays it on request: now, and instead of what is being played. */
  replay(clip) {
    this.#stop();
    this.#queue.unshift(clip);
    this.#next();
  }
  /** A person talks: the current translation is cut off, waiting ones keep waiting. */
  hold() {
    this.#isHeld = true;
    this.#stop();
  }
  release() {
    this.#isHeld = false;
    setTimeout(() => this.#next(), RELEASED_AFTER_MS);
  }
  /** Drops what is played and what waits. */
  quiet() {
    this.#queue = [];
    this.#stop();
  }
  #append(clip) {
    clip.on.ready?.(clip);
    if (this.#isMuted) return;
    this.#queue.push(clip);
    if (this.#queue.length > MAX_QUEUED) this.#queue.shift();
    this.#next();
  }
  #next() {
    if (this.#playing || this.#isHeld) return;
    const clip = this.#queue.shift();
    if (!clip) return;
    const source = this.context.createBufferSource();
    source.buffer = clip.buffer;
    source.connect(this.#volume);
    const ended = () => {
      this.#playing = null;
      clip.session.playback("tts_play_ended", clip.result.message);
      clip.on.ended?.();
    };
    source.onended = () => {
      ended();
      this.#next();
    };
    this.#playing = { source, ended };
    clip.session.playback("tts_started", clip.result.message);
    clip.on.started?.();
    source.start();
  }
  #stop() {
    if (!this.#playing) return;
    const { source, ended } = this.#playing;
    source.onended = null;
    source.stop();
    source.disconnect();
    ended();
  }
};
function playResults(session, options = {}) {
  const player = new Player(session, options);
  session.on("result", (result) => {
    if (result.kind === "translation") void player.add(result);
  });
  return player;
}

// src/room-events.ts
var BOTH = /^[^()]*[\u4e00-\u9fff][^()]*\((.+)\)$/s;
function inEnglish(text) {
  return BOTH.exec(text)?.[1] ?? text;
}
var MAX_NAMES = 1e3;
var MAX_EARLIER = 1e3;
var Reading = class {
  #names = /* @__PURE__ */ new Map();
  #earlier = /* @__PURE__ */ new Set();
  #received = null;
  #first = 0;
  members = [];
  /** One that enters gets what is said after this number. */
  begin(latest) {
    this.#first = latest + 1;
    this.#received = new Received(this.#first);
  }
  /** Everything up to this number has arrived; null: nothing has. */
  get lastSeq() {
    return this.#received && this.#received.last >= 0 ? this.#received.last : null;
  }
  /** Null if it has come before. */
  outcome(message, isOwn) {
    const seq = message.room_seq ?? null;
    if (seq !== null && !this.#isNew(seq)) return null;
    const about = { ...this.#speaker(message.session_id), index: message.utterance_index, seq, isOwn };
    if (message.type === "missing_result") return { kind: "unheard", ...about, reason: message.reason, code: message.code ?? "" };
    return {
      kind: "said",
      ...about,
      text: message.text_asr,
      translated: message.text_translated,
      language: message.lang ?? "",
      speech: fromBase64(message.tts_audio),
      speechFormat: message.tts_format,
      isLate: Boolean(message.late),
      message
    };
  }
  changed({ members, locked, guests }) {
    this.members = members.map((one) => ({
      sessionId: one.session_id,
      name: one.display_name ?? "",
      language: one.preferred_lang ?? "",
      speaks: one.src_lang ?? "",
      role: one.role ?? ""
    }));
    for (const { sessionId, name } of this.members) {
      this.#names.delete(sessionId);
      this.#names.set(sessionId, name);
    }
    for (const id of this.#names.keys()) {
      if (this.#names.size <= MAX_NAMES) break;
      this.#names.delete(id);
    }
    return { kind: "members", members: this.members, isLocked: Boolean(locked), guests: guests ?? 0 };
  }
  caption(message) {
    const language = message.type === "room_caption" ? message.lang : "";
    return { kind: "caption", ...this.#speaker(message.session_id), index: message.utterance_index, text: message.text, language, isFinal: message.is_final };
  }
  speaking({ session_id, speaking }) {
    return { kind: "speaking", ...this.#speaker(session_id), isSpeaking: speaking };
  }
  message({ session_id, display_name, text, sent_at_ms }) {
    const name = display_name || this.#speaker(session_id).name;
    return { kind: "message", speaker: session_id, name, text, atMs: sent_at_ms };
  }
  history({ lines }) {
    const unknown = lines.filter(({ room_seq }) => room_seq == null || this.#know(room_seq));
    return {
      kind: "history",
      lines: unknown.map((line) => ({
        speaker: line.session_id,
        name: line.display_name ?? "",
        text: line.text,
        original: line.text_asr ?? line.text,
        language: line.lang ?? "",
        seq: line.room_seq ?? null,
        atMs: line.at_ms
      }))
    };
  }
  #speaker(speaker) {
    return { speaker, name: this.#names.get(speaker) ?? "" };
  }
  #isNew(seq) {
    if (!this.#received) this.begin(seq - 1);
    return seq < this.#first ? this.#know(seq) : !this.#earlier.has(seq) && this.#received.add(seq);
  }
  /** It was told in another way. False if that is known. */
  #know(seq) {
    if (this.#earlier.has(seq) || this.#received && seq >= this.#first && this.#received.has(seq)) return false;
    this.#earlier.add(seq);
    if (this.#earlier.size > MAX_EARLIER) this.#earlier.delete(this.#earlier.values().next().value);
    return true;
  }
};

// src/requests.ts
var ANSWER_WITHIN_MS3 = 1e4;
var Requests = class {
  #asked = null;
  #turn = Promise.resolve();
  /** Sends after the requests before it have their answer; until an event tells that it is done. Throws RoomRefused. */
  async make(send, isDone) {
    const answered = this.#after(this.#turn, send, isDone);
    this.#turn = answered.catch(() => {
    });
    await answered;
  }
  told(event) {
    if (this.#asked?.isDone(event)) this.#asked.done();
  }
  /** Whether something was asked. */
  refused(error) {
    this.#asked?.fail(error);
    return this.#asked !== null;
  }
  async #after(before, send, isDone) {
    await before;
    try {
      await inTime((done, fail) => {
        this.#asked = { isDone, done, fail };
        send();
      });
    } finally {
      this.#asked = null;
    }
  }
};
async function inTime(begin) {
  let timer;
  try {
    await new Promise((done, fail) => {
      begin(done, fail);
      const late = new RoomRefused("NO_ANSWER", `the scheduler did not answer within ${ANSWER_WITHIN_MS3 / 1e3} s; try again`);
      timer = setTimeout(() => fail(late), ANSWER_WITHIN_MS3);
    });
  } finally {
    clearTimeout(timer);
  }
}

// src/rooms.ts
var MAX_UNREAD2 = 1e3;
var TOLD_WITHIN_MS = 3e3;
var PASSING = /* @__PURE__ */ new Set(["INTERNAL_ERROR", "QUOTA_EXCEEDED"]);
var ASK_AGAIN_MS = 5e3;
var MAX_TEXT_CHARS = 2e3;
function createRoom(session, options = {}) {
  return new Room(session, "", options).entered();
}
function joinRoom(session, code, options = {}) {
  return new Room(session, code, options).entered();
}
var Room = class {
  #session;
  #options;
  #reading = new Reading();
  #inbox = new Inbox(MAX_UNREAD2);
  #events = new Emitter();
  #isIterated = false;
  #code;
  #phase = "entering";
  #timer;
  #requests = new Requests();
  #entry = null;
  // An ordinary error follows a refusal, for clients that show only that.
  #echo = null;
  /** Use `createRoom` or `joinRoom`. */
  constructor(session, code, options) {
    this.#session = session;
    this.#code = code;
    this.#options = { ...options };
  }
  /** Of the room, for those who join. */
  get code() {
    return this.#code;
  }
  get members() {
    return this.#reading.members;
  }
  get isOver() {
    return this.#phase === "out";
  }
  on(kind, listener) {
    return this.#events.on(kind, listener);
  }
  [Symbol.asyncIterator]() {
    this.#isIterated = true;
    return this.#inbox;
  }
  async entered() {
    const entering = inTime((done, fail) => this.#entry = { done, fail });
    this.#session.use(this);
    this.#ask();
    try {
      await entering;
      return this;
    } catch (error) {
      this.#stop(null);
      throw error;
    } finally {
      this.#entry = null;
    }
  }
  // Verbs
  /** A text message to everyone in the room. */
  async write(text) {
    if (!text.trim() || text.length > MAX_TEXT_CHARS) throw new RoomRefused("INVALID_MESSAGE", `a message has 1 to ${MAX_TEXT_CHARS} characters`);
    const own = this.#session.sessionId;
    await this.#request({ type: "room_say", room_code: this.#code, text }, (event) => event.kind === "message" && event.speaker === own);
  }
  /** What is not named stays. */
  async update({ name, language, speaks, speech }) {
    Object.assign(this.#options, JSON.parse(JSON.stringify({ name, language, speech })));
    if (speaks !== void 0) this.#session.wish({ src_lang: speaks });
    const message = {
      ...{ type: "room_update", room_code: this.#code, display_name: name ?? null },
      ...{ preferred_lang: language ?? null, src_lang: speaks ?? null, speech: speech ?? null }
    };
    if (this.#options.listenOnly) this.#post(message);
    else await this.#request(message, (event) => event.kind === "members");
  }
  /** Of the host: let no one else join, or let them again. */
  lock(locked = true) {
    return this.#request({ type: "room_lock", room_code: this.#code, locked }, (event) => event.kind === "members" && event.isLocked === locked);
  }
  /** Of the host: send a member away. */
  remove(sessionId) {
    return this.#request(
      { type: "room_remove", room_code: this.#code, target_session_id: sessionId },
      (event) => event.kind === "members" && event.members.every((one) => one.sessionId !== sessionId)
    );
  }
  /** Of the host: end the room for all. */
  close() {
    return this.#request({ type: "room_close", room_code: this.#code }, (event) => event.kind === "ended");
  }
  /** What is not read yet can still be read; the session goes on outside of the room. */
  leave() {
    if (this.isOver) return;
    this.#session.post({ type: "room_leave", room_code: this.#code });
    this.#stop(null);
  }
  /** For `./voices`. */
  signal(signal) {
    this.#session.post(signal);
  }
  // For the session
  greeting() {
    const last = this.#reading.lastSeq;
    return last === null || this.isOver ? {} : { last_room_seq: last };
  }
  opened(isResumed) {
    clearTimeout(this.#timer);
    if (this.isOver) return;
    if (isResumed) this.#timer = setTimeout(() => this.#ask(), TOLD_WITHIN_MS);
    else this.#ask();
  }
  outcome(message, isOwn) {
    if (this.isOver) return false;
    const event = this.#reading.outcome(message, isOwn);
    if (event) this.#tell(event);
    return true;
  }
  over(error) {
    this.#stop(error);
  }
  take(message) {
    if (message.type === "error") return this.#isEcho(message.code, message.message);
    if (this.isOver) return message.type.startsWith("room_");
    switch (message.type) {
      case "room_create_ack":
        this.#enter(message);
        break;
      case "room_members":
        this.#listed(message);
        break;
      case "room_expired":
        if (message.room_code === this.#code) this.#ended(message.message, "");
        break;
      case "asr_partial":
        this.#tell(this.#reading.caption(message));
        break;
      case "room_error":
        this.#refused(message);
        break;
      default:
        return this.#isNews(message);
    }
    return true;
  }
  /** Whether it is about a room. Of another one nothing is told. */
  #isNews(message) {
    if (!("room_code" in message)) return false;
    if (message.room_code !== this.#code) return true;
    switch (message.type) {
      case "room_caption":
        return this.#tell(this.#reading.caption(message));
      case "room_speaking":
        return this.#tell(this.#reading.speaking(message));
      case "room_message":
        return this.#tell(this.#reading.message(message));
      case "room_history":
        return this.#tell(this.#reading.history(message));
      case "webrtc_offer":
      case "webrtc_answer":
      case "webrtc_ice":
        this.#events.emit("signal", { kind: "signal", signal: message });
        return true;
      default:
        return false;
    }
  }
  #ask() {
    if (this.#phase === "in") this.#phase = "returning";
    const { name, language, speech, voices, listenOnly } = this.#options;
    const wishes = {
      ...{ display_name: name || null, preferred_lang: language ?? null, room_events: true },
      ...{ speech: speech ?? null, ice_servers: voices ?? null }
    };
    if (this.#code) this.#session.post({ type: "room_join", room_code: this.#code, listen_only: listenOnly ?? null, ...wishes });
    else this.#session.post({ type: "room_create", client_ts: Date.now(), ...wishes });
  }
  #enter({ room_code, room_seq, ice_servers }) {
    clearTimeout(this.#timer);
    const isFirst = this.#phase === "entering";
    this.#code = room_code;
    this.#phase = "in";
    if (isFirst && room_seq != null) this.#reading.begin(room_seq);
    this.#entry?.done();
    const iceServers = ice_servers ?? [];
    this.#events.emit("entered", { kind: "entered", code: room_code, sessionId: this.#session.sessionId, iceServers });
  }
  #listed(message) {
    if (this.#phase === "entering" && (!this.#code || this.#code === message.room_code)) this.#enter({ room_code: message.room_code });
    if (message.room_code !== this.#code) return;
    clearTimeout(this.#timer);
    this.#phase = "in";
    this.#tell(this.#reading.changed(message));
  }
  #refused(refusal) {
    this.#echo = refusal;
    const { code } = refusal;
    const message = inEnglish(refusal.message);
    const error = new RoomRefused(code, message);
    if (this.#entry) this.#entry.fail(error);
    else if (this.#requests.refused(error)) return;
    else if (this.#phase !== "returning") this.#tell({ kind: "rejected", code, text: message });
    else if (PASSING.has(code)) this.#timer = setTimeout(() => this.#ask(), ASK_AGAIN_MS);
    else if (code === "ALREADY_IN_ROOM") this.#phase = "in";
    else this.#ended(refusal.message, code);
  }
  #isEcho(code, message) {
    const isEcho = this.#echo?.code === code && this.#echo.message === message;
    this.#echo = null;
    return isEcho;
  }
  #ended(said, code) {
    this.#tell({ kind: "ended", text: inEnglish(said), said, code });
    this.#stop(null);
  }
  #stop(error) {
    if (this.isOver) return;
    clearTimeout(this.#timer);
    this.#phase = "out";
    this.#inbox.end(error);
    this.#entry?.fail(error ?? isOver());
    this.#requests.refused(error ?? isOver());
  }
  /** To listeners, and to one that iterates or may do so later. Captions, and who speaks, may be lost. */
  #tell(event) {
    this.#requests.told(event);
    if (this.#isIterated || !this.#events.has("said")) this.#keep(event);
    this.#events.emit(event.kind, event);
    return true;
  }
  #keep(event) {
    if (!this.#inbox.isFull) this.#inbox.add(event);
    else if (event.kind !== "caption" && event.kind !== "speaking") this.#inbox.replaceOldest(event);
  }
  #post(message) {
    if (this.isOver) throw isOver();
    if (!this.#session.post(message)) throw new RoomRefused("AWAY", "the connection is being restored; try again");
  }
  async #request(message, isDone) {
    if (this.#options.waits === false) this.#post(message);
    else await this.#requests.make(() => this.#post(message), isDone);
  }
};
function isOver() {
  return new RoomRefused("ROOM_OVER", "the room has ended; create or join another one");
}

// src/voices.ts
var OFFERED_WITHIN_MS = 2e3;
var ANSWERED_WITHIN_MS = 6e4;
var MAX_RESTARTS = 3;
var RESTART_AFTER_MS = 1e3;
var MAX_EARLY = 64;
var Voices = class {
  #on;
  #make;
  #room = null;
  #listeners = [];
  #code = "";
  #me = "";
  #servers = [];
  #links = /* @__PURE__ */ new Map();
  #members = /* @__PURE__ */ new Set();
  #track = null;
  #isFirst = true;
  #timer;
  constructor(on, make = (iceServers) => new RTCPeerConnection({ iceServers })) {
    this.#on = on;
    this.#make = make;
  }
  /** How many voices are connected. */
  get connected() {
    return [...this.#links.values()].filter(({ peer }) => peer.connectionState === "connected").length;
  }
  /** Of the members of a room that was made with `voices`; before it is entered. */
  follow(room) {
    this.leave();
    this.#room = room;
    this.#listeners = [
      room.on("entered", (entered) => this.#enter(entered)),
      room.on("members", ({ members }) => this.#told(members.map(({ sessionId }) => sessionId))),
      room.on("signal", ({ signal }) => this.#heard(signal))
    ];
  }
  /** Nothing more is heard of the room, and nothing is said. */
  leave() {
    for (const remove of this.#listeners.splice(0)) remove();
    this.#reset();
    this.#room = null;
  }
  /** What the others hear; null: nothing. No new offer is needed for it. */
  use(track) {
    this.#track = track;
    for (const { sender } of this.#links.values()) sender?.replaceTrack(track).catch(() => {
    });
  }
  #enter({ code, sessionId, iceServers }) {
    this.#reset();
    this.#code = code;
    this.#me = sessionId;
    this.#servers = iceServers.map(({ urls, username, credential }) => ({ urls, ...username ? { username } : {}, ...credential ? { credential } : {} }));
    this.#isFirst = true;
  }
  #reset() {
    clearTimeout(this.#timer);
    for (const id of [...this.#links.keys()]) this.#drop(id);
    this.#members = /* @__PURE__ */ new Set();
    this.#code = "";
  }
  #told(ids) {
    if (!this.#code) return;
    const others = ids.filter((id) => id !== this.#me);
    const added = others.filter((id) => !this.#members.has(id));
    this.#members = new Set(others);
    for (const id of [...this.#links.keys()]) if (!this.#members.has(id)) this.#drop(id);
    if (this.#isFirst) this.#timer = setTimeout(() => this.#offerTo([...this.#members]), OFFERED_WITHIN_MS);
    else this.#offerTo(added);
    this.#isFirst = false;
  }
  #heard(signal) {
    const id = signal.to;
    if (!this.#members.has(id) || signal.room_code !== this.#code) return;
    if (signal.type === "webrtc_offer") this.#offered(id, signal.sdp);
    else if (signal.type === "webrtc_answer") this.#inTurn(id, (link) => this.#answered(link, signal.sdp));
    else this.#inTurn(id, (link) => this.#candidate(link, signal.candidate));
  }
  #offerTo(ids) {
    for (const id of ids) if (this.#members.has(id) && !this.#links.has(id)) this.#offer(this.#open(id), id);
  }
  #offer(link, id) {
    link.sender ??= link.peer.addTransceiver("audio", { direction: "sendrecv", streams: [new MediaStream()] }).sender;
    link.sender.replaceTrack(this.#track).catch(() => {
    });
    link.timer = setTimeout(() => link.peer.signalingState === "have-local-offer" && this.#drop(id), ANSWERED_WITHIN_MS);
    this.#inTurn(id, async ({ peer }) => {
      await peer.setLocalDescription(await peer.createOffer());
      this.#describe("webrtc_offer", id, peer);
    });
  }
  #offered(id, sdp) {
    const known = this.#links.get(id);
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
  #speakThrough(link, transceiver) {
    transceiver.direction = "sendrecv";
    if (link.sender !== transceiver.sender) transceiver.sender.setStreams?.(new MediaStream());
    link.sender = transceiver.sender;
    link.sender.replaceTrack(this.#track).catch(() => {
    });
  }
  async #answered(link, sdp) {
    if (link.peer.signalingState !== "have-local-offer") return;
    await link.peer.setRemoteDescription(sdp);
    await this.#addEarly(link);
  }
  async #candidate(link, candidate) {
    if (link.peer.remoteDescription) await link.peer.addIceCandidate(candidate);
    else if (link.early.length < MAX_EARLY) link.early.push(candidate);
  }
  async #addEarly({ peer, early }) {
    for (const candidate of early.splice(0)) await peer.addIceCandidate(candidate).catch(() => {
    });
  }
  #inTurn(id, act) {
    const link = this.#links.get(id);
    if (!link) return;
    link.turn = link.turn.then(() => this.#links.get(id) === link ? act(link) : void 0).catch(() => {
    });
  }
  #open(id) {
    const peer = this.#make(this.#servers);
    const link = { peer, sender: null, early: [], turn: Promise.resolve(), restarts: 0, timer: void 0 };
    this.#links.set(id, link);
    peer.onicecandidate = ({ candidate }) => candidate && this.#sendCandidate(id, candidate.toJSON());
    peer.ontrack = ({ track }) => this.#on.heard(id, new MediaStream([track]));
    peer.onconnectionstatechange = () => this.#changed(id, link);
    return link;
  }
  #changed(id, link) {
    this.#on.changed?.();
    if (link.peer.connectionState === "connected") link.restarts = 0;
    if (link.peer.connectionState !== "failed" || link.restarts >= MAX_RESTARTS) return;
    link.restarts += 1;
    const waitMs = (link.restarts + Math.random()) * RESTART_AFTER_MS;
    clearTimeout(link.timer);
    link.timer = setTimeout(() => {
      if (this.#links.get(id) !== link || link.peer.connectionState !== "failed") return;
      link.peer.restartIce();
      this.#offer(link, id);
    }, waitMs);
  }
  #describe(type, id, { localDescription }) {
    if (!localDescription) return;
    const sdp = { type: localDescription.type, sdp: localDescription.sdp };
    this.#room?.signal({ type, room_code: this.#code, to: id, sdp });
  }
  #sendCandidate(id, candidate) {
    this.#room?.signal({ type: "webrtc_ice", room_code: this.#code, to: id, candidate });
  }
  #drop(id) {
    const link = this.#links.get(id);
    if (!link) return;
    this.#links.delete(id);
    clearTimeout(link.timer);
    link.peer.onicecandidate = link.peer.ontrack = link.peer.onconnectionstatechange = null;
    link.peer.close();
    this.#on.gone(id);
    this.#on.changed?.();
  }
};
function isAnother({ remoteDescription }, offer) {
  return remoteDescription !== null && fingerprint(remoteDescription.sdp) !== fingerprint(offer.sdp);
}
function fingerprint(sdp = "") {
  return /a=fingerprint:(.*)/.exec(sdp)?.[1]?.trim();
}
export {
  AccessDenied,
  BufferFull,
  CannotRead,
  Gate,
  KeptMicrophone,
  LinguaError,
  Microphone,
  NoMicrophone,
  Player,
  Room,
  RoomRefused,
  Session,
  SessionFailed,
  TokenNotFetched,
  Unreachable,
  Voices,
  connect,
  createRoom,
  dismissal,
  isMicrophonePossible,
  joinRoom,
  openMicrophone,
  playResults,
  prepareMicrophone,
  readWav,
  sendFile,
  sentences
};
