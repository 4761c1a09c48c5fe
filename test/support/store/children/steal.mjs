// Tries to steal each lease that it is sent, and sends the ids of the stolen runs.
import { once } from "node:events";

const [dist, path, thief] = process.argv.slice(2);
const { openSqliteStore } = await import(`${dist}/store/sqlite/open.js`);
const opened = await openSqliteStore({ path });
process.send("ready");
const [leases] = await once(process, "message");
const stolen = [];
for (const { runId, ownerInstanceId, epoch } of leases) {
  const from = { ownerInstanceId, epoch };
  const claim = { runId, from, ownerInstanceId: thief, epoch: epoch + 1, leaseMs: 30_000, expiredForMs: 0 };
  if ((await opened.acquireLease(claim)) !== null) stolen.push(runId);
}
process.send(stolen);
process.disconnect();
