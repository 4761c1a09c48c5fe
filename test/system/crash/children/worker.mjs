// Ends the open tasks of its predecessor, then starts and ends tasks of its own, and sends their notifications.
//   node worker.mjs <built> <store: a path or a database's address> <receiver> <name> <step> <times>
// It kills itself at a step (see ../notifier-crash.test.ts) when it gets there for the nth time; with step "none" it
// ends when everything is delivered.
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const [built, path, receiver, name, step, times] = process.argv.slice(2);
const load = (file) => import(pathToFileURL(join(built, file)).href);
const { Tasks } = await load("tasks/tasks.js");
const { Notifier } = await load("tasks/notifier.js");
const { sweepTasks } = await load("tasks/maintenance-pass.js");

const TASKS = 3;
let left = Number(times);

/** The kernel ends the process before its next instruction. */
function at(here) {
  if (here !== step) return;
  left -= 1;
  if (left === 0) process.kill(process.pid, "SIGKILL");
}

const store = path.startsWith("postgres:")
  ? await (await load("store/postgres/open.js")).openPostgresStore({ url: path, name })
  : await (await load("store/sqlite/open.js")).openSqliteStore({ path });
/** A call of the store, with a step before and one after it. */
const between = (call, before, after) =>
  async function (...given) {
    at(before(...given));
    const answer = await store[call](...given);
    at(after(...given));
    return answer;
  };
const isEnd = (_id, _version, change) => change.set?.endedAt !== undefined;
const stepped = {
  listTasks: (filter) => store.listTasks(filter),
  getTask: (taskId) => store.getTask(taskId),
  deleteTasks: (ids) => store.deleteTasks(ids),
  releaseOutbox: (owner) => store.releaseOutbox(owner),
  nextOutboxDelay: () => store.nextOutboxDelay(),
  insertTask: between(
    "insertTask",
    () => null,
    () => "created",
  ),
  commitTask: between(
    "commitTask",
    (...given) => isEnd(...given) && "finishing",
    (...given) => (isEnd(...given) ? "committed" : "started"),
  ),
  claimOutbox: between(
    "claimOutbox",
    () => "claiming",
    () => "claimed",
  ),
  settleOutbox: between(
    "settleOutbox",
    () => "settling",
    () => "settled",
  ),
};

async function deliver(_target, notification, signal) {
  at("sending");
  const answer = await fetch(receiver, { method: "POST", body: JSON.stringify(notification), signal });
  if (!answer.ok) throw new Error(`the receiver said ${answer.status}`);
  at("answered");
  return { status: "delivered", receipt: null };
}
const limits = { retryMs: 10, maxRetryMs: 10, pollMs: 20 };
const notifier = new Notifier({ store: stepped, deliver, owner: "worker", limits });
const tasks = new Tasks({ store: stepped, onNotice: () => notifier.wake() });
const finish = () => ({
  type: "finish",
  at: Date.now(),
  status: "succeeded",
  outcome: "succeeded",
  summary: "done",
  error: null,
  actor: "",
  startedAt: Date.now(),
});
notifier.start();
await sweepTasks({
  store: stepped,
  tasks,
  now: Date.now,
  apply: true,
  workStatusOf: async () => ({ state: "ended", finish: finish() }),
});
const target = { kind: "channel", channel: "test", address: null };
for (let n = 0; n < TASKS; n++) {
  const { task } = await tasks.create({
    runtime: "external",
    key: `caller:operator:${name}-${n}`,
    text: "work",
    targets: [target],
    policy: n % 2 === 0 ? "done_only" : "state_changes",
  });
  await tasks.apply(task.taskId, { type: "start", at: Date.now() });
  await tasks.apply(task.taskId, finish());
}
while ((await store.listOutbox({ statuses: ["pending"] })).length > 0)
  await new Promise((resolve) => setTimeout(resolve, 5));
await notifier.stop();
await store[Symbol.asyncDispose]();
process.disconnect();
