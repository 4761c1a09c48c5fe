import type { AnchorExit, AnchorHost, MachineIdentity, RunRemains } from "../anchor/host.js";
import { defaults } from "../defaults.js";
import type { Emptiness, ProcessIdentity, RunBoundary } from "../store/run-record.js";
import { pause } from "./pause.js";

/** What is recorded of a run whose anchor does not answer: enough to verify what is left of it. */
export interface Traces {
  readonly runId: string;
  readonly leaseId: string;
  /** Where its processes lived: their numbers mean nothing anywhere else. */
  readonly machine: MachineIdentity;
  readonly anchor: ProcessIdentity | null;
  readonly root: ProcessIdentity | null;
  readonly boundary: RunBoundary | null;
  readonly graceMs: number;
}

export type Aftermath =
  /** It had finished: the true end. */
  | { readonly kind: "exit"; readonly exit: AnchorExit }
  /** Verified alive, but not answering. Nothing may be concluded yet. */
  | { readonly kind: "anchor-alive" }
  /** The caller no longer wants to know; nothing was touched. */
  | { readonly kind: "given-up" }
  /** No process of it was ever let through the gate. */
  | { readonly kind: "never-executed" }
  | {
      readonly kind: "lost";
      readonly remains: RunRemains;
      readonly emptiness: Emptiness;
      /** How the tree was emptied, as far as it was. */
      readonly mode: "launcher" | "reap" | "none";
      readonly killed: number;
      readonly survivors: number;
      /** One clause: what was done about it here. */
      readonly note: string | null;
    };

/**
 * Nobody answers for a run: find out what became of it, and end what is verifiably left. The launcher cleans up after
 * a dead anchor, so its word is waited for; without it, only what matches the recorded identity is signalled.
 */
export async function aftermath(
  host: AnchorHost,
  traces: Traces,
  givenUp: () => boolean,
): Promise<Aftermath> {
  const { runId, root } = traces;
  const until = performance.now() + defaults.sweptWaitMs;
  for (let look = 0; ; look++) {
    if (givenUp()) return { kind: "given-up" };
    const remains = await host.remains(runId);
    const { exit, swept } = remains;
    if (exit !== null) return { kind: "exit", exit };
    if (swept !== null) {
      const { killed, emptiness } = swept;
      return { kind: "lost", remains, emptiness, mode: "launcher", killed, survivors: 0, note: null };
    }
    // Nothing passes the gate before its identity is on record.
    if (root === null) return { kind: "never-executed" };
    const gone = unverifiable(host.machine, traces.machine);
    if (gone !== null) return { kind: "lost", remains, ...gone };
    // The launcher mostly answers before the second look; asking for evidence costs a process.
    if (look === 1 && (await isAlive(host, traces.anchor))) return { kind: "anchor-alive" };
    if (performance.now() >= until)
      return { kind: "lost", remains, ...(await endVerified(host, traces, root)) };
    await pause(defaults.sweptPollMs);
  }
}

type Verdict = Omit<Extract<Aftermath, { readonly kind: "lost" }>, "kind" | "remains">;

async function endVerified(host: AnchorHost, traces: Traces, root: ProcessIdentity): Promise<Verdict> {
  const cgroup = cgroupOf(traces.boundary);
  const rootAlive = await isAlive(host, root);
  if (!rootAlive && cgroup === null)
    return unproven(
      "its first process is gone; whether others of it live is not known, and nothing was signalled",
    );
  const { leaseId, graceMs } = traces;
  const reaped = await host.reap({
    root: rootAlive ? root : null,
    cgroup,
    leaseId,
    graceMs,
  });
  if (!reaped.verified && reaped.emptiness === "unproven")
    return unproven(`nothing was signalled: ${reaped.why}`);
  const { killed, survivors, emptiness } = reaped;
  const note = `${killed === 1 ? "1 process" : `${killed} processes`} of it were ended here`;
  return { emptiness, mode: "reap", killed, survivors: survivors.length, note };
}

/** Of another boot, container or machine nothing is looked at, let alone signalled. Null: it lived here. */
function unverifiable(here: MachineIdentity, there: MachineIdentity): Verdict | null {
  if (here.hostId !== there.hostId) return unproven("it ran on another machine, so nothing was signalled");
  if (here.bootId !== there.bootId) {
    const note = "the machine was restarted, which ended all of its processes";
    return { emptiness: "proven", mode: "none", killed: 0, survivors: 0, note };
  }
  if (here.pidNamespace === there.pidNamespace) return null;
  return unproven("it ran in another container, so nothing was signalled");
}

function unproven(note: string): Verdict {
  return { emptiness: "unproven", mode: "none", killed: 0, survivors: 0, note };
}

function cgroupOf(boundary: RunBoundary | null): { path: string; inode: string } | null {
  if (boundary === null || boundary.cgroup === null || boundary.cgroupInode === null) return null;
  return { path: boundary.cgroup, inode: boundary.cgroupInode };
}

async function isAlive(host: AnchorHost, identity: ProcessIdentity | null): Promise<boolean> {
  if (identity === null) return false;
  const [evidence] = await host.inspect([identity]);
  // A zombie holds its number but runs nothing.
  return evidence !== undefined && evidence.alive && evidence.matches && evidence.state !== "Z";
}
