// Another process answers on a dead anchor's socket: node fake-anchor.mjs <helper> <claim>. Prints the result.
//
//   innocent   it reports a bystander as the root of the run, then disconnects
//   echo       it reports the recorded identities, then a successful end of the run
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { rm } from "node:fs/promises";
import { createServer } from "node:net";
import { join } from "node:path";
import {
  decodeMessage,
  encodeMessage,
  FrameDecoder,
  openSupervisor,
  recordRuns,
  temporaryHome,
} from "./parts.mjs";
import { Bystander } from "./bystander.mjs";

/** Longer than every timeout of a supervisor. */
const PATIENCE_MS = 8_000;

const [, , helper, claim] = process.argv;
const home = await temporaryHome();
const [root, anchor] = [await vanished(), await vanished()];
const innocent = await Bystander.make(helper, "hold", "--setsid");
const [runId] = await recordRuns(home, "in_faked", [{ root, anchor }]);
const directory = join(home, "instances/in_faked/runs", runId);
mkdirSync(directory, { recursive: true, mode: 0o700 });
writeFileSync(join(directory, "key"), "f".repeat(64), { mode: 0o600 });
const received = [];
const fake = createServer(serve);
await new Promise((resolve) => fake.listen(join(directory, "sock"), resolve));

const supervisor = await openSupervisor({ home, instanceId: "in_faked" });
const live = await supervisor.recover();
await Promise.race([
  Promise.all(live.map((run) => run.wait())),
  new Promise((resolve) => setTimeout(resolve, PATIENCE_MS).unref()),
]);
const record = await supervisor.getRun(runId);
await supervisor.close({ leaveRuns: true });
const { state, exit } = record;
const fate = await innocent.fate();
console.log(
  JSON.stringify({ live: live.length, received, state, exit, root: record.root, recorded: root, fate }),
);
fake.close();
await rm(home, { recursive: true, force: true });
process.exit(0);

function serve(socket) {
  const decoder = new FrameDecoder();
  socket.on("error", () => {});
  socket.on("data", (chunk) => {
    for (const frame of decoder.push(chunk)) {
      const message = decodeMessage(frame);
      received.push(message.name);
      if (message.name === "hello") answer(socket, message.epoch);
    }
  });
}

function answer(socket, epoch) {
  const said = claim === "echo" ? root : innocent.identity;
  socket.write(
    encodeMessage("welcome", {
      ...{ protocol: 1, epoch: Math.max(1, epoch), phase: 2 },
      ...{ rootPid: said.pid, rootStart: said.startTime, rootUnique: said.uniqueId },
      ...{ anchorPid: anchor.pid, anchorStart: anchor.startTime, anchorUnique: anchor.uniqueId },
      ...{ tier: "subreaper+launcher+unique", tierNote: null, cgroup: null, cgroupInode: null },
      ...{ kind: 0, elapsedMs: 0, outWithheld: false, errWithheld: false },
      ...{ outStart: 0, outEnd: 0, outAcked: 0, outDropped: 0, outClosed: false },
      ...{ errStart: 0, errEnd: 0, errAcked: 0, errDropped: 0, errClosed: false },
      ...{ offset: 0, limit: 65_536, closed: false },
      ...{ reason: null, actor: null, requestId: null, code: null, signal: null },
    }),
  );
  if (epoch === 0) return;
  if (claim === "echo") socket.write(encodeMessage("exited", { json: JSON.stringify(happyEnd()) }));
  else leave(socket);
}

function leave(socket) {
  fake.close();
  rmSync(join(directory, "sock"), { force: true });
  setTimeout(() => socket.destroy(), 50);
}

function happyEnd() {
  const range = { start: 0, end: 0, dropped: 0 };
  return {
    ...{
      protocol: 1,
      runId,
      executed: true,
      reason: "exit",
      actor: "",
      requestId: "",
      leader: { code: 0 },
      spawnError: null,
    },
    ...{
      residue: [],
      residueCount: 0,
      killMode: "none",
      emptiness: "proven",
      stdout: range,
      stderr: range,
      processes: 1,
    },
    ...{ usage: { cpuMs: 1, peakKb: 1 }, durationMs: 1 },
  };
}

/** The identity of a process that has ended. */
async function vanished() {
  const process = await Bystander.make(helper, "hold");
  await process.fate();
  return process.identity;
}
