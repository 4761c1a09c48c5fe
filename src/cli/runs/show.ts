import type { MachineIdentity, ProcessEvidence } from "../../anchor/host.js";
import { inspect } from "../../anchor/inspect.js";
import { RunNotFound } from "../../errors.js";
import { isSameMachine, observeMachineIdentity } from "../../store/machine.js";
import type { RunEvent } from "../../store/run-event.js";
import { OPEN_STATES, type ProcessIdentity, type RunRecord } from "../../store/run-record.js";
import type { RunView } from "../gateway/session-view.js";
import { resolveHome } from "../../store/state-directory.js";
import { readHosts } from "../hosts/hosts.js";
import { toJson } from "../json.js";
import { paletteFor } from "../palette.js";
import { describeRun, type Look } from "./describe.js";
import { findRecord } from "./find-record.js";
import { membersOf } from "../../anchor/members.js";
import { print } from "./print.js";
import { openStoreForReading } from "./read-store.js";
import { careOf, viewpoint } from "./status.js";

export async function showRun(wanted: string, json: boolean): Promise<number> {
  await using store = await openStoreForReading();
  if (store === null) throw new RunNotFound(wanted);
  const record = await findRecord(store, wanted);
  const events = await allEvents(store, record.runId);
  const here = await observeMachineIdentity(resolveHome());
  const look = ownOnly(record, await lookAt(record, here), await store.listRuns({ states: OPEN_STATES }));
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

/** Without those of other runs that its anchor serves. */
function ownOnly(record: RunRecord, look: Look, open: readonly RunRecord[]): Look {
  if (look.anchor === null) return look;
  const descendants = membersOf(record, open, look.anchor.descendants);
  return { ...look, anchor: { ...look.anchor, descendants } };
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

/** Asks the anchor binary, which is the only code that looks at processes; changes nothing. */
async function lookAt(record: RunRecord, here: MachineIdentity): Promise<Look> {
  const nobody = (why: string): Look => ({ anchor: null, root: null, why });
  if (record.state === "exited") return nobody("it has ended");
  if (record.imported !== null)
    return nobody(
      "it was imported; `holdfast runs cleanup --run … --dry-run` compares it with what is running",
    );
  if (!isSameMachine(record, here))
    return nobody("it lives on another machine, boot or in another pid namespace");
  const wanted = [record.anchor, record.root].filter((identity) => identity !== null);
  try {
    const evidence = await inspect(record.anchorPath, wanted, { ports: record.service !== null });
    const of = (identity: ProcessIdentity | null): ProcessEvidence | null =>
      identity === null ? null : (evidence[wanted.indexOf(identity)] ?? null);
    return { anchor: of(record.anchor), root: of(record.root), why: null };
  } catch (error) {
    return nobody(error instanceof Error ? error.message : String(error));
  }
}
