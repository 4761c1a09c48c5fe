import type { ProcessIdentity, Residue, Survivor } from "../../model/process.js";
import type { Emptiness, KillMode } from "../../model/run.js";
import type { CgroupRef } from "../run-dir/run-file-types.js";

export interface ProcessEvidence {
  readonly identity: ProcessIdentity;
  /** False for a zombie, unless only its first thread has ended. */
  readonly alive: boolean;
  /** True if the live process has the requested identity, or, if only a pid was given, if it is alive. */
  readonly matches: boolean;
  readonly state: string;
  readonly parentPid: number;
  readonly processGroupId: number;
  readonly sessionId: number;
  readonly uid: number;
  readonly cgroup: string | null;
  readonly command: string;
  /** The command line, limited in length; empty if it cannot be read. */
  readonly argv: readonly string[];
  /** Targets of stdin, stdout and stderr, as in /proc; null if closed or not readable. */
  readonly stdio: readonly (string | null)[];
  /** The executable file; null if it cannot be read. */
  readonly executable: string | null;
  readonly leaseId: string | null;
  readonly runId: string | null;
  readonly instanceId: string | null;
  readonly sessionKey: string | null;
  /** CPU time used so far and resident memory. Absent if unknown. */
  readonly cpuMs?: number;
  readonly rssKb?: number;
  /** From the parent to the first process of the pid namespace. */
  readonly ancestors: readonly ProcessIdentity[];
  readonly descendants: readonly {
    readonly identity: ProcessIdentity;
    readonly parentPid: number;
    readonly sessionId: number;
    readonly command: string;
    readonly state: string;
    /** CPU time used so far, and resident memory. */
    readonly cpuMs: number;
    readonly rssKb: number;
    /** TCP ports it listens on in its network namespace. Only if requested. */
    readonly ports: readonly number[];
  }[];
}

export interface InspectOptions {
  /** Only identity and usage of the process: no descendants, ancestors, environment or command line. */
  readonly brief?: boolean;
  /** Also the TCP ports of descendants, as far as their descriptors can be read. */
  readonly ports?: boolean;
}

/**
 * The processes that listen on a TCP port of this network namespace. If it is open without holders, the holders are not
 * visible.
 */
export interface PortEvidence {
  readonly open: boolean;
  readonly holders: readonly { readonly identity: ProcessIdentity; readonly command: string }[];
}

/**
 * `gone`: the path does not exist or is another cgroup; the kernel removes only empty ones. `unknown`: it is not
 * visible from here.
 */
export type CgroupState = "populated" | "empty" | "gone" | "unknown";

export interface ReapRequest {
  readonly root: ProcessIdentity | null;
  readonly cgroup: CgroupRef | null;
  readonly leaseId: string | null;
  readonly graceMs: number;
  /** An anchor that does not answer and has no other run: all processes below it are ended, then the anchor itself. */
  readonly anchor?: KnownAnchor | null;
  /**
   * Leaders of other runs of the same anchor. They and their descendants are not touched. Not combined with `anchor`.
   */
  readonly spared?: readonly ProcessIdentity[];
}

/** An anchor, with second facts for kernels without unique ids: both must match. */
export interface KnownAnchor {
  readonly identity: ProcessIdentity;
  /** The file of its executable. */
  readonly path: string;
  /** A run whose directory it has open. */
  readonly runId: string;
}

export interface ReapResult {
  /** False if live evidence did not match; then nothing was signalled. */
  readonly verified: boolean;
  readonly why: string;
  readonly killed: number;
  readonly killMode: KillMode;
  /** The processes that were ended besides the root (at most 64). */
  readonly residue: readonly Residue[];
  readonly survivors: readonly Survivor[];
  readonly emptiness: Emptiness;
  /**
   * The fate of the given anchor. `kept`: a process below it is still alive. Null if none was given or verified.
   */
  readonly anchor?: "killed" | "kept" | "gone" | null;
}
