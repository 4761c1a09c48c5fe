import { RunNotFound } from "../../errors.js";
import { observeMachineIdentity } from "../../home/machine-identity.js";
import { resolveHome } from "../../home/state-directory.js";
import type { RunEvent } from "../../model/run-event.js";
import { OPEN_RUN_STATES } from "../../model/run.js";
import { readKnownHosts } from "../client/known-hosts.js";
import { resolveRunRecord } from "../client/resolve-run.js";
import { openRunView } from "../client/run-view.js";
import type { RunView } from "../client/session-run-view.js";
import { paletteFor } from "../print/palette.js";
import { leaseObserver, ownerWarning } from "../print/run-status.js";
import { print, toJson } from "../print/stdout.js";
import { describeRun } from "./describe.js";
import { inspectRun } from "./processes.js";

/** Prints runs one after the other; with `json`, one record, or an array of several. */
export async function showRuns(wanted: readonly string[], json: boolean): Promise<number> {
  const shown: { readonly text: string; readonly record: object }[] = [];
  for (const each of wanted) shown.push(await readRun(each));
  const records = shown.map(({ record }) => record);
  if (json) print(toJson(records.length === 1 ? records[0] : records, 2));
  else print(`${shown.map(({ text }) => text).join("\n\n")}\n`);
  return 0;
}

async function readRun(wanted: string): Promise<{ readonly text: string; readonly record: object }> {
  await using found = await openRunView();
  const { view: store, unread } = found;
  if (store === null) throw new RunNotFound(wanted);
  const record = await resolveRunRecord(store, wanted).catch((error: unknown) => {
    throw unread !== null && error instanceof RunNotFound ? unread : error;
  });
  const events = await allEvents(store, record.runId);
  const here = await observeMachineIdentity(resolveHome());
  const live = await inspectRun(record, await store.listRuns({ states: OPEN_RUN_STATES }));
  const hosts = await readKnownHosts(store);
  const hostName = hosts.nameOf(record.hostId);
  const view = await leaseObserver(store, here);
  const context = {
    host: hosts.hasSeveral ? hosts.displayName(record.hostId) : null,
    ownerWarning: ownerWarning(record, view),
  };
  return {
    text: describeRun(record, live, events, Date.now(), paletteFor(1), context).join("\n"),
    record: { ...record, hostName, processes: live, events },
  };
}

async function allEvents(store: RunView, runId: string): Promise<readonly RunEvent[]> {
  const page = 1_000;
  const events: RunEvent[] = [];
  for (let after = 0; ;) {
    const next = await store.listEvents({ runId, after, limit: page });
    events.push(...next);
    after = next.at(-1)?.seq ?? after;
    if (next.length < page) return events;
  }
}
