import { RunNotFound } from "../../errors.js";
import { observeMachineIdentity } from "../../store/machine.js";
import type { RunEvent } from "../../store/run-event.js";
import { OPEN_STATES } from "../../store/run-record.js";
import type { RunView } from "../gateway/session-view.js";
import { resolveHome } from "../../store/state-directory.js";
import { readHosts } from "../hosts/hosts.js";
import { toJson } from "../json.js";
import { paletteFor } from "../palette.js";
import { describeRun } from "./describe.js";
import { findRecord } from "./find-record.js";
import { lookAtRun } from "./look-at-run.js";
import { print } from "./print.js";
import { openRunView } from "./read-store.js";
import { careOf, viewpoint } from "./status.js";

export async function showRun(wanted: string, json: boolean): Promise<number> {
  await using found = await openRunView();
  const { view: store, unread } = found;
  if (store === null) throw new RunNotFound(wanted);
  const record = await findRecord(store, wanted).catch((error: unknown) => {
    throw unread !== null && error instanceof RunNotFound ? unread : error;
  });
  const events = await allEvents(store, record.runId);
  const here = await observeMachineIdentity(resolveHome());
  const look = await lookAtRun(record, await store.listRuns({ states: OPEN_STATES }));
  const hosts = await readHosts(store);
  const hostName = hosts.nameOf(record.hostId);
  const view = await viewpoint(store, here);
  if (json) print(toJson({ ...record, hostName, processes: look, events }, 2));
  else {
    const place = { host: hosts.several ? hosts.shown(record.hostId) : null, care: careOf(record, view) };
    print(`${describeRun(record, look, events, Date.now(), paletteFor(1), place).join("\n")}\n`);
  }
  return 0;
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
