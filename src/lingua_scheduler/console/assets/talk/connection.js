// One socket of a session, from its opening to its end: the first word is ours, the acknowledgement theirs.

/** @import {ErrorMessage, SessionInit, SessionInitAck, SessionMessage} from "../shared/types" */

const ACK_WITHIN_MS = 10_000;

/**
 * @typedef {object} ConnectionEvents
 * @property {() => SessionInit} greet what is said first
 * @property {() => void} sign anything came
 * @property {(socket: WebSocket, ack: SessionInitAck) => void} opened
 * @property {(message: SessionMessage) => void} heard after it was opened
 * @property {(error: ErrorMessage) => void} refused instead of being opened
 * @property {(socket: WebSocket) => void} closed
 */

export class Connection {
  #socket;
  #on;
  #patience;
  #wasOpen = false;
  /** @type {(wasOpen: boolean) => void} */
  #ended = () => {};
  /** Whether the session was open on it, once it has ended. @type {Promise<boolean>} */
  ended = new Promise((done) => (this.#ended = done));

  /**
   * @param {URL} url
   * @param {ConnectionEvents} on
   * @param {string[]} [protocols]
   */
  constructor(url, on, protocols = []) {
    this.#on = on;
    this.#socket = new WebSocket(url, protocols);
    this.#patience = setTimeout(() => this.hangUp(), ACK_WITHIN_MS);
    this.#socket.onopen = () => this.#socket.send(JSON.stringify(on.greet()));
    this.#socket.onclose = () => this.hangUp();
    this.#socket.onmessage = ({ data }) => this.#took(data);
  }

  hangUp() {
    clearTimeout(this.#patience);
    this.#socket.onclose = this.#socket.onmessage = this.#socket.onopen = null;
    this.#socket.close();
    this.#on.closed(this.#socket);
    this.#ended(this.#wasOpen);
  }

  /** @param {unknown} data */
  #took(data) {
    this.#on.sign();
    const message = readable(data);
    if (!message) return;
    if (message.type === "session_init_ack") {
      clearTimeout(this.#patience);
      this.#wasOpen = true;
      this.#on.opened(this.#socket, message);
    } else if (this.#wasOpen) {
      this.#on.heard(message);
    } else if (message.type === "error") {
      this.#on.refused(message);
      this.hangUp();
    }
  }
}

/**
 * @param {unknown} data
 * @returns {SessionMessage | null}
 */
function readable(data) {
  try {
    return typeof data === "string" ? JSON.parse(data) : null;
  } catch {
    return null;
  }
}
