import type { KillMode } from "./run.js";

/** Something that happened to a run. `at` is wall-clock milliseconds; `seq` orders all events of a store without gaps in reading order. */
interface RunEventFields {
  readonly runId: string;
  readonly at: number;
  /** Null before the root exists. */
  readonly rootPid: number | null;
  /** How many descendants of the root had been seen by then. */
  readonly descendants: number;
}

export type NewRunEvent = RunEventFields &
  (
    | { readonly type: "spawn"; readonly data: { readonly tier: string; readonly command: string } }
    /** The run is producing output; at most one per `outputHeartbeatMs`. */
    | { readonly type: "output"; readonly data: { readonly stdout: number; readonly stderr: number } }
    | {
        readonly type: "cancel";
        readonly data: { readonly reason: string; readonly actor: string; readonly requestId: string };
      }
    | {
        readonly type: "exit";
        readonly data: {
          readonly reason: string;
          readonly actor: string;
          readonly code: number | null;
          readonly signal: string | null;
          readonly emptiness: string;
        };
      }
    | {
        readonly type: "cleanup";
        readonly data: {
          readonly mode: KillMode;
          /** Processes that outlived the leader. */
          readonly residue: number;
          /** Processes ended besides the leader, by TERM or KILL; not said by events of an older version. */
          readonly ended?: number;
          /** Processes that would not go. */
          readonly survivors: number;
        };
      }
    | {
        readonly type: "escape";
        readonly data: {
          readonly residue: readonly {
            readonly pid: number;
            readonly kind: string;
            readonly command: string;
          }[];
        };
      }
    /** Bytes of its output are missing (in all, so far): a spool file was truncated or removed. */
    | {
        readonly type: "output-lost";
        readonly data: { readonly stream: "stdout" | "stderr"; readonly lost: number };
      }
    /** One of its processes listens where it should. */
    | { readonly type: "ready"; readonly data: { readonly port: number } }
    /** It became a service: by itself, or (`from`) out of another run; or (`to`) another came out of it. */
    | {
        readonly type: "adopt";
        readonly data: {
          readonly actor: string;
          readonly pid: number | null;
          readonly from: string | null;
          readonly to: string | null;
        };
      }
    /** A stop was handed to the gateway that has the run, or (`outcome`) has been carried out there. */
    | {
        readonly type: "command";
        readonly data: {
          readonly id: string;
          readonly actor: string;
          readonly by: string;
          readonly target: string;
          readonly outcome: string | null;
          readonly error: string | null;
        };
      }
    /** An agent asked leave to use a tool: what was decided, by which rule or whom. */
    | {
        readonly type: "permission";
        readonly data: {
          readonly permissionId: string;
          readonly title: string;
          readonly kind: string;
          readonly verdict: string;
          readonly actor: string;
        };
      }
    /** A turn of an agent has begun, or ended. */
    | {
        readonly type: "turn";
        readonly data: { readonly turnId: string; readonly outcome: string | null; readonly actor: string };
      }
    /** Its anchor did not answer for so long; `continued`: it was sent SIGCONT. `by`: an instance, or its launcher. */
    | {
        readonly type: "anchor-silent";
        readonly data: { readonly silentMs: number; readonly continued: boolean; readonly by: string };
      }
    /** It answers again, so long after SIGCONT. */
    | { readonly type: "anchor-answers"; readonly data: { readonly silentMs: number } }
    /** Its supervisor lost the connection and has it again. */
    | {
        readonly type: "attach";
        readonly data: { readonly epoch: number; readonly decision: string; readonly process?: string };
      }
    /** The store could be read but not written from `since` to `until`. An event of a gateway: its run id is empty. */
    | {
        readonly type: "store-unwritable";
        readonly data: {
          readonly by: string;
          readonly since: number;
          readonly until: number;
          readonly why: string;
        };
      }
    /** A supervisor found the run without one, or found somebody else's: which case it was, what follows, and why. */
    | {
        readonly type: "reconcile";
        readonly data: {
          readonly row: string;
          readonly action: string;
          readonly why: string;
          /** The instance that decided. */
          readonly by: string;
          /** Whose it was before, and the epoch from here on. */
          readonly from: string;
          readonly epoch: number;
          /** The process of that instance; absent where no lease was taken. */
          readonly process?: string;
        };
      }
  );

export type RunEvent = NewRunEvent & { readonly seq: number };

/** Placeholder for an event that the reader may not see. */
export type HiddenEvent = Pick<RunEvent, "seq" | "runId" | "at"> & { readonly type: "hidden" };

export type RunEventType = RunEvent["type"];
