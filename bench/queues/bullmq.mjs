// A client or a worker of BullMQ:  node bullmq.mjs client|worker FOLDER_OF_PACKAGES SOCKET
// A client speaks as bench/load.py does: orders in, tallies out, one JSON object a line.
import { createRequire } from "node:module";
import { createInterface } from "node:readline";

const QUEUE = "jobs";
// Jobs a worker runs at once.
const ROOM = 1000;

const [role, folder, path] = process.argv.slice(2);
const packages = createRequire(`${folder}/`);
const { Queue, QueueEvents, Worker } = packages("bullmq");
const { Redis } = packages("ioredis");

const connect = () => new Redis({ path, maxRetriesPerRequest: null });

function work() {
  new Worker(QUEUE, async () => {}, { connection: connect(), concurrency: ROOM }).on("error", fail);
}

async function obey() {
  const queue = new Queue(QUEUE, { connection: connect(), defaultJobOptions: { removeOnComplete: true } });
  // The caller learns of outcomes from the stream of events that BullMQ writes anyway.
  const events = new QueueEvents(QUEUE, { connection: connect() });
  await events.waitUntilReady();
  let heard = () => {};
  events.on("completed", () => heard());
  tell({});
  for await (const line of createInterface({ input: process.stdin })) {
    const order = JSON.parse(line);
    tell(await carryOut(queue, order.jobs, order.in_flight, (listener) => (heard = listener)));
  }
  process.exit(0);
}

/** So many jobs, never more than `inFlight` under way; resolves when the last outcome is known. */
function carryOut(queue, jobs, inFlight, listen) {
  const cpu = process.cpuUsage();
  const began = performance.now();
  let sent = 0;
  let over = 0;
  let scheduled = false;
  return new Promise((resolve) => {
    const send = () => {
      scheduled = false;
      const due = Math.min(jobs - sent, inFlight - (sent - over));
      const batch = [];
      for (let i = 0; i < due; i++) batch.push({ name: "job", data: sent + i });
      sent += due;
      queue.addBulk(batch).catch(fail);
    };
    listen(() => {
      over += 1;
      if (over === jobs) {
        const { user, system } = process.cpuUsage(cpu);
        resolve({ jobs, took_s: (performance.now() - began) / 1e3, cpu_s: (user + system) / 1e6 });
      } else if (sent < jobs && !scheduled) {
        scheduled = true;
        setImmediate(send); // all that came with one read of the stream is one bulk
      }
    });
    send();
  });
}

function tell(tally) {
  process.stdout.write(`${JSON.stringify(tally)}\n`);
}

function fail(error) {
  process.stderr.write(`${error}\n`);
  process.exit(1);
}

if (role === "worker") work();
else obey().catch(fail);
