// Reclaims one run again and again, says which epochs it got.
import { once } from "node:events";

const [store, path, runId, times] = process.argv.slice(2);
const { openSqliteStore } = await import(`${store}/sqlite/open.js`);
const opened = await openSqliteStore({ path });
process.send("ready");
await once(process, "message");
const epochs = [];
for (let count = 0; count < Number(times); count += 1) {
  const lease = await opened.reclaimLease(runId, "owner-a", 0, 30_000);
  epochs.push(lease.epoch);
}
process.send(epochs);
process.disconnect();
