import { readFile, readlink } from "node:fs/promises";
import type { ProcessEvidence } from "../../anchor/host.js";
import { inspect } from "../../anchor/inspect.js";
import { RunNotFound } from "../../errors.js";
import type { RunEvent } from "../../store/run-event.js";
import type { ProcessIdentity, RunRecord } from "../../store/run-record.js";
import type { ReadStore } from "../../store/sqlite/open-for-reading.js";
import { paletteFor } from "../palette.js";
import { describeRun, type Look } from "./describe.js";
import { findRecord } from "./find-record.js";
import { print } from "./print.js";
import { openStoreForReading } from "./read-store.js";

export async function showRun(wanted: string, json: boolean): Promise<number> {
  await using store = await openStoreForReading();
  if (store === null) throw new RunNotFound(wanted);
  const record = await findRecord(store, wanted);
  const events = await allEvents(store, record.runId);
  const look = await lookAt(record);
  if (json) print(`${JSON.stringify({ ...record, processes: look, events }, null, 2)}\n`);
  else print(`${describeRun(record, look, events, Date.now(), paletteFor(1)).join("\n")}\n`);
  return 0;
}

async function allEvents(store: ReadStore, runId: string): Promise<readonly RunEvent[]> {
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
async function lookAt(record: RunRecord): Promise<Look> {
  const nobody = (why: string): Look => ({ anchor: null, root: null, why });
  if (record.state === "exited") return nobody("it has ended");
  if (record.imported !== null)
    return nobody(
      "it was imported; `holdfast runs cleanup --run … --dry-run` compares it with what is running",
    );
  if (!(await isHere(record))) return nobody("it lives on another machine, boot or in another pid namespace");
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

/** A pid means nothing elsewhere. Looking needs no host id: boot ids are unique. */
async function isHere({ bootId, pidNamespace }: RunRecord): Promise<boolean> {
  try {
    const boot = (await readFile("/proc/sys/kernel/random/boot_id", "utf8")).trim();
    return boot === bootId && (await readlink("/proc/self/ns/pid")) === pidNamespace;
  } catch {
    return false;
  }
}
