import type { LEASE_STATES } from "./enums.js";
import type { RecordOf } from "./record-type.js";
import type {
  importedFactsSchema,
  runBoundarySchema,
  runDeadlinesSchema,
  runExitSchema,
  runLimitsSchema,
  runPolicySchema,
  runSchema,
  runUsageSchema,
  serviceFactsSchema,
} from "./run-schema.js";

/** The durable record of a run: what it runs, which instance owns it, and how it ended. */
export type RunRecord = RecordOf<typeof runSchema>;
export type RunStateName = RunRecord["state"];
export type RunKind = RunRecord["kind"];
export type RunIo = RunRecord["io"];
export type Emptiness = NonNullable<RunRecord["emptiness"]>;

export type RunExit = RecordOf<typeof runExitSchema>;
export type EndReason = RunExit["reason"];
export type LimitHit = NonNullable<RunExit["limitHit"]>;

export type RunPolicy = RecordOf<typeof runPolicySchema>;
export type OnEscape = RunPolicy["onEscape"];
export type OnOrphan = RunPolicy["onOrphan"];

export type RunDeadlines = RecordOf<typeof runDeadlinesSchema>;
export type RunBoundary = RecordOf<typeof runBoundarySchema>;
export type RunLimits = RecordOf<typeof runLimitsSchema>;
export type ServiceFacts = RecordOf<typeof serviceFactsSchema>;
export type ImportedFacts = RecordOf<typeof importedFactsSchema>;

export type RunUsage = RecordOf<typeof runUsageSchema>;
export type UsageSource = RunUsage["source"]["cpu"];

/** How processes were ended: one by one, or all of a process group, cgroup or job at once. */
export type KillMode = "none" | "pid" | "pgid" | "cgroup" | "job";

/** The epoch of the first lease of a run. */
export const FIRST_EPOCH = 1;

/** Every state but `exited`. */
export const OPEN_RUN_STATES = ["starting", "running", "exiting"] as const satisfies readonly RunStateName[];

/** `lost`: how the run ended is unknown. */
export type LeaseState = (typeof LEASE_STATES)[number];

/** The state of a run's lease, derived from its record. */
export function leaseStateOf({ state, exit }: Pick<RunRecord, "state" | "exit">): LeaseState {
  if (state === "exiting") return "closing";
  if (state !== "exited") return "open";
  return exit?.reason === "lost" ? "lost" : "closed";
}

export const NO_DEADLINES: RunDeadlines = { overallMs: null, noOutputMs: null };

export const NO_LIMITS: RunLimits = { memoryBytes: null, pids: null, cpus: null };

/** Usage fields that older anchors and records do not have. */
export const REAPED_USAGE = { peakTasks: null, source: { cpu: "reaped", memory: "reaped" } } as const;
