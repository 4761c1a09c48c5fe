// Sends "ready", waits for a message, opens the store, and sends "opened".
import { once } from "node:events";

const [dist, path] = process.argv.slice(2);
const { openSqliteStore } = await import(`${dist}/store/sqlite/open.js`);
process.send("ready");
await once(process, "message");
const opened = await openSqliteStore({ path });
await opened.appendEvents([
  { type: "attach", runId: String(process.pid), at: 0, rootPid: null, descendants: 0, data: {} },
]);
process.send("opened");
process.disconnect();
