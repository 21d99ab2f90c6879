// Creating, rotating and revoking a key. A secret is shown once: the scheduler itself keeps only a digest of it.
import { part, post } from "./api.js";
import { confirm, tell } from "./dialogs.js";
import { h, setText, show } from "./dom.js";
import { person } from "./person.js";
import { t } from "./words.js";

/** @import {KeyLook} from "../shared/types" */

const KINDS = ["client", "service", "node", "operator", "metrics"];
const ROLES = ["viewer", "operator", "admin", "auditor"];
const DAY_MS = 86_400_000;
const LIVES = [0, 30, 90, 365];
const OVERLAPS = [0, 1, 7, 30];
const NAME_LENGTH = 128;

/** @param {() => void} onDone */
export function askToCreate(onDone) {
  const kind = choice("kind", KINDS, (name) => t(`kind.${name}`));
  const name = h("input", { type: "text", maxlength: String(NAME_LENGTH), autocomplete: "off" });
  const role = choice("role", ROLES, (word) => t(`role.${word}`));
  const tenant = h("input", { type: "text", autocomplete: "off", value: ownTenant() });
  const nodeId = h("input", { type: "text", autocomplete: "off" });
  const life = choice("life", LIVES.map(String), lifeWords);
  const roleField = field("role", role);
  const nodeField = field("node_id", nodeId);
  const fit = () => {
    show(roleField, kind.value === "operator");
    show(nodeField, kind.value === "node");
  };
  kind.addEventListener("change", fit);
  fit();
  confirm({
    title: t("access.create"),
    body: [
      field("kind", kind),
      field("name", name),
      roleField,
      nodeField,
      field("tenant", tenant),
      field("life", life),
    ],
    yes: t("access.create"),
    act: async () => {
      const wish = {
        kind: kind.value,
        name: name.value.trim(),
        expires_in_ms: Number(life.value) * DAY_MS,
        ...(tenant.value.trim() ? { tenant: tenant.value.trim() } : {}),
        ...(kind.value === "operator" ? { role: role.value } : {}),
        ...(kind.value === "node" ? { node_id: nodeId.value.trim() } : {}),
      };
      showOnce((await post("v1/keys", wish)).key);
      onDone();
    },
  });
}

/**
 * @param {KeyLook} key
 * @param {() => void} onDone
 */
export function askToRotate(key, onDone) {
  const overlap = choice("overlap", OVERLAPS.map(String), overlapWords);
  overlap.value = "1";
  confirm({
    title: t("access.rotate_title", { key: key.name || key.shown }),
    body: [h("p", {}, t("access.rotate_what")), field("overlap", overlap)],
    yes: t("access.rotate"),
    act: async () => {
      const { key: text } = await post(`v1/keys/${part(key.id)}/rotate`, { overlap_ms: Number(overlap.value) * DAY_MS });
      showOnce(text);
      onDone();
    },
  });
}

/**
 * @param {KeyLook} key
 * @param {() => void} onDone
 */
export function askToRevoke(key, onDone) {
  const isOwn = key.id === person()?.key_id;
  confirm({
    title: t("access.revoke_title", { key: key.name || key.shown }),
    body: [h("p", {}, t("access.revoke_what")), isOwn && h("p", { class: "warn" }, t("access.revoke_own"))],
    yes: t("access.revoke"),
    act: async () => {
      await post(`v1/keys/${part(key.id)}/revoke`);
      onDone();
    },
  });
}

/** @param {string} text */
function showOnce(text) {
  const secret = h("code", { class: "secret", tabindex: "0" }, text);
  const copied = h("span", { role: "status" });
  const copy = async () => {
    getSelection()?.selectAllChildren(secret);
    try {
      await navigator.clipboard.writeText(text);
      setText(copied, t("access.copied"));
    } catch {
      // The browser does not let this page write there; the text is selected at least.
      setText(copied, t("access.copy_yourself"));
    }
  };
  tell(t("access.secret"), [
    h("p", { class: "warn" }, t("access.once")),
    h("p", {}, secret),
    h("p", { class: "copy" }, h("button", { type: "button", click: copy }, t("access.copy")), copied),
  ]);
}

/** A caller for all tenants must say which one, unless the key is for all as well. */
function ownTenant() {
  const tenant = person()?.tenant ?? "";
  return tenant === "*" ? "default" : tenant;
}

/**
 * @param {string} name
 * @param {readonly string[]} values
 * @param {(value: string) => string} words
 */
function choice(name, values, words) {
  return h("select", { name }, values.map((value) => h("option", { value }, words(value))));
}

/**
 * @param {string} name
 * @param {HTMLElement} control
 */
function field(name, control) {
  return h("label", { class: "field" }, h("span", {}, t(`access.${name}`)), control);
}

/** @param {string} days */
function lifeWords(days) {
  return days === "0" ? t("access.forever") : t("access.days", { n: Number(days) });
}

/** @param {string} days */
function overlapWords(days) {
  return days === "0" ? t("access.no_overlap") : t("access.days", { n: Number(days) });
}
