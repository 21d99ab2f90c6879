// Alarms as a list: what is wrong, since when, what to do next; many of one kind are folded.
import { h, Keyed, setText, show } from "./dom.js";
import { duration } from "./format.js";
import { Mark } from "./parts.js";
import { AlarmActions } from "./alarm-actions.js";
import { alarmInWords, alarmKey } from "./telling.js";
import { t } from "./words.js";
import { now } from "./world.js";

/** @import {Alarm} from "../shared/types" */

// What is only worth knowing takes one line, however often it is so.
const SHOWN = { critical: 3, warning: 3, notice: 1 };

export class AlarmList {
  constructor() {
    this.list = h("ul", { class: "alarms" });
    this.groups = new Keyed(this.list, () => new Group());
    this.none = h("p", { class: "calm" }, t("alarms.none"));
    this.element = h("div", {}, this.list, this.none);
  }

  /**
   * In the order of the scheduler: what hurts people most first, what is silenced last.
   * @param {readonly Alarm[]} alarms
   */
  show(alarms) {
    /** @type {Map<string, Alarm[]>} */
    const groups = new Map();
    for (const alarm of alarms) {
      const key = groupKey(alarm);
      groups.set(key, [...(groups.get(key) ?? []), alarm]);
    }
    this.groups.show([...groups.values()], ([first]) => groupKey(first));
    show(this.none, groups.size === 0);
  }
}

/** @param {Alarm} alarm */
function groupKey({ level, code, silenced_until_ms: silencedUntilMs }) {
  return `${silencedUntilMs ? "silenced " : ""}${level} ${code}`;
}

class Group {
  constructor() {
    this.few = h("ul", { class: "alarms" });
    this.rest = h("ul", { class: "alarms" });
    this.more = h("summary");
    this.fold = h("details", { class: "fold" }, this.more, this.rest);
    this.keyedFew = new Keyed(this.few, (alarm) => new Line(alarm));
    this.keyedRest = new Keyed(this.rest, (alarm) => new Line(alarm));
    this.element = h("li", {}, this.few, this.fold);
  }

  /** @param {Alarm[]} alarms */
  update(alarms) {
    const shown = SHOWN[alarms[0].level];
    this.keyedFew.show(alarms.slice(0, shown), alarmKey);
    this.keyedRest.show(alarms.slice(shown), alarmKey);
    show(this.fold, alarms.length > shown);
    if (alarms.length > shown) setText(this.more, t("alarms.more", { n: alarms.length - shown }));
  }
}

class Line {
  /** @param {Alarm} alarm */
  constructor(alarm) {
    this.title = h("span", { class: "alarm-title" });
    this.step = h("span", { class: "alarm-step" });
    this.since = h("span", { class: "alarm-since" });
    const words = alarmInWords(alarm);
    const title = words.href ? h("a", { href: words.href }, this.title) : this.title;
    const level = h("span", { class: "unseen" }, `${t(`level.${alarm.level}`)}: `);
    this.actions = new AlarmActions();
    const body = h("div", { lang: words.lang }, level, title, " ", this.since, this.step, this.actions.element);
    this.element = h("li", { class: "alarm", "data-level": alarm.level }, new Mark(alarm.level).element, body);
  }

  /** @param {Alarm} alarm */
  update(alarm) {
    const words = alarmInWords(alarm);
    setText(this.title, words.title);
    setText(this.step, words.step);
    setText(this.since, t("for", { time: duration(now() - alarm.since_ms) }));
    this.element.classList.toggle("silenced", alarm.silenced_until_ms > 0);
    this.actions.update(alarm);
  }
}
