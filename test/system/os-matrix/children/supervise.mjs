// Supervises one command until it is killed: node supervise.mjs <library> <home> <instanceId> <io> <argv ...>
import { pathToFileURL } from "node:url";

const [, , library, home, instanceId, io, ...argv] = process.argv;
const { openSupervisor } = await import(pathToFileURL(library).href);
const supervisor = await openSupervisor({ home, instanceId });
const run = await supervisor.spawn({ io, argv }, { graceMs: 300 });
console.log(run.runId);
