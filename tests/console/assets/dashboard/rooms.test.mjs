// Languages of rooms: the most wanted first, and none without a name.
import assert from "node:assert/strict";
import { test } from "node:test";

import { languageLines } from "../../../../src/lingua_scheduler/console/assets/dashboard/rooms.js";

/** @import {RoomsLook} from "../../../../src/lingua_scheduler/console/assets/shared/types" */

/** @param {Partial<RoomsLook>} more */
const rooms = (more) => ({ rooms: 1, members: 1, guests: 0, languages: {}, lag_p50_ms: {}, lag_p95_ms: {}, ...more });

test("languages are listed by their listeners, with their lag where there is one", () => {
  const lines = languageLines(
    rooms({ languages: { ja: 1, en: 3, de: 1 }, lag_p50_ms: { en: 800, fr: 5 }, lag_p95_ms: { en: 1500, fr: 9 } }),
  );
  assert.deepEqual(
    lines.map(({ language, listeners, p50, p95 }) => [language, listeners, p50, p95]),
    [
      ["en", 3, 800, 1500],
      ["de", 1, null, null],
      ["ja", 1, null, null],
      ["fr", 0, 5, 9],
    ],
  );
});

test("no rooms have no languages", () => {
  assert.deepEqual(languageLines(rooms({})), []);
});
