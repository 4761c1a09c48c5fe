import type { MachineIdentity, ProcessIdentity } from "../model/process.js";
import type {
  CgroupRef,
  FirstStop,
  OutputSlice,
  RunAddress,
  RunFiles,
  RunIdentities,
  SilentFile,
  StreamName,
  SweptFile,
} from "./run-dir/run-file-types.js";
import type {
  CgroupState,
  InspectOptions,
  KnownAnchor,
  PortEvidence,
  ProcessEvidence,
  ReapRequest,
  ReapResult,
} from "./inspect/evidence-types.js";
import type { AnchorLink, StartSpec } from "./protocol/link-contract.js";
import type { LocalInstance } from "./instance/instance-directories.js";

export type { LocalInstance };
export type * from "./inspect/evidence-types.js";
export type * from "./protocol/link-contract.js";
export type * from "./run-dir/run-file-types.js";

/**
 * The only interface to start, inspect or signal processes. The native host uses the anchor binary; a simulated one has
 * its own processes, crashes and clocks.
 */
export interface AnchorHost extends AsyncDisposable {
  readonly machine: MachineIdentity;
  readonly anchorPath: string;
  /** The run id of a warm anchor: `start` with this id, pipes and no limits uses that anchor. Null: no anchor is ready. */
  nextWarmRun(): string | null;
  /** Lists the directories of warm anchors, and of those that ended before START, except the warm anchors of this host. */
  listWarmRunIds(instanceId: string): Promise<readonly string[]>;
  /** Removes the directory of a warm anchor that has ended; does nothing while the anchor is alive. */
  discardWarmAnchor(run: RunAddress): Promise<void>;
  /** Prepares a run and resolves with its gate closed. Rejects with SpawnFailed. */
  start(spec: StartSpec): Promise<AnchorLink>;
  /**
   * Null if no anchor listens. Rejects with StaleEpoch if the anchor has seen a higher epoch, and with AnchorUnusable
   * if it does not answer within `withinMs`. Epoch 0 observes.
   */
  attach(run: RunAddress, epoch: number, withinMs?: number): Promise<AnchorLink | null>;
  /**
   * Reads a spool by offset without consuming it. Empty if there is nothing at or after `offset`. `into`: the memory for the
   * bytes, instead of new memory.
   */
  readOutput(
    run: RunAddress,
    stream: StreamName,
    offset: number,
    maxBytes: number,
    into?: Uint8Array,
  ): Promise<OutputSlice>;
  readRunFiles(run: RunAddress): Promise<RunFiles>;
  /** Lists all instances of this state directory, including this one. */
  listInstances(): Promise<readonly LocalInstance[]>;
  /** Lists the ids of all run directories of an instance. */
  listRunIds(instanceId: string): Promise<readonly string[]>;
  /** Lists the cgroups of an instance's runs that were provably created for its directory. */
  listRunCgroups(instanceId: string): Promise<readonly (CgroupRef & { readonly runId: string })[]>;
  /** Removes a dead instance's directory if no run directory is left in it. Returns false if it stays. */
  removeInstance(instanceId: string): Promise<boolean>;
  /** Rejects if processes cannot be inspected here; then nothing may be concluded. */
  inspectProcesses(
    wanted: readonly (ProcessIdentity | number)[],
    options?: InspectOptions,
  ): Promise<readonly ProcessEvidence[]>;
  /**
   * Returns which of these lease ids a live process has as its marker. A process may have left its cgroup, so an empty
   * cgroup does not prove that none is alive.
   */
  findMarkedLeases(leaseIds: readonly string[]): Promise<ReadonlySet<string>>;
  inspectPort(port: number): Promise<PortEvidence>;
  inspectCgroups(wanted: readonly CgroupRef[]): Promise<readonly CgroupState[]>;
  reap(request: ReapRequest): Promise<ReapResult>;
  /** Reads the run's directory. Null if nothing readable is there. */
  readIdentities(run: RunAddress): Promise<RunIdentities | null>;
  /** Lists the runs whose directories the process has open: those that an anchor serves. Empty if that cannot be read. */
  listOpenRunDirectories(pid: number): Promise<readonly string[]>;
  /** Sends SIGCONT to a verified anchor. Returns null, or the reason why it was not sent. */
  continueAnchor(anchor: KnownAnchor): Promise<string | null>;
  /**
   * Writes `stop.json` before a run is ended without its anchor. The supervisor that records the end takes the reason
   * from it. A stop that the anchor had accepted keeps its reason. Resolves with the stop in effect.
   */
  writeStopFile(run: RunAddress, stop: FirstStop): Promise<FirstStop>;
  /** Writes `swept.json` for a run that was ended without its anchor. */
  writeSweptFile(run: RunAddress, swept: SweptFile): Promise<void>;
  /** Reads and removes `silent.json`, written by the launcher. */
  takeSilentFile(run: RunAddress): Promise<SilentFile | null>;
  /** Returns the bytes in the run's directory. */
  directorySize(run: RunAddress): Promise<number>;
  /** Removes the run's directory. Only after its terminal record is committed. */
  removeRunDirectory(run: RunAddress): Promise<void>;
}
