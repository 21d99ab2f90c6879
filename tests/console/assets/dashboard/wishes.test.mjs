// From the fields of a form to what the scheduler is sent, and its words back to the field they are about.
import assert from "node:assert/strict";
import { test } from "node:test";

import {
  defaultLife,
  faultyField,
  hasField,
  joinString,
  labelsOf,
  limitsOf,
  listOf,
  socketAddress,
  urlWithKey,
  wishOf,
} from "../../../../src/lingua_scheduler/console/assets/dashboard/wishes.js";

/** @import {KeyLook} from "../../../../src/lingua_scheduler/console/assets/shared/types" */

/** @type {KeyLook} */
const KEY = {
  ...{ id: "k", shown: "lk_cl_k", kind: "client", state: "live", name: "", tenant: "acme", role: null, node_id: "" },
  ...{ act_for: [], origins: [], pairs: [], networks: [], labels: {}, max_slots: 0, max_nodes: 0, nodes_live_ms: 0 },
  ...{ needs_approval: false, is_ephemeral: false, is_private: false, enrolled_with: "", successor: "" },
  ...{ created_ms: 0, expires_ms: 0, last_used_ms: 0 },
};

test("a list is written with commas, spaces or lines", () => {
  assert.deepEqual(listOf(" https://a.b,https://c.d\nhttps://a.b ; "), ["https://a.b", "https://c.d"]);
  assert.deepEqual(listOf("  "), []);
});

test("each kind has its own fields", () => {
  assert(hasField("client", "origins"));
  assert(!hasField("service", "origins"));
  assert(hasField("enrol", "max_slots") && hasField("node", "max_slots") && !hasField("client", "max_slots"));
  assert(hasField("metrics", "networks"));
  assert.equal(defaultLife("operator"), 90);
  assert.equal(defaultLife("service"), 0);
});

test("what is sent belongs to the kind and is not empty", () => {
  const values = { name: "", tenant: "acme", role: "admin", origins: ["https://a.b"], pairs: [], labels: {}, signs: false };
  assert.deepEqual(wishOf({ kind: "client", ...values }), { kind: "client", tenant: "acme", origins: ["https://a.b"] });
  assert.deepEqual(wishOf({ kind: "operator", ...values }), { kind: "operator", tenant: "acme", role: "admin" });
  // 0 nodes means any number, so it must be said.
  assert.deepEqual(wishOf({ kind: "enrol", max_nodes: 0, address: "ws://h" }), { kind: "enrol", max_nodes: 0 });
});

test("labels come from fields of their own and from name=value", () => {
  assert.deepEqual(labelsOf({ region: " eu ", trust: "" }, "rack=7, room=b c"), { region: "eu", rack: "7", room: "b c" });
  for (const wrong of ["rack", "=7", "rack=", "region=us"]) {
    assert.throws(() => labelsOf({ region: "eu" }, wrong), /field\.label_/);
  }
});

test("the words of a refusal are shown beside the field they name", () => {
  const names = ["kind", "name", "tenant", "role", "origins", "networks", "labels", "life"];
  assert.equal(faultyField("origins: 'x' is none; write one as https://app.example", names), "origins");
  assert.equal(faultyField('invalid field "labels[...]": expected str matching regex', names), "labels");
  assert.equal(faultyField('invalid field "tenant": expected str matching regex', names), "tenant");
  assert.equal(faultyField("this credential has less than the role admin and may not give it", names), "role");
  assert.equal(faultyField("this credential is of tenant acme and may give no rights of tenant beta", names), "tenant");
  assert.equal(faultyField('invalid field "expires_in_ms": expected int <= 5', names), "life");
  assert.equal(faultyField("there are too many credentials", names), "");
  assert.equal(faultyField("origins: of a field that is not shown", ["kind"]), "");
});

test("an address is one of a socket, wherever the page was opened", () => {
  assert.equal(socketAddress("https://translate.example/", ""), "wss://translate.example");
  assert.equal(socketAddress("localhost:5010", "/ws/node"), "ws://localhost:5010/ws/node");
  assert.equal(socketAddress("wss://h/folder/ws/node", "/ws/session"), "wss://h/folder/ws/session");
  for (const wrong of ["", "ftp://h", "ws://", "a b"]) assert.throws(() => socketAddress(wrong, ""), /field\.address_form/);
});

test("a join string is the one that the command makes", () => {
  // Made by lingua_sdk.joining.JoinString.
  assert.equal(
    joinString("wss://translate.example/café", "lk_en_R9mtIFKkox7V_DmcrMszQmvVjmbzPjxqqkIf03NJ04t200XlmBXKNVdf2onGDV"),
    "lingua-join_d3NzOi8vdHJhbnNsYXRlLmV4YW1wbGUvY2Fmw6kgbGtfZW5fUjltdElGS2tveDdWX0RtY3JNc3pRbXZWam1ielBqeHFxa0lmMDNOSjA0dDIwMFhsbUJYS05WZGYyb25HRFY",
  );
});

test("only keys that can do one thing go into a URL", () => {
  assert.equal(urlWithKey("node", "K", "wss://h"), "wss://h/ws/node?access_token=K");
  assert.equal(urlWithKey("client", "K", "https://h"), "wss://h/ws/session?access_token=K");
  for (const kind of ["operator", "enrol", "metrics"]) assert.equal(urlWithKey(kind, "K", "wss://h"), "");
});

test("what limits a key is listed, and what does not is left out", () => {
  assert.deepEqual(limitsOf(KEY), []);
  const limited = { ...KEY, origins: ["https://a.b"], pairs: ["zh:en", "*:fr"], labels: { region: "eu" }, max_slots: 4 };
  assert.deepEqual(limitsOf(limited), [
    ["origins", "https://a.b"],
    ["pairs", "zh:en, *:fr"],
    ["labels", "region=eu"],
    ["max_slots", "4"],
  ]);
});
