import { readFile } from "node:fs/promises";
import { findAnchorBinary } from "../../anchor/binary.js";
import type { ProcessEvidence } from "../../anchor/host-interface.js";
import {
  listMarkedProcesses,
  type MarkedProcess,
  reapMarkedProcess,
} from "../../anchor/inspect/marked-processes.js";
import { inspectProcesses } from "../../anchor/inspect/processes.js";
import { configPath } from "../../config/file.js";
import { readConfig, type UnmanagedProfile } from "../../config/schema.js";
import { BadInput } from "../../errors.js";
import { errnoCode, errorMessage } from "../../home/errno.js";
import { isSameMachine } from "../../model/process.js";
import { isInitialPidNamespace } from "../../home/machine-identity.js";
import { OPEN_RUN_STATES } from "../../model/run.js";
import { openStoreForReading } from "../../store/open.js";
import { findOwningRun } from "../../supervisor/inspect/find-owning-run.js";
import { sanitizeLine } from "../../text/sanitize.js";
import { assertOperator } from "../client/connect.js";
import { openLocalState } from "../../queries/local-state-directory.js";
import { exitCodes } from "../print/exit-code.js";
import { notice } from "../print/errors-and-notices.js";
import { print, toJson } from "../print/write-output.js";
import { confirm } from "../print/terminal-prompt.js";

interface OwnerState {
  /** `ours`: it belongs to a run. `unknown` counts as alive. */
  readonly kind: "gone" | "alive" | "unknown" | "ours";
  readonly why: string;
}

interface OwnerCheck {
  readonly profile: UnmanagedProfile;
  readonly process: MarkedProcess;
  /** The run that it is proven to belong to; null: none. */
  readonly runId: string | null;
  /** All processes with the marker of the profile. */
  readonly carriers: readonly MarkedProcess[];
  /** Process 1 is that of the system, not of a container. */
  readonly wholeMachine: boolean;
  /** The live process with the recorded pid. */
  readonly claimed: ReadonlyMap<string, ProcessEvidence | null>;
}

/** The pid file does not exist. A file that cannot be read, or is being written, proves nothing. */
const PID_FILE_MISSING = "";

/** True if the tool that marked a process is gone, by pids and ancestry, never by a name or a command line. */
function checkOwner({
  profile,
  process,
  runId,
  carriers: processes,
  claimed,
  wholeMachine,
}: OwnerCheck): OwnerState {
  const ours = runId ?? process.runId;
  if (ours !== null) return { kind: "ours", why: `it belongs to run ${ours}` };
  // There is no identity to verify when it is ended.
  if (process.value === "") return { kind: "unknown", why: `${profile.marker} is empty` };
  const { owner } = profile;
  if (owner === "orphaned") return checkOrphaned(process, processes, wholeMachine);
  if (owner === "orphaned-in-container") return checkOrphaned(process, processes, true);
  if ("pid-file" in owner) {
    const [[pid, evidence] = []] = claimed;
    if (pid === undefined) return { kind: "unknown", why: `${owner["pid-file"]} does not name its owner` };
    if (pid === PID_FILE_MISSING) return { kind: "gone", why: `${owner["pid-file"]} does not exist` };
    return checkNamedOwner(process, pid, evidence ?? null, owner["pid-file"]);
  }
  const variable = owner["pid-variable"];
  const pid = process.others[variable] ?? "";
  if (!claimed.has(pid)) return { kind: "unknown", why: `${variable} does not name its owner` };
  return checkNamedOwner(process, pid, claimed.get(pid) ?? null, variable);
}

/** The topmost process with the marker was started by the tool; if its parent is process 1, the tool is gone. */
function checkOrphaned(
  process: MarkedProcess,
  processes: readonly MarkedProcess[],
  wholeMachine: boolean,
): OwnerState {
  const byPid = new Map(processes.map((each) => [each.identity.pid, each] as const));
  let top = process;
  for (let steps = 0; steps < processes.length; steps++) {
    const parent = byPid.get(top.parentPid);
    if (parent === undefined || parent.value !== process.value) break;
    top = parent;
  }
  const { pid } = top.identity;
  // In a container the tool itself may be process 1: its children would look like orphans.
  if (top.parentPid === 1 && !wholeMachine)
    return {
      kind: "unknown",
      why: `the parent of ${pid} is process 1, which in a container may be its owner`,
    };
  if (top.parentPid === 1)
    return {
      kind: "gone",
      why: `${pid === process.identity.pid ? "it" : `its ancestor ${pid}`} was orphaned: its parent is process 1`,
    };
  return { kind: "alive", why: `the parent of ${pid} is process ${top.parentPid}` };
}

function checkNamedOwner(
  process: MarkedProcess,
  pid: string,
  evidence: ProcessEvidence | null,
  by: string,
): OwnerState {
  if (evidence === null || !evidence.alive)
    return { kind: "gone", why: `process ${pid}, named by ${by}, is gone` };
  // A parent is older than its child.
  if (evidence.identity.startTime > process.identity.startTime)
    return { kind: "gone", why: `pid ${pid}, named by ${by}, belongs to a younger process now` };
  return { kind: "alive", why: `process ${pid}, named by ${by}, is alive` };
}

interface UnmanagedProcess {
  readonly process: MarkedProcess;
  readonly profile: UnmanagedProfile;
  readonly ownerState: OwnerState;
}

/** Lists processes of other tools whose owner is gone, with the evidence. Changes nothing. */
export async function printUnmanaged(profile: string | null, all: boolean, json: boolean): Promise<number> {
  const profiles = await resolveProfiles(profile);
  const carriers = await findUnmanaged(profiles);
  const shown = all ? carriers : carriers.filter(({ ownerState }) => ownerState.kind === "gone");
  if (json) print(toJson(shown.map(processJson), 2));
  else if (shown.length > 0) print(`${shown.flatMap(processText).join("\n")}\n`);
  else if (profiles.length > 0) notice("no process with a declared marker has lost its owner", "dim");
  return 0;
}

/** Ends them after confirmation, each by its verified identity and marker. */
export async function cleanupUnmanaged(
  profile: string,
  { dryRun = false, yes = false, json = false }: { dryRun?: boolean; yes?: boolean; json?: boolean },
): Promise<number> {
  assertOperator("end processes of other tools");
  const found = await findUnmanaged(await resolveProfiles(profile));
  const carriers = found.filter(({ ownerState }) => ownerState.kind === "gone");
  if (!json && carriers.length > 0) print(`${carriers.flatMap(processText).join("\n")}\n`);
  if (carriers.length === 0) notice(`no process of ${profile} has lost its owner`, "dim");
  if (dryRun || carriers.length === 0) {
    if (json) print(toJson(carriers.map(processJson), 2));
    return 0;
  }
  const question = carriers.length === 1 ? "End this process?" : `End these ${carriers.length} processes?`;
  if (!(await confirm(question, yes))) {
    notice("nothing was changed", "dim");
    return exitCodes.incomplete;
  }
  // An owner that has come back during the confirmation keeps its processes.
  const now = await findUnmanaged(await resolveProfiles(profile));
  const ended = await Promise.all(carriers.map((each) => endOrphan(each, now)));
  if (json) print(toJson(ended, 2));
  else
    for (const { pid, outcome, why } of ended) print(`${pid}: ${outcome}${why === "" ? "" : ` (${why})`}\n`);
  return ended.every(({ outcome }) => outcome === "gone") ? 0 : exitCodes.incomplete;
}

async function endOrphan(carrier: UnmanagedProcess, now: readonly UnmanagedProcess[]): Promise<EndResult> {
  const { pid, startTime } = carrier.process.identity;
  const same = now.find(
    ({ process: { identity } }) => identity.pid === pid && identity.startTime === startTime,
  );
  if (same === undefined || same.ownerState.kind === "gone") return endProcess(carrier);
  return { pid, profile: carrier.profile.name, outcome: "left alone", why: same.ownerState.why };
}

interface EndResult {
  readonly pid: number;
  readonly profile: string;
  readonly outcome: "gone" | "still there" | "left alone";
  readonly why: string;
}

/** Never rejects: a process that cannot be ended must not hide the results of the others. */
async function endProcess({
  process: { identity, value },
  profile: { name, marker, ...rest },
}: UnmanagedProcess): Promise<EndResult> {
  const which = { pid: identity.pid, profile: name };
  try {
    const wanted = { identity, variable: marker, value, graceMs: rest["grace-ms"] };
    const { verified, why, survivors } = await reapMarkedProcess(findAnchorBinary(), wanted);
    if (!verified) return { ...which, outcome: "left alone", why };
    return { ...which, outcome: survivors.length > 0 ? "still there" : "gone", why: "" };
  } catch (error) {
    return { ...which, outcome: "left alone", why: errorMessage(error) };
  }
}

async function resolveProfiles(name: string | null): Promise<readonly UnmanagedProfile[]> {
  const path = configPath();
  const { foreign } = await readConfig(path);
  if (name === null) {
    if (foreign.length === 0) notice(`no profile is declared in ${path}`, "dim");
    return foreign;
  }
  const found = foreign.filter((each) => each.name === name);
  if (found.length > 0) return found;
  const known = foreign.map((each) => each.name).join(", ") || "none";
  throw new BadInput("profile", `${JSON.stringify(name)} is not a profile of ${path} (declared: ${known})`);
}

async function findUnmanaged(profiles: readonly UnmanagedProfile[]): Promise<readonly UnmanagedProcess[]> {
  const wholeMachine = await isInitialPidNamespace();
  const found: UnmanagedProcess[] = [];
  for (const profile of profiles) {
    const extra =
      typeof profile.owner === "object" && "pid-variable" in profile.owner
        ? [profile.owner["pid-variable"]]
        : [];
    const processes = await listMarkedProcesses(findAnchorBinary(), profile.marker, extra);
    const claimed = await claimedOwners(profile, processes);
    const runOf = await runsOfProcesses(processes);
    for (const process of processes) {
      const runId = runOf.get(process.identity.pid) ?? null;
      found.push({
        process,
        profile,
        ownerState: checkOwner({ profile, process, runId, carriers: processes, claimed, wholeMachine }),
      });
    }
  }
  return found;
}

/** The run of this state directory that each process is proven to belong to, by pid; the environment does not count. */
async function runsOfProcesses(processes: readonly MarkedProcess[]): Promise<ReadonlyMap<number, string>> {
  const found = new Map<number, string>();
  await using localState = await openLocalState();
  if (localState === null || processes.length === 0) return found;
  const { host, directory } = localState;
  await using store = await openStoreForReading(directory.storePath);
  const open = (await store?.listRuns({ states: OPEN_RUN_STATES })) ?? [];
  const records = open.filter((record) => isSameMachine(record, host.machine));
  for (const live of await host.inspectProcesses(processes.map(({ identity }) => identity))) {
    const belonging = await findOwningRun(live, records, (paths) => host.inspectCgroups(paths));
    if (belonging !== null && belonging.role !== "claims")
      found.set(live.identity.pid, belonging.record.runId);
  }
  return found;
}

/** The live processes that a profile names as owners. */
async function claimedOwners(
  { owner }: UnmanagedProfile,
  processes: readonly MarkedProcess[],
): Promise<ReadonlyMap<string, ProcessEvidence | null>> {
  if (typeof owner === "string") return new Map();
  const texts =
    "pid-file" in owner
      ? [await readPidFile(owner["pid-file"])]
      : processes.map(({ others }) => others[owner["pid-variable"]] ?? "");
  if ("pid-file" in owner && texts[0] === PID_FILE_MISSING) return new Map([[PID_FILE_MISSING, null]]);
  const pids = [...new Set(texts)].filter((text) => /^[1-9]\d{0,9}$/.test(text));
  const evidence = await inspectProcesses(findAnchorBinary(), pids.map(Number), { brief: true });
  return new Map(pids.map((pid, at) => [pid, evidence[at] ?? null] as const));
}

/** A tool that ends removes its pid file; a file that cannot be read proves nothing. */
async function readPidFile(path: string): Promise<string> {
  try {
    return (await readFile(path, "utf8")).trim() || "(empty)";
  } catch (error) {
    return errnoCode(error) === "ENOENT" ? PID_FILE_MISSING : "(unreadable)";
  }
}

function processText({ process, profile, ownerState }: UnmanagedProcess): string[] {
  const { identity, argv, command, value, uid } = process;
  return [
    `${identity.pid}  ${profile.name}  uid ${uid}  ${sanitizeLine(argv.join(" ") || command)}`,
    `  marker: ${profile.marker}=${sanitizeLine(value)}`,
    `  owner: ${sanitizeLine(ownerState.why)}`,
  ];
}

function processJson({ process, profile, ownerState }: UnmanagedProcess): object {
  const { identity, parentPid, uid, command, argv, value } = process;
  return {
    profile: profile.name,
    marker: profile.marker,
    value,
    ...identity,
    parentPid,
    uid,
    command,
    argv,
    owner: ownerState,
  };
}
