import assert from "node:assert/strict";
import { test } from "node:test";

import { People } from "../../../../src/lingua_scheduler/console/assets/room/people.js";

/**
 * @param {string} id
 * @param {object} [more]
 */
function member(id, more = {}) {
  return { sessionId: id, name: id.toUpperCase(), language: "en", speaks: "", role: "", ...more };
}

/**
 * @param {People} people
 * @param {any[]} members
 */
function tell(people, members, more = {}) {
  return people.told({ members, guests: 0, isLocked: false, ...more });
}

test("who comes and goes is told, but not at first, and not of oneself", () => {
  const people = new People((number) => `Person ${number}`);
  people.become("me");
  assert.deepEqual(tell(people, [member("me"), member("a")]), { came: [], left: [] });
  const { came, left } = tell(people, [member("me"), member("b")]);
  assert.deepEqual([came.map(({ name }) => name), left.map(({ name }) => name)], [["B"], ["A"]]);
  assert.deepEqual(people.ids, ["me", "b"]);
});

test("a person without a name has a number, and the name that was known stays", () => {
  const people = new People((number) => `Person ${number}`);
  tell(people, [member("a", { name: "" }), member("b")]);
  assert.deepEqual(people.all.map(({ name }) => name), ["Person 1", "B"]);
  tell(people, [member("a", { name: "" })]);
  assert.equal(people.who("b").name, "B");
  assert.equal(people.who("c", "Cleo").name, "Cleo");
});

test("roles, the lock and the guests are known", () => {
  const people = new People(String);
  people.become("me");
  tell(people, [member("me", { role: "host" }), member("a", { role: "listener" }), member("b", { role: "?" })], {
    ...{ guests: 3, isLocked: true },
  });
  assert.deepEqual(people.all.map(({ role }) => role), ["host", "listener", ""]);
  assert(people.isHost && people.isLocked);
  assert.equal(people.guests, 3);
  tell(people, [member("a", { role: "host" }), member("me", { role: "listener" })]);
  assert(!people.isHost && !people.isLocked);
});

test("one who speaks stops, also when the end of it was lost", () => {
  const people = new People(String);
  tell(people, [member("a"), member("b")]);
  people.speaks("a", true, 1_000);
  people.speaks("stranger", true, 1_000);
  assert.deepEqual(people.all.map(({ isSpeaking }) => isSpeaking), [true, false]);
  assert(!people.tire(20_000));
  assert(people.tire(21_001));
  assert.deepEqual(people.all.map(({ isSpeaking }) => isSpeaking), [false, false]);
});

test("what one said in a session before is one's own, and its end is no news", () => {
  const people = new People(String, ["before"]);
  people.become("first");
  people.become("me");
  tell(people, [member("me"), member("first"), member("a")]);
  assert.deepEqual(["before", "first", "me", "a"].map((id) => people.who(id).isMe), [true, true, true, false]);
  // In the list the person is there once, as the session that is open.
  assert.deepEqual(people.all.map(({ isMe }) => isMe), [true, false, false]);
  assert.deepEqual(tell(people, [member("me"), member("a")]).left, []);
});
