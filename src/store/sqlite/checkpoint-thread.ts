import { parentPort, workerData } from "node:worker_threads";
import { DatabaseSync } from "@photostructure/sqlite";

// The thread of BackgroundCheckpoints, with a connection of its own to the database at `workerData.path`. A message
// requests a checkpoint, null the end of the thread.

const { path, restartPages, restartBusyMs } = workerData as {
  readonly path: string;
  readonly restartPages: number;
  readonly restartBusyMs: number;
};
const db = new DatabaseSync(path, { timeout: restartBusyMs });
// The order of syncs that WAL needs: the log before its pages are copied, the database before the log is overwritten.
db.exec("pragma synchronous = normal");
const passive = db.prepare("pragma wal_checkpoint(passive)");
const restart = db.prepare("pragma wal_checkpoint(restart)");

parentPort?.on("message", (request: unknown) => {
  if (request === null) {
    db.close();
    parentPort?.close();
    return;
  }
  const [result] = passive.all() as { log: number }[];
  // Commits during a checkpoint keep the log from being overwritten from its start, and a flood of them would let it
  // grow. This one holds them off, and has little left to copy.
  if (result !== undefined && result.log >= restartPages) restart.all();
  // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread has none
  parentPort?.postMessage(null);
});
