// What surrounds every view: the way around, the verdict, how fresh it all is, language and theme.
import { LANGUAGES } from "../shared/i18n.js";
import { isDark, turnTheme } from "../shared/theme.js";
import { byId, h, setAttribute, setText, show } from "./dom.js";
import { ago } from "./format.js";
import { Mark } from "./parts.js";
import { may, mayLookAtAccess, person } from "./person.js";
import { href } from "./routes.js";
import { alarmInWords, alarmKey, connectionWord } from "./telling.js";
import { verdict } from "./verdict.js";
import { language, t } from "./words.js";
import { now, world } from "./world.js";

/** @import {Alarm} from "../shared/types" */
/** @import {Language} from "../shared/i18n.js" */
/** @import {Connection} from "./stream.js" */

export const VIEWS = ["overview", "pairs", "nodes", "jobs", "rooms", "instances", "access"];
const FRESH_MS = 8000;

export class Shell {
  /**
   * @param {{onLanguage: (code: Language) => void, onKeys: () => void, onLogout: () => void}} on
   * @param {boolean} isLocked while a login is needed
   */
  constructor({ onLanguage, onKeys, onLogout }, isLocked = false) {
    /** @type {Set<string> | null} */
    this.alarmed = null;
    this.links = VIEWS.map((name) => h("a", { href: href(addressOf(name)) }, t(`view.${name}`)));
    this.badge = h("span", { class: "badge", hidden: true });
    this.links[0].append(this.badge);
    show(this.links[VIEWS.indexOf("access")], mayLookAtAccess());
    show(this.links[VIEWS.indexOf("instances")], may("cluster:read"));
    this.state = h("span", { role: "status" });
    this.age = h("span", { class: "connection-age" });
    this.connection = h("span", { class: "connection" }, h("span", {}, this.state, this.age));
    this.mark = new Mark();
    this.sentence = h("span", { class: "verdict-sentence" });
    this.detail = h("span", { class: "verdict-detail" });
    this.verdict = h(
      "a",
      { class: "verdict", href: href("overview") },
      this.mark.element,
      h("span", {}, this.sentence, this.detail),
    );
    const languages = Object.entries(LANGUAGES).map(([code, name]) =>
      h("option", { value: code, lang: code, selected: code === language() }, name),
    );
    this.theme = h("button", { type: "button", class: "quiet", id: "theme", click: () => this.turn() });
    byId("bar").replaceChildren(
      h(
        "a",
        { class: "brand", href: href("overview") },
        h("img", { src: "dashboard/icon.svg", alt: "", width: 22, height: 22 }),
        "Lingua",
      ),
      ...(isLocked ? [] : [h("nav", { "aria-label": t("views") }, this.links)]),
      h(
        "div",
        { class: "bar-tools" },
        isLocked ? null : this.connection,
        ...whoParts(onLogout),
        h(
          "select",
          { id: "language", "aria-label": t("language"), change: (event) => onLanguage(event.target.value) },
          languages,
        ),
        this.theme,
        h(
          "button",
          {
            type: "button",
            class: "quiet",
            id: "keys",
            "aria-label": t("keys.title"),
            title: t("keys.title"),
            click: onKeys,
          },
          "?",
        ),
      ),
    );
    byId("notes").replaceChildren(...openWarning(), ...(isLocked ? [] : [this.verdict]));
    byId("skip").textContent = t("skip");
    this.nameTheme();
  }

  /**
   * @param {string} name
   * @param {boolean} isOverview
   */
  showRoute(name, isOverview) {
    VIEWS.forEach((view, place) => setAttribute(this.links[place], "aria-current", view === name ? "page" : null));
    this.verdict.classList.toggle("small", !isOverview);
  }

  /** @param {Connection} connection */
  update(connection) {
    const alarms = (world.picture?.alarms ?? []).filter(isHeard);
    show(this.badge, alarms.length > 0);
    setText(this.badge, String(alarms.length));
    setAttribute(this.badge, "aria-label", t("alarms.count", { n: alarms.length }));
    this.tick(connection);
    this.announce();
  }

  /**
   * How fresh it is; also when nothing comes.
   * @param {Connection} connection
   */
  tick(connection) {
    const told = verdict(connection);
    this.mark.show(told.level);
    setAttribute(this.verdict, "data-level", told.level);
    setText(this.sentence, told.sentence);
    setText(this.detail, told.detail);
    const { state, oldMs } = freshness(connection);
    setText(this.state, connectionWord(state));
    setText(this.age, oldMs === null ? "" : ` · ${ago(oldMs)}`);
    setAttribute(this.connection, "data-state", state);
    document.body.classList.toggle("is-old", oldMs !== null && (state === "stale" || state === "away"));
  }

  /** Announces changes, and only changes, to screen readers. */
  announce() {
    if (world.picture === null) return;
    const alarms = new Map(
      world.picture.alarms.filter(isHeard).map((alarm) => [alarmKey(alarm), alarm]),
    );
    const { alarmed } = this;
    if (alarmed !== null) {
      const raised = [...alarms].filter(([key]) => !alarmed.has(key)).map(([, alarm]) => alarm);
      const isCritical = raised.some((alarm) => alarm.level === "critical");
      const words = raised
        .slice(0, 3)
        .map((alarm) => alarmInWords(alarm).title)
        .join(". ");
      if (raised.length) byId(isCritical ? "alert" : "said").textContent = words;
    }
    this.alarmed = new Set(alarms.keys());
  }

  turn() {
    turnTheme();
    this.nameTheme();
  }

  nameTheme() {
    const label = t(isDark() ? "theme.light" : "theme.dark");
    setText(this.theme, isDark() ? "☀" : "☾");
    setAttribute(this.theme, "aria-label", label);
    setAttribute(this.theme, "title", label);
  }
}

/**
 * An auditor has the audit log and no keys.
 * @param {string} view
 */
function addressOf(view) {
  return view === "access" && !may("keys:read") ? "audit" : view;
}

/** @param {() => void} onLogout */
function whoParts(onLogout) {
  const who = person();
  // Without a login, an operator may be known by the proxy in front of us.
  if (!who || (!who.is_login && !who.subject)) return [];
  const tenant = who.tenant === "*" ? t("login.all_tenants") : who.tenant;
  const role = who.role ? t(`role.${who.role}`) : "";
  return [
    h(
      "span",
      { class: "who", title: t(who.key_id ? "login.as" : "login.as_person", { who: who.key_id || who.subject, role, tenant }) },
      role,
      h("span", {}, ` · ${tenant}`),
    ),
    who.is_login && h("button", { type: "button", class: "quiet", id: "logout", click: onLogout }, t("login.log_out")),
  ];
}

/** Said on every page, because every caller can read it. */
function openWarning() {
  if (person()?.auth_mode !== "off") return [];
  return [h("p", { class: "open-door", role: "alert" }, t("access.off"))];
}

/**
 * The state of the connection, with the age of the picture if it is old.
 * @param {Connection} connection
 * @returns {{state: Connection | "stale", oldMs: number | null}}
 */
function freshness(connection) {
  const { picture } = world;
  if (picture === null) return { state: connection, oldMs: null };
  const ageMs = now() - picture.at_ms;
  const isOld = connection !== "live" || picture.is_stale || ageMs > FRESH_MS;
  const state = picture.is_stale && connection !== "away" ? "stale" : connection;
  return { state, oldMs: isOld ? ageMs : null };
}

/** @param {Alarm} alarm */
function isHeard({ level, silenced_until_ms: silencedUntilMs }) {
  return level !== "notice" && !silencedUntilMs;
}
