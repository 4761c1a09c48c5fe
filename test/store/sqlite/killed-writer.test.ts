import { join, resolve } from "node:path";
import { DatabaseSync } from "@photostructure/sqlite";
import { expect, test } from "vitest";
import { openSqliteStore } from "../../../src/store/sqlite/open.js";
import { startChild } from "../../support/store/child-process.js";
import { temporaryDirectory } from "../../support/temporary-directory.js";

const order = ["starting", "running", "exited"];
const rounds = process.env["HOLDFAST_SOAK"] === "1" ? 100 : 8;

test("a writer killed at any moment loses no committed record, and leaves none half written", async () => {
  await using directory = await temporaryDirectory();
  const path = join(directory.path, "store.sqlite");
  const promised = new Map<string, string>();
  for (let round = 0; round < rounds; round += 1) {
    await using writer = startChild("write-runs", resolve("dist"), path, `round${round}`);
    // A different number of words each time, so that the kill falls into different moments.
    for (let words = 0; words < 20 + round * 7; words += 1) {
      const { runId, state } = (await writer.next()) as { runId: string; state: string };
      promised.set(runId, state);
    }
    await writer.kill();

    await using store = await openSqliteStore({ path });
    const records = new Map((await store.listRuns({})).map((record) => [record.runId, record]));
    const events = await store.listEvents({});
    for (const [runId, state] of promised) {
      expect(order.indexOf(records.get(runId)?.state ?? "")).toBeGreaterThanOrEqual(order.indexOf(state));
    }
    for (const { runId, state, exit } of records.values()) {
      // One event per step, written with it.
      expect(events.filter((one) => one.runId === runId)).toHaveLength(order.indexOf(state) + 1);
      expect(exit !== null).toBe(state === "exited");
    }
  }
  const db = new DatabaseSync(path);
  expect(db.prepare("pragma integrity_check").all()).toMatchObject([{ integrity_check: "ok" }]);
  db.close();
});
