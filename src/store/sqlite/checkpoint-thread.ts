import { statSync } from "node:fs";
import { pathToFileURL } from "node:url";
import { parentPort, workerData } from "node:worker_threads";
import { DatabaseSync } from "@photostructure/sqlite";
import type { CheckpointThreadData } from "./background-checkpoints.js";

// The thread of BackgroundCheckpoints, with a connection of its own to the database at `workerData.path`. A message
// requests a checkpoint, null the end of the thread.

const { path, device, inode, memoryDatabase, restartPages, restartBusyMs } =
  workerData as CheckpointThreadData;
requireSameCopy();
requireSameFile();
// Without `mode=rw`, SQLite would create a file that was moved away, and delete the log beside it.
const db = new DatabaseSync(`${pathToFileURL(path).href}?mode=rw`, { timeout: restartBusyMs });
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

function requireSameCopy(): void {
  const memory = new DatabaseSync(memoryDatabase);
  const found = memory.prepare("select 1 from sqlite_schema where name = 'same_copy'").get();
  memory.close();
  if (found === undefined) throw new Error("the gateway has another copy of SQLite");
}

function requireSameFile(): void {
  const file = statSync(path, { bigint: true });
  if (file.dev !== device || file.ino !== inode) throw new Error(`${path} was replaced`);
}
