// The order of instances.
import assert from "node:assert/strict";
import { test } from "node:test";

import { listed } from "../../../../src/lingua_scheduler/console/assets/dashboard/instances.js";

/** @import {InstanceLook} from "../../../../src/lingua_scheduler/console/assets/shared/types" */

test("living instances come first, those that were stopped last", () => {
  const instances = /** @type {InstanceLook[]} */ (
    /** @type {unknown} */ ([
      { instance_id: "a", is_alive: false, has_left: true },
      { instance_id: "b", is_alive: false, has_left: false },
      { instance_id: "c", is_alive: true, has_left: false },
    ])
  );
  assert.deepEqual(
    listed(instances).map((one) => one.instance_id),
    ["c", "b", "a"],
  );
});
