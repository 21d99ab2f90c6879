// Rotating and revoking a key.
import { part, post } from "./api.js";
import { confirm } from "./dialogs.js";
import { h } from "./dom.js";
import { choice, Field } from "./fields.js";
import { person } from "./person.js";
import { showOnce } from "./secrets.js";
import { DAY_MS } from "./wishes.js";
import { t } from "./words.js";

/** @import {KeyLook} from "../shared/types" */

const OVERLAPS = ["0", "1", "7", "30"];

/**
 * @param {KeyLook} key
 * @param {() => void} onDone
 */
export function askToRotate(key, onDone) {
  const overlap = new Field("overlap", choice(OVERLAPS, overlapWords), { hint: t("hint.overlap") });
  overlap.control.value = "1";
  confirm({
    title: t("access.rotate_title", { key: key.name || key.shown }),
    body: [h("p", {}, t("access.rotate_what")), overlap.element],
    yes: t("access.rotate"),
    act: async () => {
      const wish = { overlap_ms: Number(overlap.control.value) * DAY_MS };
      const { key: text } = await post(`v1/keys/${part(key.id)}/rotate`, wish);
      showOnce(t("access.secret"), [{ label: t("access.key"), text }]);
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
    body: [
      h("p", {}, t(key.kind === "enrol" ? "joining.revoke_what" : "access.revoke_what")),
      isOwn && h("p", { class: "warn" }, t("access.revoke_own")),
    ],
    yes: t("access.revoke"),
    isDangerous: true,
    act: async () => {
      await post(`v1/keys/${part(key.id)}/revoke`);
      onDone();
    },
  });
}

/** @param {string} days */
function overlapWords(days) {
  return days === "0" ? t("access.no_overlap") : t("access.days", { n: Number(days) });
}
