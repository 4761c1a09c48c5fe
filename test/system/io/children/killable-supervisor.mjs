// A supervisor that a test kills: node killable-supervisor.mjs <task as JSON>
//
//   home, instanceId   the instance to continue
//   spawn              [input, options]s to start before anything else
//   follow             file to write stdout to; each chunk is acknowledged after it was written
//   feed               file to write to stdin, from the offset that the anchor has accepted; says when it has begun
//   pauseMs            after each chunk or piece
//   lastly             "cancel" or "write": do that to the run, then end by SIGKILL at once
import { openSync, readFileSync, writeSync } from "node:fs";
import { setTimeout } from "node:timers/promises";
import { openSupervisor } from "../../../../dist/index.js";
import { stdinAccepted } from "./stdin-accepted.mjs";

const task = JSON.parse(process.argv[2]);
const { home, instanceId, pauseMs = 0 } = task;
const supervisor = await openSupervisor({ home, instanceId });
const runs = [...(await supervisor.recover())];
for (const [input, options] of task.spawn ?? []) runs.push(await supervisor.spawn(input, options));
console.log(JSON.stringify(runs.map(({ runId }) => runId)));

const [run] = runs;
if (run !== undefined) {
  if (task.lastly === "cancel") await run.cancel({ actor: "the first", requestId: "r1", graceMs: 100 });
  if (task.lastly === "write") await run.write("from the first\n");
  if (task.lastly !== undefined) process.kill(process.pid, "SIGKILL");
  await Promise.all([
    task.follow === undefined ? null : follow(openSync(task.follow, "a")),
    task.feed === undefined ? null : feed(readFileSync(task.feed)),
  ]);
}
await setTimeout(2 ** 31 - 1);

async function follow(file) {
  for await (const { offset, bytes } of run.follow({ streams: ["stdout"], ack: true })) {
    // In one call, so that a kill does not cut it.
    const head = Buffer.alloc(16);
    head.writeBigUInt64LE(BigInt(offset), 0);
    head.writeBigUInt64LE(BigInt(bytes.length), 8);
    writeSync(file, Buffer.concat([head, bytes]));
    await setTimeout(pauseMs);
  }
}

async function feed(input) {
  const sizes = [1, 999, 20_000, 70_001];
  for (let at = await stdinAccepted(supervisor, run.runId), turn = 0; at < input.length; turn += 1) {
    const piece = input.subarray(at, at + sizes[turn % sizes.length]);
    await run.write(piece);
    at += piece.length;
    if (turn === 0) console.log("fed");
    await setTimeout(pauseMs);
  }
}
