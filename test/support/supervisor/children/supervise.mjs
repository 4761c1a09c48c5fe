// Supervises one shell script until it is killed: node supervise.mjs <open.js> <home> <instanceId> <script>
const [, , open, home, instanceId, script] = process.argv;
const { openSupervisor } = await import(open);
const supervisor = await openSupervisor({ home, instanceId });
const run = await supervisor.spawn({ io: "pipe", argv: ["/bin/sh", "-c", script] });
await run.write("from the first\n");
// Read, so that the start is on record.
await supervisor.getRun(run.runId);
console.log(run.runId);
