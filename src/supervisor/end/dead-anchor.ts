import type { AnchorExit, AnchorHost, CgroupRef, RunFiles, SweptFile } from "../../anchor/host.js";
import type { MachineIdentity, ProcessIdentity, Residue, Survivor } from "../../model/process.js";
import { judgeLiveness, type Liveness } from "../../anchor/inspect/liveness.js";
import { defaults } from "../../defaults.js";
import { AnchorUnusable } from "../../errors.js";
import type { Emptiness, KillMode } from "../../model/run.js";
import type { Clock } from "../../async/clock.js";
import { cgroupOf, type RecordedIdentity } from "../run/recorded-identity.js";

/** What of a host is needed to find out what became of a run, and to end what is left of it. */
export type CleanupHost = Pick<
  AnchorHost,
  | "machine"
  | "anchorPath"
  | "readRunFiles"
  | "inspectProcesses"
  | "inspectCgroups"
  | "findMarkedLeases"
  | "reap"
>;

export type DeadAnchorResult =
  /** It had finished: the true end. */
  | { readonly kind: "exit"; readonly exit: AnchorExit }
  /** The anchor does not answer and is alive, or may be. Nothing may be concluded yet. */
  | { readonly kind: "anchor-alive" }
  /** The caller no longer wants to know; nothing was touched. */
  | { readonly kind: "given-up" }
  /** No process of it was ever let through the gate. */
  | { readonly kind: "never-executed" }
  /** `remains` null: it was imported, and never had an anchor to leave any. */
  | ({ readonly kind: "lost"; readonly runFiles: RunFiles | null } & CleanupResult);

/** How the tree was emptied, as far as it was. */
export interface CleanupResult {
  readonly emptiness: Emptiness;
  readonly by: "launcher" | "reap" | "nobody";
  readonly killed: number;
  readonly killMode: KillMode;
  readonly residue: readonly Residue[];
  readonly alive: readonly Survivor[];
  /** One clause: what was done about it here. */
  readonly note: string | null;
  /** Its anchor serves other runs and was not killed: only a cgroup can prove this run empty. */
  readonly sharedAnchor?: boolean;
}

/**
 * Nobody answers for a run: find out what became of it, and end what is verifiably left. The launcher cleans up after
 * a dead anchor, so its word is waited for; without it, only what matches the recorded identity is signalled.
 */
export async function resolveDeadAnchor(
  { host, clock }: { readonly host: CleanupHost; readonly clock: Clock },
  recorded: RecordedIdentity,
  givenUp: () => boolean,
): Promise<DeadAnchorResult> {
  const { run, root, leaseId } = recorded;
  const until = clock.now() + defaults.sweptWaitMs;
  for (let look = 0; ; look++) {
    if (givenUp()) return { kind: "given-up" };
    // Before the look: a supervisor that was starved for longer than it would wait still looks once more.
    const late = clock.now() >= until;
    const runFiles = await host.readRunFiles(run);
    const { exit, swept } = runFiles;
    if (exit !== null) return { kind: "exit", exit };
    if (swept !== null) {
      return { ...cleanedByLauncher(swept), kind: "lost", runFiles };
    }
    // Nothing passes the gate before its identity is on record; of one found without a record nothing is known.
    if (root === null && leaseId !== "") return { kind: "never-executed" };
    if (root === null) return { kind: "lost", runFiles, ...unprovenResult("it was found without a record") };
    const gone = resultFromElsewhere(host.machine, recorded.machine);
    if (gone !== null) return { kind: "lost", runFiles, ...gone };
    // The launcher mostly answers before the second look; asking for evidence costs a process.
    if (look === 1 && (await probeProcess(host, recorded, recorded.anchor)) !== "gone")
      return { kind: "anchor-alive" };
    if (late) return { kind: "lost", runFiles, ...(await killVerifiedTree(host, recorded)) };
    await clock.sleep(defaults.sweptPollMs);
  }
}

export const NO_CLEANUP: CleanupResult = {
  emptiness: "unproven",
  by: "nobody",
  killed: 0,
  killMode: "none",
  residue: [],
  alive: [],
  note: null,
};

/** Its launcher has seen to it. */
export function cleanedByLauncher({ killed, killMode, emptiness }: SweptFile): CleanupResult {
  return { ...NO_CLEANUP, emptiness, by: "launcher", killed, killMode };
}

const CGROUP_EMPTY: CleanupResult = { ...NO_CLEANUP, emptiness: "proven", note: "its cgroup is empty" };

/** End what live evidence proves to be of this run: its first process with all below it, and whoever is in its cgroup. */
export async function killVerifiedTree(
  host: CleanupHost,
  recorded: RecordedIdentity,
): Promise<CleanupResult> {
  const { root, leaseId, graceMs } = recorded;
  const cgroup = cgroupOf(recorded);
  const liveness = await probeProcess(host, recorded, root);
  if (liveness === "unknown")
    throw new AnchorUnusable(
      host.anchorPath,
      `process ${root?.pid} is hidden, or was started in another time namespace: it cannot be told whether it is the recorded one, and nothing was signalled`,
    );
  const rootAlive = liveness === "alive";
  if (!rootAlive && cgroup === null)
    return unprovenResult(
      "its first process is gone; whether others of it live is not known, and nothing was signalled",
    );
  const empty = rootAlive ? null : await cgroupEmptiness(host, cgroup, leaseId);
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
    return (await cgroupEmptiness(host, cgroup, leaseId)) !== null
      ? CGROUP_EMPTY
      : unprovenResult(`nothing was signalled: ${reaped.why}`);
  const { killed, killMode, residue, survivors, emptiness } = reaped;
  const note = `${killed === 1 ? "1 process" : `${killed} processes`} of it were ended here`;
  return { emptiness, by: "reap", killed, killMode, residue, alive: survivors, note };
}

/** Of another boot, container or machine nothing is looked at, let alone signalled. Null: it lived here. */
export function resultFromElsewhere(here: MachineIdentity, there: MachineIdentity): CleanupResult | null {
  if (here.hostId !== there.hostId)
    return unprovenResult("it ran on another machine, so nothing was signalled");
  if (here.bootId !== there.bootId) {
    const note = "the machine was restarted, which ended all of its processes";
    return { ...NO_CLEANUP, emptiness: "proven", note };
  }
  if (here.pidNamespace === there.pidNamespace) return null;
  return unprovenResult("it ran in another container, so nothing was signalled");
}

function unprovenResult(note: string): CleanupResult {
  return { ...NO_CLEANUP, note };
}

/** The kernel removes only empty ones: one that is gone was emptied by somebody who was faster. Null: not proven empty. */
async function cgroupEmptiness(
  host: CleanupHost,
  cgroup: CgroupRef | null,
  leaseId: string,
): Promise<"empty" | "gone" | null> {
  if (cgroup === null) return null;
  const [seen] = await host.inspectCgroups([cgroup]);
  if (seen !== "empty" && seen !== "gone") return null;
  // Who has left it still carries the marker, unless he has dropped that too.
  return leaseId === "" || (await host.findMarkedLeases([leaseId])).size === 0 ? seen : null;
}

async function probeProcess(
  host: CleanupHost,
  { machine }: RecordedIdentity,
  identity: ProcessIdentity | null,
): Promise<Liveness> {
  if (identity === null) return "gone";
  const [evidence] = await host.inspectProcesses([identity], { brief: true });
  return judgeLiveness(identity, machine, evidence, host.machine);
}
