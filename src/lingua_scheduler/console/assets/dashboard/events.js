// What happened, the newest first.
import { h, Keyed, setText, show } from "./dom.js";
import { ago, moment } from "./format.js";
import { Mark } from "./parts.js";
import { eventInWords } from "./telling.js";
import { t } from "./words.js";
import { now } from "./world.js";

/** @import {Happening} from "../shared/types" */

/**
 * Two things may happen at one time to one subject; what is said tells them apart.
 * @param {Happening} event
 */
export function eventKey(event) {
  return `${event.at_ms} ${event.kind} ${event.subject} ${event.text}`;
}

/** @typedef {{event: Happening, also: number}} Told one of a kind, and how many more there were at once */

export class EventList {
  constructor() {
    this.list = h("ol", { class: "events" });
    this.keyed = new Keyed(this.list, (event) => new Line(event));
    this.none = h("p", { class: "calm" }, t("events.none"));
    this.element = h("div", {}, this.list, this.none);
  }

  /**
   * `events` with the newest first; what happened to many at once is one line.
   * @param {Happening[]} events
   * @param {number} most
   */
  show(events, most) {
    this.keyed.show(folded(events).slice(0, most), ({ event }) => eventKey(event));
    show(this.none, events.length === 0);
  }
}

/**
 * @param {Happening[]} events
 * @returns {Told[]}
 */
function folded(events) {
  /** @type {Told[]} */
  const lines = [];
  let before = "";
  for (const event of events) {
    const kind = `${event.at_ms} ${event.kind} ${event.values.code ?? ""}`;
    const last = lines.at(-1);
    if (last && kind === before) last.also += 1;
    else lines.push({ event, also: 0 });
    before = kind;
  }
  return lines;
}

class Line {
  /** @param {Told} told */
  constructor({ event }) {
    const words = eventInWords(event);
    this.when = h("time", { datetime: new Date(event.at_ms).toISOString(), title: moment(event.at_ms) });
    const told = words.href
      ? h("a", { href: words.href, lang: words.lang }, words.title)
      : h("span", { lang: words.lang }, words.title);
    this.also = h("span", { class: "faint" });
    this.element = h(
      "li",
      { "data-level": event.level },
      new Mark(event.level).element,
      h("div", {}, told, " ", this.also),
      this.when,
    );
  }

  /** @param {Told} told */
  update({ event, also }) {
    setText(this.also, also ? t("events.also", { n: also }) : "");
    setText(this.when, ago(now() - event.at_ms));
  }
}
