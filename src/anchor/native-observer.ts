import { join } from "node:path";
import { defaults } from "../defaults.js";
import type { MachineIdentity, ProcessIdentity } from "../model/process.js";
import type {
  AnchorHost,
  AnchorLink,
  CgroupRef,
  DirectoryScope,
  InspectOptions,
  RunAddress,
} from "./host-interface.js";
import { LEASE_MARKER, listMarkedProcesses, type MarkedProcess } from "./inspect/marked-processes.js";
import { BatchedInspection } from "./inspect/batched-inspection.js";
import { inspectCgroups } from "./inspect/cgroups-and-limits.js";
import { inspectProcesses } from "./inspect/processes.js";
import { inspectTrees, type InspectedTrees } from "./inspect/process-trees.js";
import { inspectPort } from "./inspect/ports.js";
import { listOpenRunDirectories } from "./inspect/open-run-directories.js";
import { continueAnchor, reap } from "./inspect/reap.js";
import { InstanceDirectories, listRunCgroups } from "./instance/instance-directories.js";
import { handshake, type HandshakeResult, type MessageConnection } from "./protocol/connection.js";
import { attachError, isDisconnected, type StartAttempt } from "./protocol/errors.js";
import { decodeWelcome } from "./protocol/events.js";
import { NativeLink } from "./protocol/link.js";
import type { Welcome } from "./protocol/link-contract.js";
import { PREVIOUS_PROTOCOL, PROTOCOL } from "./protocol/messages.js";
import { helloFrame, type SupervisorIdentity } from "./protocol/requests.js";
import type { RunDirectories } from "./run-dir/run-directories.js";
import { SpoolCache } from "./run-dir/spool-cache.js";

/** No instance has this id: it is longer than an instance id. */
const OBSERVER_ID = "observes-only";

export interface OpenAttempt {
  readonly link: AnchorLink | null;
  readonly answer: HandshakeResult;
}

export interface NativeObserverOptions extends SupervisorIdentity {
  readonly home: string;
  readonly instanceDir: string;
  readonly machine: MachineIdentity;
}

/** Operations that need no launcher: read and inspect runs, attach to them, and stop a run with or without its anchor. */
export class NativeObserver implements AsyncDisposable {
  readonly machine: MachineIdentity;
  readonly anchorPath: string;
  protected readonly identity: SupervisorIdentity;
  protected readonly instances: InstanceDirectories;
  protected readonly spools = new SpoolCache();
  readonly #links = new Set<AnchorLink>();
  readonly #briefInspections = new BatchedInspection((wanted) =>
    inspectProcesses(this.anchorPath, wanted, { brief: true }),
  );

  constructor(options: NativeObserverOptions, anchorPath: string) {
    const { home, instanceId, incarnation, instanceDir, machine } = options;
    this.machine = machine;
    this.anchorPath = anchorPath;
    this.identity = { instanceId, incarnation };
    this.instances = new InstanceDirectories(home, { instanceId, instanceDir });
  }

  async attach(
    run: RunAddress,
    epoch: number,
    withinMs: number = defaults.anchorAnswerMs,
  ): Promise<AnchorLink | null> {
    const key = await this.runsOf(run).readKey(run.runId);
    if (key === null) return null;
    const path = join(this.runDirectory(run), "sock");
    const attachWith = (protocol: number): Promise<OpenAttempt> =>
      this.openLink(run, path, helloFrame(protocol, run.runId, epoch, this.identity, key), null, withinMs);
    let { link, answer } = await attachWith(PROTOCOL);
    // An anchor that was started before an upgrade reports its protocol version.
    if (
      answer.type === "refused" &&
      answer.refusal.codeName === "protocol" &&
      answer.refusal.protocol === PREVIOUS_PROTOCOL
    )
      ({ link, answer } = await attachWith(PREVIOUS_PROTOCOL));
    if (link !== null) return link;
    if (answer.type === "closed" && isDisconnected(answer.error)) return null;
    throw attachError(run.runId, path, answer);
  }

  readonly readOutput: AnchorHost["readOutput"] = async (run, stream, offset, maxBytes, into) =>
    this.spools.read(this.runDirectory(run), stream, offset, maxBytes, into);

  readonly readRunFiles: AnchorHost["readRunFiles"] = async (run) => this.runsOf(run).readRunFiles(run.runId);

  readonly listInstances: AnchorHost["listInstances"] = () => this.instances.list();

  readonly listRunIds: AnchorHost["listRunIds"] = async (instanceId) =>
    this.instances.runs(instanceId).list();

  async listWarmRunIds(instanceId: string): Promise<readonly string[]> {
    return this.instances.runs(instanceId).listWarm();
  }

  readonly listRunCgroups: AnchorHost["listRunCgroups"] = async (instanceId) =>
    listRunCgroups(this.instances.pathOf(instanceId), instanceId);

  readonly inspectProcesses: AnchorHost["inspectProcesses"] = (wanted, options = {}) => {
    if (wanted.length > 0 && options.brief === true && options.ports !== true)
      return this.#briefInspections.inspect(wanted);
    return inspectProcesses(this.anchorPath, wanted, options);
  };

  async findMarkedLeases(leaseIds: readonly string[]): Promise<ReadonlySet<string>> {
    if (leaseIds.length === 0) return new Set();
    const present = new Set((await this.listMarkedProcesses()).map(({ value }) => value));
    return new Set(leaseIds.filter((leaseId) => present.has(leaseId)));
  }

  /** Lists every process with a lease id in its environment, as `value`. */
  listMarkedProcesses(): Promise<readonly MarkedProcess[]> {
    return listMarkedProcesses(this.anchorPath, LEASE_MARKER);
  }

  /** Reads the scope in the run directory; null if there is none. */
  async readScope(run: RunAddress): Promise<DirectoryScope | null> {
    return this.runsOf(run).readScope(run.runId);
  }

  inspectTrees(
    processes: readonly ProcessIdentity[],
    cgroups: readonly CgroupRef[],
    options?: Pick<InspectOptions, "ports">,
  ): Promise<InspectedTrees> {
    return inspectTrees(this.anchorPath, processes, cgroups, options);
  }

  readonly inspectPort: AnchorHost["inspectPort"] = (port) => inspectPort(this.anchorPath, port);

  readonly inspectCgroups: AnchorHost["inspectCgroups"] = (wanted) => inspectCgroups(this.anchorPath, wanted);

  readonly reap: AnchorHost["reap"] = (request) => reap(this.anchorPath, request);

  readonly readIdentities: AnchorHost["readIdentities"] = async (run) =>
    this.runsOf(run).readIdentities(run.runId);

  readonly listOpenRunDirectories: AnchorHost["listOpenRunDirectories"] = listOpenRunDirectories;

  readonly continueAnchor: AnchorHost["continueAnchor"] = (anchor) => continueAnchor(this.anchorPath, anchor);

  readonly writeStopFile: AnchorHost["writeStopFile"] = async (run, stop) =>
    this.runsOf(run).writeStopFile(run.runId, stop);

  readonly writeSweptFile: AnchorHost["writeSweptFile"] = async (run, swept) =>
    this.runsOf(run).writeSweptFile(run.runId, swept);

  /** Closes all links. Their anchors treat this as the loss of their owner. */
  async [Symbol.asyncDispose](): Promise<void> {
    for (const link of this.#links) link.close();
    await this.spools[Symbol.asyncDispose]();
  }

  protected runsOf({ instanceId }: RunAddress): RunDirectories {
    return this.instances.runs(instanceId);
  }

  protected runDirectory(run: RunAddress): string {
    return this.runsOf(run).pathOf(run.runId);
  }

  protected async openLink(
    run: RunAddress,
    path: string,
    frame: Buffer,
    attempt: StartAttempt | null,
    withinMs: number = defaults.launcherReadyMs,
  ): Promise<OpenAttempt> {
    let link: NativeLink | null = null;
    const answer = await handshake({
      path,
      frame,
      expected: "welcome",
      timeoutMs: withinMs,
      onAnswer: (welcome, connection) =>
        (link = this.createLink(run, decodeWelcome(welcome), connection, attempt)),
    });
    return { link, answer };
  }

  protected createLink(
    run: RunAddress,
    welcome: Welcome,
    connection: MessageConnection,
    attempt: StartAttempt | null,
  ): NativeLink {
    const link = new NativeLink(welcome, connection, attempt, {
      readExit: () => this.runsOf(run).readExit(run.runId),
      onClosed: () => this.#links.delete(link),
    });
    this.#links.add(link);
    return link;
  }
}

/** Opens an observer. It writes nothing, so it also works on a full disk. `anchorPath` is any anchor binary that runs here. */
export function openNativeObserver(
  home: string,
  machine: MachineIdentity,
  anchorPath: string,
): NativeObserver {
  const instanceId = OBSERVER_ID;
  const instanceDir = join(home, "instances", instanceId);
  return new NativeObserver({ home, instanceId, instanceDir, incarnation: OBSERVER_ID, machine }, anchorPath);
}
