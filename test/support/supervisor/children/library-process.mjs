// A process that uses the library as a test commands: each line on stdin is an order, each line on stdout an answer.
//   node library-process.mjs <library>
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const { openSupervisor } = await import(pathToFileURL(process.argv[2]).href);
const say = (what, facts = {}) => process.stdout.write(`${JSON.stringify({ say: what, ...facts })}\n`);
let supervisor;
let run;
let closed = false;

const orders = {
  async open({ home, instanceId }) {
    const onProblem = ({ message }) => say("problem", { message });
    supervisor = await openSupervisor({ home, instanceId, actor: "test", onProblem });
    say("opened");
  },
  async spawn({ input, options }) {
    run = await supervisor.spawn(input, options);
    say("started", { runId: run.runId, record: await supervisor.getRun(run.runId) });
    const passed = pass(run);
    void run.wait().then(
      async (record) => {
        say("ended", { record });
        await passed;
        say("silent");
      },
      (error) => say("failed", { message: String(error) }),
    );
  },
  async recover() {
    const found = await supervisor.recover();
    say("recovered", { runIds: found.map(({ runId }) => runId) });
    for (const each of found) void each.wait().then((record) => say("ended", { record }));
  },
  async cancel({ options }) {
    await run.cancel(options);
  },
  async write({ data }) {
    await run.write(data);
  },
  async look() {
    const { state, survivors, firstStop } = run;
    say("looked", { state, survivors, firstStop, record: await supervisor.getRun(run.runId) });
  },
  async list() {
    say("listed", { runs: await supervisor.listRuns(), events: await supervisor.listEvents() });
  },
  async close() {
    closed = true;
    await supervisor.close();
    say("closed");
  },
};

async function pass(from) {
  const decoders = { stdout: new TextDecoder(), stderr: new TextDecoder() };
  for await (const { stream, bytes } of from.follow())
    say("output", { stream, text: decoders[stream].decode(bytes, { stream: true }) });
}

for await (const line of createInterface({ input: process.stdin })) {
  const { order, ...given } = JSON.parse(line);
  try {
    await orders[order](given);
  } catch (error) {
    say("failed", { message: `${order}: ${error?.stack ?? error}` });
  }
}
// The test has ended. Without an order to close, this counts as a crash.
if (!closed) process.exit(3);
