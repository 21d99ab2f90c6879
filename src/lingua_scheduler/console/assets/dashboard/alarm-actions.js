// What a person can do about an alarm: acknowledge it, silence it for a time, forget it, or undo that.
import { recall, remember } from "../shared/storage.js";
import { post } from "./api.js";
import { confirm } from "./dialogs.js";
import { h, setText, show } from "./dom.js";
import { clockShort } from "./format.js";
import { may } from "./person.js";
import { alarmInWords } from "./telling.js";
import { t } from "./words.js";
import { lastPicture } from "./world.js";

/** @import {Alarm} from "../shared/types" */

const HOUR_MS = 3_600_000;
const SILENCES = [1, 8, 24, 168];
const DAY = 24;
// As many as the scheduler takes.
const NAME_LENGTH = 64;
/** @type {Set<string>} */
const NONE = new Set();

export class AlarmActions {
  constructor() {
    /** @type {Alarm | null} */
    this.alarm = null;
    this.done = h("span", { class: "alarm-done" });
    this.acknowledge = this.button("handle.acknowledge", () => this.ask("acknowledge"));
    this.silence = this.button("handle.silence", () => this.askHowLong());
    this.forget = this.button("handle.forget", () => this.ask("forget"));
    this.reset = this.button("handle.reset", () => this.ask("reset"));
    const buttons = [this.acknowledge, this.silence, this.forget, this.reset];
    this.element = h("div", { class: "alarm-actions" }, this.done, buttons);
  }

  /** @param {Alarm} alarm */
  update(alarm) {
    this.alarm = alarm;
    const done = doneInWords(alarm);
    setText(this.done, done);
    show(this.done, done !== "");
    const allowed = may("fleet:operate") ? allowedActions(alarm, lastPicture().is_stale) : NONE;
    show(this.acknowledge, allowed.has("acknowledge"));
    show(this.silence, allowed.has("silence"));
    show(this.forget, allowed.has("forget"));
    show(this.reset, allowed.has("reset"));
  }

  /**
   * @param {string} key
   * @param {() => void} act
   */
  button(key, act) {
    return h("button", { type: "button", class: "quiet", click: act }, t(key));
  }

  /** @param {string} action */
  ask(action) {
    const { alarm } = this;
    if (!alarm) return;
    const who = new WhoField();
    confirm({
      title: t(`handle.${action}`),
      body: [h("p", {}, alarmInWords(alarm).title), h("p", {}, t(`handle.${action}_what`)), who.element],
      yes: t(`handle.${action}`),
      act: () => handle(alarm, action, who.read()),
    });
  }

  askHowLong() {
    const { alarm } = this;
    if (!alarm) return;
    const hours = h(
      "select",
      { "aria-label": t("handle.how_long") },
      SILENCES.map((n) => h("option", { value: String(n) }, howLong(n))),
    );
    const who = new WhoField();
    confirm({
      title: t("handle.silence"),
      body: [h("p", {}, alarmInWords(alarm).title), h("p", {}, t("handle.silence_what")), h("p", {}, hours), who.element],
      yes: t("handle.silence"),
      act: () => handle(alarm, "silence", who.read(), Number(hours.value) * HOUR_MS),
    });
  }
}

/** Who does it: asked for once, and kept in this browser. */
class WhoField {
  constructor() {
    this.input = h("input", { type: "text", maxlength: String(NAME_LENGTH), autocomplete: "name" });
    this.input.value = recall("name") ?? "";
    this.element = h("p", {}, h("label", {}, t("handle.name"), " ", this.input));
  }

  read() {
    const name = this.input.value.trim();
    remember("name", name);
    return name;
  }
}

/** @param {number} hours */
function howLong(hours) {
  return hours > DAY ? t("handle.days", { n: hours / DAY }) : t("handle.hours", { n: hours });
}

/** @param {Alarm} alarm */
function doneInWords({ acknowledged_at_ms: seenAtMs, silenced_until_ms: silencedUntilMs, handled_by: by }) {
  const who = by || t("handle.somebody");
  if (silencedUntilMs) return t("handle.silenced", { time: clockShort(silencedUntilMs), who });
  return seenAtMs ? t("handle.acknowledged", { time: clockShort(seenAtMs), who }) : "";
}

/**
 * One that only counts others is about no one thing, and nothing can be kept while Redis is away.
 * @param {Alarm} alarm
 * @param {boolean} isStale
 * @returns {Set<string>}
 */
export function allowedActions(alarm, isStale) {
  const { values, acknowledged_at_ms: seenAtMs, silenced_until_ms: silencedUntilMs } = alarm;
  if ("more" in values || isStale) return new Set();
  if (silencedUntilMs) return new Set(["reset"]);
  return new Set(["silence", "forget", seenAtMs ? "reset" : "acknowledge"]);
}

/**
 * @param {Alarm} alarm
 * @param {string} action
 * @param {string} by
 * @param {number} [forMs]
 */
function handle({ code, subject }, action, by, forMs) {
  const name = subject ? `${code}/${subject}` : code;
  return post("v1/alarms", { alarm: name, action, by: by || t("handle.page"), ...(forMs ? { for_ms: forMs } : {}) });
}
