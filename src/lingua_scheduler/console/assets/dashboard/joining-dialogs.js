// Approving a node that joined, and ending the credentials of one.
import { part, post } from "./api.js";
import { confirm } from "./dialogs.js";
import { h } from "./dom.js";
import { checkbox, Field } from "./fields.js";
import { moment } from "./format.js";
import { factList } from "./parts.js";
import { labelText } from "./wishes.js";
import { t } from "./words.js";

/** @import {JoinedNode, KeyLook} from "../shared/types" */

/**
 * @param {JoinedNode} node
 * @param {() => void} onDone
 */
export function askToApprove(node, onDone) {
  confirm({
    title: t("joining.approve_title", { node: node.node_id }),
    body: [
      h("p", {}, t("joining.approve_what")),
      factList([
        [t("joining.labels"), labelText(node.labels) || "–"],
        [t("joining.tenant"), node.tenant],
        [t("joining.joined"), moment(node.created_ms)],
        [t("joining.credential"), h("span", { class: "id" }, node.credential_id)],
      ]),
    ],
    yes: t("joining.approve"),
    act: async () => {
      await post(`v1/nodes/${part(node.node_id)}/approve`);
      onDone();
    },
  });
}

/**
 * @param {JoinedNode} node
 * @param {KeyLook | undefined} invitation with which it joined, if it still lets nodes in
 * @param {() => void} onDone
 */
export function askToBan(node, invitation, onDone) {
  const also = new Field("also", checkbox(), { label: t("joining.ban_also"), hint: t("joining.ban_also_words") });
  confirm({
    title: t(node.is_approved ? "joining.ban_title" : "joining.reject_title", { node: node.node_id || t("joining.first") }),
    body: [h("p", {}, t("joining.ban_what")), invitation && also.element],
    yes: t(node.is_approved ? "joining.ban" : "joining.reject"),
    isDangerous: true,
    act: async () => {
      // A key that no node has used yet is for no node that could be named.
      if (node.node_id) await post(`v1/nodes/${part(node.node_id)}/ban`);
      else await post(`v1/keys/${part(node.credential_id)}/revoke`);
      const isAlso = also.control instanceof HTMLInputElement && also.control.checked;
      if (invitation && isAlso) await post(`v1/keys/${part(invitation.id)}/revoke`);
      onDone();
    },
  });
}
