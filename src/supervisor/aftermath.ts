import type {
  AnchorExit,
  AnchorHost,
  Boundary,
  MachineIdentity,
  RunAddress,
  RunRemains,
  Survivor,
  Swept,
} from "../anchor/host.js";
import { type Seen, seenAs } from "../anchor/seen.js";
import { defaults } from "../defaults.js";
import { AnchorUnusable } from "../errors.js";
import type { Emptiness, KillMode, ProcessIdentity, Residue, RunBoundary } from "../store/run-record.js";
import type { Clock } from "./clock.js";

/** What of a host is needed to find out what became of a run, and to end what is left of it. */
export type Reaper = Pick<
  AnchorHost,
  "machine" | "anchorPath" | "remains" | "inspect" | "inspectBoundaries" | "markedBy" | "reap"
>;

/** What is recorded of a run whose anchor does not answer: enough to verify what is left of it. */
export interface Traces {
  readonly run: RunAddress;
  readonly leaseId: string;
  /** Where its processes lived: their numbers mean nothing anywhere else. */
  readonly machine: MachineIdentity;
  readonly anchor: ProcessIdentity | null;
  readonly root: ProcessIdentity | null;
  readonly boundary: RunBoundary | null;
  readonly graceMs: number;
  /** The file its anchor was started from. */
  readonly anchorPath: string;
}

export type Aftermath =
  /** It had finished: the true end. */
  | { readonly kind: "exit"; readonly exit: AnchorExit }
  /** The anchor does not answer and is alive, or may be. Nothing may be concluded yet. */
  | { readonly kind: "anchor-alive" }
  /** The caller no longer wants to know; nothing was touched. */
  | { readonly kind: "given-up" }
  /** No process of it was ever let through the gate. */
  | { readonly kind: "never-executed" }
  /** `remains` null: it was imported, and never had an anchor to leave any. */
  | ({ readonly kind: "lost"; readonly remains: RunRemains | null } & Verdict);

/** How the tree was emptied, as far as it was. */
export interface Verdict {
  readonly emptiness: Emptiness;
  readonly by: "launcher" | "reap" | "nobody";
  readonly killed: number;
  readonly killMode: KillMode;
  readonly residue: readonly Residue[];
  readonly alive: readonly Survivor[];
  /** One clause: what was done about it here. */
  readonly note: string | null;
  /** Its anchor serves other runs and was not killed: only a cgroup can prove this run empty. */
  readonly shared?: boolean;
}

/**
 * Nobody answers for a run: find out what became of it, and end what is verifiably left. The launcher cleans up after
 * a dead anchor, so its word is waited for; without it, only what matches the recorded identity is signalled.
 */
export async function aftermath(
  { host, clock }: { readonly host: Reaper; readonly clock: Clock },
  traces: Traces,
  givenUp: () => boolean,
): Promise<Aftermath> {
  const { run, root, leaseId } = traces;
  const until = clock.now() + defaults.sweptWaitMs;
  for (let look = 0; ; look++) {
    if (givenUp()) return { kind: "given-up" };
    // Before the look: a supervisor that was starved for longer than it would wait still looks once more.
    const late = clock.now() >= until;
    const remains = await host.remains(run);
    const { exit, swept } = remains;
    if (exit !== null) return { kind: "exit", exit };
    if (swept !== null) {
      return { ...sweptAway(swept), kind: "lost", remains };
    }
    // Nothing passes the gate before its identity is on record; of one found without a record nothing is known.
    if (root === null && leaseId !== "") return { kind: "never-executed" };
    if (root === null) return { kind: "lost", remains, ...unproven("it was found without a record") };
    const gone = unverifiable(host.machine, traces.machine);
    if (gone !== null) return { kind: "lost", remains, ...gone };
    // The launcher mostly answers before the second look; asking for evidence costs a process.
    if (look === 1 && (await lookAt(host, traces, traces.anchor)) !== "gone") return { kind: "anchor-alive" };
    if (late) return { kind: "lost", remains, ...(await endVerified(host, traces)) };
    await clock.pause(defaults.sweptPollMs);
  }
}

export const NOTHING_DONE: Verdict = {
  emptiness: "unproven",
  by: "nobody",
  killed: 0,
  killMode: "none",
  residue: [],
  alive: [],
  note: null,
};

/** Its launcher has seen to it. */
export function sweptAway({ killed, killMode, emptiness }: Swept): Verdict {
  return { ...NOTHING_DONE, emptiness, by: "launcher", killed, killMode };
}

const CGROUP_EMPTY: Verdict = { ...NOTHING_DONE, emptiness: "proven", note: "its cgroup is empty" };

/** End what live evidence proves to be of this run: its first process with all below it, and whoever is in its cgroup. */
export async function endVerified(host: Reaper, traces: Traces): Promise<Verdict> {
  const { root, leaseId, graceMs } = traces;
  const cgroup = cgroupOf(traces);
  const sight = await lookAt(host, traces, root);
  if (sight === "unknown")
    throw new AnchorUnusable(
      host.anchorPath,
      `process ${root?.pid} is hidden, or was started in another time namespace: it cannot be told whether it is the recorded one, and nothing was signalled`,
    );
  const rootAlive = sight === "alive";
  if (!rootAlive && cgroup === null)
    return unproven(
      "its first process is gone; whether others of it live is not known, and nothing was signalled",
    );
  const empty = rootAlive ? null : await howEmpty(host, cgroup, leaseId);
  // Nobody is there to be signalled; whoever was to take it away has died.
  if (empty === "empty") await host.reap({ root: null, cgroup, leaseId: null, graceMs: 0 });
  if (empty !== null) return CGROUP_EMPTY;
  const reaped = await host.reap({
    root: rootAlive ? root : null,
    cgroup,
    leaseId: leaseId === "" ? null : leaseId,
    graceMs,
  });
  if (!reaped.verified && reaped.emptiness === "unproven")
    // What has the root's number may be somebody else, while the run's cgroup is long gone.
    return (await howEmpty(host, cgroup, leaseId)) !== null
      ? CGROUP_EMPTY
      : unproven(`nothing was signalled: ${reaped.why}`);
  const { killed, killMode, residue, survivors, emptiness } = reaped;
  const note = `${killed === 1 ? "1 process" : `${killed} processes`} of it were ended here`;
  return { emptiness, by: "reap", killed, killMode, residue, alive: survivors, note };
}

/** Of another boot, container or machine nothing is looked at, let alone signalled. Null: it lived here. */
export function unverifiable(here: MachineIdentity, there: MachineIdentity): Verdict | null {
  if (here.hostId !== there.hostId) return unproven("it ran on another machine, so nothing was signalled");
  if (here.bootId !== there.bootId) {
    const note = "the machine was restarted, which ended all of its processes";
    return { ...NOTHING_DONE, emptiness: "proven", note };
  }
  if (here.pidNamespace === there.pidNamespace) return null;
  return unproven("it ran in another container, so nothing was signalled");
}

function unproven(note: string): Verdict {
  return { ...NOTHING_DONE, note };
}

/** The run's cgroup, with what proves that it is the one. */
export function cgroupOf({ boundary }: { readonly boundary: RunBoundary | null }): Boundary | null {
  if (boundary === null || boundary.cgroup === null || boundary.cgroupInode === null) return null;
  return { path: boundary.cgroup, inode: boundary.cgroupInode };
}

/** The kernel removes only empty ones: one that is gone was emptied by somebody who was faster. Null: not proven empty. */
async function howEmpty(
  host: Reaper,
  cgroup: Boundary | null,
  leaseId: string,
): Promise<"empty" | "gone" | null> {
  if (cgroup === null) return null;
  const [seen] = await host.inspectBoundaries([cgroup]);
  if (seen !== "empty" && seen !== "gone") return null;
  // Who has left it still carries the marker, unless he has dropped that too.
  return leaseId === "" || (await host.markedBy([leaseId])).size === 0 ? seen : null;
}

async function lookAt(host: Reaper, { machine }: Traces, identity: ProcessIdentity | null): Promise<Seen> {
  if (identity === null) return "gone";
  const [evidence] = await host.inspect([identity], { brief: true });
  return seenAs(identity, machine, evidence, host.machine);
}
