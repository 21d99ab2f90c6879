// One press of a talk button, from the microphone to the session. Only one person talks at a time.

import { Gate } from "./gate.js";
import { NoMicrophone } from "./microphone.js";

// Until then nobody knows whether it is a tap or a hold.
const DECIDED_AFTER_MS = 350;
const MAX_TALK_MS = 300_000;

export class Talker {
  #sound;
  #conversation;
  #on;
  #press = null;

  /** `on` hears: phase(side, word), level(side, 0…1) and notice(side, key). */
  constructor(sound, conversation, on) {
    this.#sound = sound;
    this.#conversation = conversation;
    this.#on = on;
  }

  get side() {
    return this.#press?.side ?? null;
  }

  async start(side, direction) {
    this.stop();
    const press = { side, direction, isLatched: false, gate: new Gate(), undecided: [], sentence: null };
    this.#press = press;
    this.#on.notice(side, null);
    this.#on.phase(side, "opening");
    this.#sound.player?.hold();
    let isAwake = false;
    try {
      isAwake = await this.#sound.wake();
      if (!this.#sound.microphone) throw new NoMicrophone("insecure");
      await this.#sound.microphone.open();
      // Many browsers let a page that listens make a sound.
      isAwake ||= await this.#sound.wake();
    } catch (error) {
      this.#failed(press, error instanceof NoMicrophone ? error.reason : "failed");
      return;
    }
    if (this.#press !== press || !isAwake) {
      // Let go before the microphone was there: the browser may have asked, and covered the button.
      if (this.#press === press) this.stop();
      if (!this.#press) this.#sound.microphone.stop();
      this.#on.notice(side, "mic_ready");
      return;
    }
    press.startedAt = performance.now();
    press.sentence = this.#conversation.begin(direction, side);
    this.#sound.player.hold();
    this.#sound.microphone.start((frame) => this.#took(press, frame));
    this.#on.phase(side, press.isLatched ? "listening_tap" : "listening");
    navigator.vibrate?.(15);
  }

  /** Nobody holds the button any more, but the person wants to go on. */
  latch() {
    if (!this.#press) return;
    this.#press.isLatched = true;
    if (this.#press.sentence) this.#on.phase(this.#press.side, "listening_tap");
  }

  /** The sentence ends here; what the microphone has taken so far is still sent. */
  stop(notice = null) {
    const press = this.#press;
    if (!press) return;
    this.#press = null;
    if (press.startedAt) this.#sound.microphone.stop();
    this.#sound.player?.release();
    this.#on.phase(press.side, "idle");
    this.#on.level(press.side, 0);
    if (notice) this.#on.notice(press.side, notice);
  }

  #failed(press, reason) {
    if (this.#press === press) this.stop();
    this.#on.notice(press.side, `mic_${reason}`);
  }

  #took(press, frame) {
    const age = performance.now() - press.startedAt;
    if (this.#press === press) this.#on.level(press.side, frame.level);
    press.undecided.push(frame);
    if (!press.isLatched && !frame.isLast && age < DECIDED_AFTER_MS) return;
    for (const each of press.undecided.splice(0)) {
      const passed = press.isLatched ? press.gate.pass(each) : [{ samples: each.samples, isFinal: each.isLast }];
      for (const { samples, isFinal } of passed) this.#send(press, samples, isFinal);
    }
    if (frame.isLast) this.#ended(press);
    else if (this.#press === press && press.gate.isForgotten) this.stop("forgotten");
    else if (this.#press === press && age > MAX_TALK_MS) this.stop("too_long");
  }

  #send(press, samples, isFinal) {
    // A long speech is several sentences: the next begins when the one before has its translation.
    if (!press.sentence || press.sentence.state === "done" || press.sentence.state === "missing") {
      press.sentence = this.#conversation.begin(press.direction, press.side);
    }
    press.sentence.wasSent = true;
    const wasTaken = press.direction.link.send(samples, isFinal);
    if (!wasTaken && this.#press === press) this.stop("too_long");
    if (!isFinal) return;
    this.#conversation.change(press.sentence, { state: "pending" });
    press.sentence = null;
  }

  #ended(press) {
    if (press.sentence && !press.sentence.wasSent) this.#conversation.remove(press.sentence);
    else if (press.sentence?.state === "listening") this.#conversation.change(press.sentence, { state: "pending" });
  }
}
