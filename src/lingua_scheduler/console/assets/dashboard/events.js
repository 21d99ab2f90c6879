// What happened, the newest first.
import { h, Keyed, setText, show } from "./dom.js";
import { ago, moment } from "./format.js";
import { Mark } from "./parts.js";
import { eventInWords } from "./telling.js";
import { t } from "./words.js";
import { now } from "./world.js";

/** Two things may happen at one time to one subject; what is said tells them apart. */
export function eventKey(event) {
  return `${event.at_ms} ${event.kind} ${event.subject} ${event.text}`;
}

export class EventList {
  constructor() {
    this.list = h("ol", { class: "events" });
    this.keyed = new Keyed(this.list, (event) => new Line(event));
    this.none = h("p", { class: "calm" }, t("events.none"));
    this.element = h("div", {}, this.list, this.none);
  }

  /** `events` with the newest first. */
  show(events) {
    this.keyed.show(events, eventKey);
    show(this.none, events.length === 0);
  }
}

class Line {
  constructor(event) {
    const words = eventInWords(event);
    this.when = h("time", { datetime: new Date(event.at_ms).toISOString(), title: moment(event.at_ms) });
    const told = words.href
      ? h("a", { href: words.href, lang: words.lang }, words.title)
      : h("span", { lang: words.lang }, words.title);
    this.element = h("li", { "data-level": event.level }, new Mark(event.level).element, told, this.when);
  }

  update(event) {
    setText(this.when, ago(now() - event.at_ms));
  }
}
