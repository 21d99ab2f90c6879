// A WebSocket in the hands of a test: what was sent is kept, and what comes is said by the test.

export class FakeSocket {
  static made = [];
  static waiting = [];
  readyState = 0;
  bufferedAmount = 0;
  sent = [];
  onopen = null;
  onmessage = null;
  onclose = null;
  onerror = null;

  constructor(url, protocols) {
    this.url = url;
    this.protocols = protocols;
    FakeSocket.made.push(this);
    FakeSocket.waiting.shift()?.(this);
  }

  /** The next one that is made. */
  static next() {
    return new Promise((made) => FakeSocket.waiting.push(made));
  }

  open() {
    this.readyState = 1;
    this.onopen?.({});
  }

  /** Opens it with a session. */
  welcome(more = {}) {
    this.open();
    this.say({ type: "session_init_ack", session_id: "s-1", use_binary_frame: false, resume_token: "r", ...more });
    return this;
  }

  say(message) {
    this.onmessage?.({ data: JSON.stringify(message) });
  }

  send(frame) {
    this.sent.push(typeof frame === "string" ? JSON.parse(frame) : frame);
  }

  close(code = 1000) {
    this.readyState = 3;
    this.onclose?.({ code });
  }

  of(type) {
    return this.sent.filter((message) => message.type === type);
  }
}

export const translation = (index, more = {}) => ({
  ...{ type: "translation_result", session_id: "s-1", utterance_index: index, job_id: "j", trace_id: `t-${index}` },
  ...{ text_asr: "heard", text_translated: "said", tts_audio: "AAEC", tts_format: "pcm16", scheduler_sent_at_ms: 1 },
  ...more,
});
