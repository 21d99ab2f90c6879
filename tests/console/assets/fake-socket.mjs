// A WebSocket without a network: the test is the other end.

/** A WebSocket that a test plays the scheduler to. */
export class FakeSocket {
  static OPEN = 1;
  /** @type {FakeSocket[]} */
  static all = [];
  readyState = 0;
  bufferedAmount = 0;
  isClosed = false;
  /** @type {any[]} */
  sent = [];
  /** @type {(() => void) | null} */
  onopen = null;
  /** @type {((end: {code: number, reason: string}) => void) | null} */
  onclose = null;
  /** @type {((event: {data: string}) => void) | null} */
  onmessage = null;
  onerror = null;

  constructor() {
    FakeSocket.all.push(this);
  }

  static get last() {
    return FakeSocket.all[FakeSocket.all.length - 1];
  }

  /** @param {any} data */
  send(data) {
    this.sent.push(typeof data === "string" ? JSON.parse(data) : data);
  }

  close() {
    this.isClosed = true;
    this.readyState = 3;
  }

  open() {
    this.readyState = 1;
    this.onopen?.();
  }

  break(code = 1006, reason = "") {
    this.readyState = 3;
    this.onclose?.({ code, reason });
  }

  /** @param {object} message */
  say(message) {
    this.onmessage?.({ data: JSON.stringify(message) });
  }

  /** @param {object} [more] */
  acknowledge(more = {}) {
    this.open();
    this.say({ type: "session_init_ack", session_id: "s", use_binary_frame: false, resume_token: "t", ...more });
  }

  /** The numbers of the chunks that were sent on it. */
  get seqs() {
    return this.sent.filter(({ type }) => type === "audio_chunk").map(({ seq }) => seq);
  }

  /** @param {string} type */
  count(type) {
    return this.sent.filter((message) => message.type === type).length;
  }
}
