import type { KillMode } from "./run.js";

/** Fields of every event of a run. `at` is wall-clock milliseconds; `seq` orders all events of a store. */
interface RunEventFields {
  readonly runId: string;
  readonly at: number;
  /** Null before the root exists. */
  readonly rootPid: number | null;
  /** How many descendants of the root have been seen so far. */
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
          /** Processes stopped besides the leader, by TERM or KILL; absent in events of older releases. */
          readonly ended?: number;
          /** Processes that could not be stopped. */
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
    /** Bytes of the run's output are missing (in total so far): a spool file was truncated or removed. */
    | {
        readonly type: "output-lost";
        readonly data: { readonly stream: "stdout" | "stderr"; readonly lost: number };
      }
    /** A process of the service listens on its port. */
    | { readonly type: "ready"; readonly data: { readonly port: number } }
    /** The run became a service, was adopted out of another run (`from`), or a service was adopted out of it (`to`). */
    | {
        readonly type: "adopt";
        readonly data: {
          readonly actor: string;
          readonly pid: number | null;
          readonly from: string | null;
          readonly to: string | null;
        };
      }
    /** A stop was passed to the gateway that owns the run, or (`outcome`) was carried out there. */
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
    /** The decision on a permission request of an agent. */
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
    /** A turn of an agent began or ended. */
    | {
        readonly type: "turn";
        readonly data: { readonly turnId: string; readonly outcome: string | null; readonly actor: string };
      }
    /** The anchor did not answer for so long; `continued`: it was sent SIGCONT. `by`: an instance, or its launcher. */
    | {
        readonly type: "anchor-silent";
        readonly data: { readonly silentMs: number; readonly continued: boolean; readonly by: string };
      }
    /** The anchor answers again, so long after SIGCONT. */
    | { readonly type: "anchor-answers"; readonly data: { readonly silentMs: number } }
    /** The supervisor lost the connection to the anchor and reattached. */
    | {
        readonly type: "attach";
        readonly data: { readonly epoch: number; readonly decision: string; readonly process?: string };
      }
    /** The store could not be written from `since` to `until`. An event of a gateway, with an empty run id. */
    | {
        readonly type: "store-unwritable";
        readonly data: {
          readonly by: string;
          readonly since: number;
          readonly until: number;
          readonly why: string;
        };
      }
    /** The decision of a supervisor that reconciled the run, with its reason. */
    | {
        readonly type: "reconcile";
        readonly data: {
          readonly row: string;
          readonly action: string;
          readonly why: string;
          /** The instance that decided. */
          readonly by: string;
          /** The former owner, and the new epoch. */
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
