import { rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { databaseUrl } from "../../config/database-url.js";
import { readOwnFile } from "../../home/own-file.js";
import { loadOrCreateGatewayId } from "../../home/persistent-ids.js";
import { readStateId, stateIdOf } from "../../home/state-id.js";
import { recordLocation, type StateProvenance } from "../../home/state-location.js";
import { findStateDirectoryOrCopy, resolveHome, type StateDirectory } from "../../home/state-directory.js";
import { OPEN_RUN_STATES, type RunRecord } from "../../model/run.js";
import { localCopyDirectory } from "../../store/local-copy/run-copy.js";
import { openStore, openStoreForReading } from "../../store/open.js";
import { provenanceOf } from "../../store/open-state-directory.js";
import type { Store } from "../../store/store.js";
import { forgetRun } from "../../supervisor/end/terminal-record.js";
import { assertOperator } from "../client/connect.js";
import { cliActor } from "../client/requester.js";
import { openLocalObserver } from "../../queries/local-state-directory.js";
import { exitCodes } from "../print/exit-code.js";
import { notice } from "../print/errors-and-notices.js";
import { print, toJson } from "../print/write-output.js";
import { confirm } from "../print/terminal-prompt.js";

type CopiedState = Extract<StateProvenance, { kind: "copy" }>;

export interface IdentityRequest {
  readonly yes?: boolean;
  readonly json?: boolean;
}

export async function showState(json: boolean): Promise<number> {
  const home = resolveHome();
  const directory = await findStateDirectoryOrCopy(home);
  const found = directory === null ? null : await provenanceOf(home);
  const shown = {
    home,
    exists: directory !== null,
    stateId: directory === null ? null : await readStateId(home),
    gatewayId: (await readOwnFile(join(home, "gateway-id")).catch(() => "")).trim() || null,
    copyOf: found?.kind === "copy" ? found.recorded.path : null,
    originalThere: found?.kind === "copy" ? found.originalThere : null,
  };
  if (json) print(toJson(shown, 2));
  else {
    const lines = [
      ["directory", directory === null ? `${home} (does not exist yet)` : home],
      ["state id", shown.stateId ?? "none yet"],
      ["gateway id", shown.gatewayId ?? "none yet"],
      ["copy of", shown.copyOf ?? "none: this is an original"],
    ] as const;
    print(`${lines.map(([name, value]) => `${name.padEnd(10)}  ${value}`).join("\n")}\n`);
  }
  return 0;
}

/**
 * Gives a copy new ids. Its identity is recorded last: an interrupted reset leaves a copy, which can be reset again.
 */
export async function resetIdentity({ yes = false, json = false }: IdentityRequest): Promise<number> {
  assertOperator("change the identity of the state directory");
  const copy = await findCopy();
  if (copy === null) return exitCodes.refused;
  const { directory, provenance } = copy;
  const { home, instancesPath, storePath } = directory;
  const shared = (await databaseUrl()) !== null;
  const open = shared ? [] : await listOpenRuns(storePath);
  const original = provenance.recorded.path;
  const ending =
    open.length === 0
      ? ""
      : ` Its ${openRunCount(open.length)} of the original are ended here on record, as lost.`;
  if (!(await confirm(`Give the copy of ${original} an identity of its own?${ending}`, yes)))
    return noticeUnchanged();

  const former = (await readOwnFile(join(home, "gateway-id")).catch(() => "")).trim();
  if (!shared && open.length + former.length > 0) {
    await using store = await openStore(storePath, "reset-identity");
    const detail = `this state directory is a copy of ${original}; the run stayed with the original, and no process was signalled here`;
    for (const record of open) await forgetRun(store, record, cliActor(), { detail, expiredForMs: null });
    await silenceTasks(store);
    if (former !== "") await store.deleteGateway(former);
  }
  // The original's records must not be restored from here, and its instances must not count as local.
  await rm(localCopyDirectory(home), { recursive: true, force: true });
  if (shared) await moveInstancesAside(instancesPath);
  for (const name of ["gateway-id", "state-id", "host-id"]) await rm(join(home, name), { force: true });
  await recordLocation(home, true);
  const [stateId, newGatewayId] = [await stateIdOf(home), await loadOrCreateGatewayId(home)];
  if (json)
    print(
      toJson({
        home,
        stateId,
        gatewayId: newGatewayId,
        copyOf: original,
        runs: open.map(({ runId }) => runId),
      }),
    );
  else
    print(
      `${home} is a state directory of its own now: ${stateId}, gateway ${newGatewayId}; ended on record: ${openRunCount(open.length)}\n`,
    );
  return 0;
}

export async function keepIdentity({ yes = false, json = false }: IdentityRequest): Promise<number> {
  assertOperator("change the identity of the state directory");
  const copy = await findCopy();
  if (copy === null) return exitCodes.refused;
  const { directory, provenance } = copy;
  const { home } = directory;
  const original = provenance.recorded.path;
  if (provenance.originalThere) {
    notice(`${home} cannot replace ${original}, which still exists; nothing was changed`, "red");
    return exitCodes.refused;
  }
  const question = `Is the original of this directory, ${original}, gone for good? If so, its runs are continued here.`;
  if (!(await confirm(question, yes))) return noticeUnchanged();
  await recordLocation(home, true);
  if (json) print(toJson({ home, stateId: await readStateId(home), copyOf: original }));
  else print(`${home} has replaced its original\n`);
  return 0;
}

/** Null: there is none, or it is in use, which was reported. */
async function findCopy(): Promise<{
  readonly directory: StateDirectory;
  readonly provenance: CopiedState;
} | null> {
  const directory = await findStateDirectoryOrCopy(resolveHome());
  const provenance = directory === null ? null : await provenanceOf(directory.home);
  if (directory === null || provenance?.kind !== "copy") {
    notice(`${resolveHome()} is not a copy of another state directory; nothing was changed`, "red");
    return null;
  }
  await using host = await openLocalObserver(directory);
  const alive = (await host.listInstances()).filter((each) => each.alive);
  if (alive.length === 0) return { directory, provenance };
  const names = alive.map(({ instanceId }) => instanceId).join(", ");
  notice(`${directory.home} is in use by ${names}; stop it first. Nothing was changed`, "red");
  return null;
}

async function listOpenRuns(storePath: string): Promise<readonly RunRecord[]> {
  await using store = await openStoreForReading(storePath);
  return (await store?.listRuns({ states: OPEN_RUN_STATES })) ?? [];
}

/** More than any store has open. */
const TASK_LIMIT = 100_000;

/** The original delivers their notifications. */
async function silenceTasks(store: Store): Promise<void> {
  for (const { taskId, version } of await store.listTasks({
    statuses: ["queued", "running"],
    limit: TASK_LIMIT,
  }))
    await store.commitTask(taskId, version, { set: { policy: "silent" } });
}

/** Moved to a path that is not searched for instances, and kept for its output. */
async function moveInstancesAside(instancesPath: string): Promise<void> {
  const aside = `${instancesPath}-of-original`;
  await rm(aside, { recursive: true, force: true });
  await rename(instancesPath, aside).catch(() => undefined);
}

function openRunCount(runs: number): string {
  return runs === 1 ? "1 open run" : `${runs} open runs`;
}

function noticeUnchanged(): number {
  notice("nothing was changed", "dim");
  return exitCodes.incomplete;
}
