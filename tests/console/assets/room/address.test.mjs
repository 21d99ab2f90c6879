import assert from "node:assert/strict";
import { test } from "node:test";

import { digits, fragmentOf, isCode, linkTo, readAddress, spaced } from "../../../../src/lingua_scheduler/console/assets/room/address.js";

const NONE = { code: "", isGuest: false, token: "" };

test("a code is read from the fragment, or from the query", () => {
  assert.deepEqual(readAddress({ hash: "#483920", search: "" }), { ...NONE, code: "483920" });
  assert.deepEqual(readAddress({ hash: "", search: "?code=483920" }), { ...NONE, code: "483920" });
  assert.deepEqual(readAddress({ hash: "#483920&listen", search: "" }), { ...NONE, code: "483920", isGuest: true });
  assert.deepEqual(readAddress({ hash: "#483920&token=a.b-c_d", search: "" }), { ...NONE, code: "483920", token: "a.b-c_d" });
  assert.deepEqual(readAddress({ hash: "", search: "?code=483920&listen" }), { ...NONE, code: "483920", isGuest: true });
});

test("a token may be there without a code, and is none itself", () => {
  for (const hash of ["#token=123456.b-c_d", "#&token=123456.b-c_d"]) {
    assert.deepEqual(readAddress({ hash, search: "" }), { ...NONE, token: "123456.b-c_d" });
  }
  assert.deepEqual(readAddress({ hash: "#token=a&listen", search: "" }), { ...NONE, isGuest: true, token: "a" });
  assert.deepEqual(readAddress({ hash: "#token=a", search: "?code=483920" }), { ...NONE, code: "483920", token: "a" });
});

test("what is written into the address is what is read from it", () => {
  for (const invitation of [
    { code: "483920", isGuest: false, token: "" },
    { code: "483920", isGuest: true, token: "a.b-c_d" },
  ]) {
    assert.deepEqual(readAddress({ hash: fragmentOf(invitation), search: "" }), invitation);
  }
});

test("what is no code is none", () => {
  for (const hash of ["", "#", "#48392", "#4839201", "#listen", "#<script>"]) {
    assert.deepEqual(readAddress({ hash, search: "?x=1" }), NONE);
  }
});

test("the link is the page with the code, and without a token", () => {
  const page = "https://talk.example.org/pre/room?code=1#483920&token=secret";
  assert.equal(linkTo(page, "123456"), "https://talk.example.org/pre/room#123456");
});

test("a code may be typed with spaces, or pasted as a link", () => {
  assert.equal(digits(" 483 920 "), "483920");
  assert.equal(digits("483-920"), "483920");
  assert.equal(digits("https://talk.example.org:5010/room#483920&listen"), "483920");
  assert.equal(digits("https://talk.example.org/room?code=483920"), "483920");
  assert(isCode("483920"));
  assert(!isCode("48392a"));
  assert.equal(spaced("483920"), "483 920");
});
