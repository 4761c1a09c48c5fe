// Starts runs through the library and holds them until it is killed:
//   node leave-runs.mjs <library> <home> <JSON: [[script, options], …]>
import { setImmediate } from "node:timers/promises";
import { pathToFileURL } from "node:url";

const [library, home, wanted] = process.argv.slice(2);
const { openSupervisor } = await import(pathToFileURL(library).href);
const supervisor = await openSupervisor({ home });
const runs = await Promise.all(
  JSON.parse(wanted).map(async ([script, options]) => {
    const run = await supervisor.spawn({ io: "pipe", argv: ["/bin/sh", "-c", script] }, options);
    // The script prints something when all its processes have started.
    for await (const _ of run.follow({ streams: ["stdout"] })) break;
    // The state `running` is written a moment later, or before a read.
    while ((await supervisor.getRun(run.runId))?.state === "starting") await setImmediate();
    return run.runId;
  }),
);
process.stdout.write(`${JSON.stringify(runs)}\n`);
