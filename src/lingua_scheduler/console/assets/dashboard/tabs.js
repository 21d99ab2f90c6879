// The pages behind Access, as far as the person may see them.
import { h } from "./dom.js";
import { day, moment } from "./format.js";
import { may } from "./person.js";
import { href } from "./routes.js";
import { t } from "./words.js";

const TABS = [
  ["access", "keys:read", "access.title"],
  ["joining", "keys:read", "joining.title"],
  ["audit", "audit:read", "audit.title"],
];

/** @param {string} current */
export function accessTabs(current) {
  const seen = TABS.filter(([, scope]) => may(scope));
  if (seen.length < 2) return null;
  const links = seen.map(([name, , word]) =>
    h("a", { href: href(name), "aria-current": name === current ? "page" : null }, t(word)),
  );
  return h("nav", { class: "tabs", "aria-label": t("view.access") }, links);
}

/**
 * A cell of a table that is drawn as cards on narrow screens, where it has its name beside it.
 * @param {string} name
 * @param {...(Node | string | null)} children
 */
export function cell(name, ...children) {
  return h("td", { "data-name": name }, ...children);
}

/**
 * @param {string} caption
 * @param {string[]} heads
 * @param {Element} body
 * @param {string} [look]
 */
export function cardTable(caption, heads, body, look = "") {
  return h(
    "div",
    { class: "scroll" },
    h(
      "table",
      { class: `table cards ${look}` },
      h("caption", { class: "unseen" }, caption),
      h("thead", {}, h("tr", {}, heads.map((name) => h("th", { scope: "col" }, name)))),
      body,
    ),
  );
}

/**
 * @param {string} label
 * @param {string} object what it is done to, for those who hear the button alone
 * @param {() => void} click
 * @param {string} [look]
 */
export function rowButton(label, object, click, look = "") {
  return h("button", { type: "button", class: look || null, "aria-label": `${label} ${object}`, click }, label);
}

/**
 * A day; the moment is told to those who point at it.
 * @param {number} atMs
 */
export function dayOf(atMs) {
  return atMs ? h("time", { datetime: new Date(atMs).toISOString(), title: moment(atMs) }, day(atMs)) : "–";
}
