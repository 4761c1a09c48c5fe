import type { RunEvent } from "../../../src/model/run-event.js";
import type { RunExit, RunIo, RunRecord } from "../../../src/model/run.js";
import type { SpawnOptions } from "../../../src/supervisor/api.js";
import { scaled } from "../../support/scale.js";
import type { LibraryProcess } from "../../support/supervisor/library-process.js";
import { signalRecorded } from "../../support/supervisor/shared-home.js";
import type { ProcessRole } from "../../support/supervisor/token-processes.js";

/** One way for a run to end, and its expected record. */
export interface End {
  readonly name: string;
  readonly options?: () => SpawnOptions;
  cause(libraryProcess: LibraryProcess, record: RunRecord): Promise<void> | void;
  /** The supervising process is gone afterwards; the next one records the end. */
  readonly orphaned?: true;
  readonly exit: Partial<RunExit>;
  /** The recorded processes that outlived the leader. Null: the anchor was killed and recorded none. */
  readonly residue: Readonly<Record<RunIo, readonly ProcessRole[]>> | null;
  /** Types of the events from the moment of the end, in order. */
  readonly events: readonly RunEvent["type"][];
}

const onlyTermIgnoring = { pipe: ["deaf"], pty: ["deaf"] } as const;
/** When the leader ends, its terminal hangs up, which ends the plain child. */
const allButTheLeader = {
  pipe: ["plain", "deaf", "session", "daemon"],
  pty: ["deaf", "session", "daemon"],
} as const;

export const ends: readonly End[] = [
  {
    name: "cancel",
    cause: (libraryProcess) => libraryProcess.cancel({ actor: "test:me", requestId: "r1" }),
    exit: { reason: "manual-cancel", actor: "test:me", code: null, signal: "SIGTERM", source: "anchor" },
    residue: onlyTermIgnoring,
    events: ["cancel", "cleanup", "exit"],
  },
  {
    name: "overall timeout",
    // Not before all processes have started.
    options: () => ({ timeoutMs: scaled(1_500) }),
    cause: () => {},
    exit: { reason: "overall-timeout", actor: "deadline", code: null, signal: "SIGTERM", source: "anchor" },
    residue: onlyTermIgnoring,
    events: ["cancel", "cleanup", "exit"],
  },
  {
    name: "no-output timeout",
    options: () => ({ noOutputTimeoutMs: scaled(1_200) }),
    cause: () => {},
    exit: { reason: "no-output-timeout", actor: "deadline", code: null, signal: "SIGTERM", source: "anchor" },
    residue: onlyTermIgnoring,
    events: ["cancel", "cleanup", "exit"],
  },
  {
    name: "leader exits, escapes fail",
    cause: (libraryProcess) => libraryProcess.write("exit 7\n"),
    exit: { reason: "ownership-escape", actor: "", code: 7, signal: null, source: "anchor" },
    residue: allButTheLeader,
    events: ["escape", "cleanup", "exit"],
  },
  {
    name: "leader exits, escapes are swept",
    options: () => ({ onEscape: "sweep" }),
    cause: (libraryProcess) => libraryProcess.write("exit 7\n"),
    exit: { reason: "exit", actor: "", code: 7, signal: null, source: "anchor" },
    residue: allButTheLeader,
    events: ["escape", "cleanup", "exit"],
  },
  {
    name: "SIGKILL of the leader",
    cause: (_, record) => signalRecorded(record.root, "SIGKILL"),
    exit: { reason: "ownership-escape", actor: "", code: null, signal: "SIGKILL", source: "anchor" },
    residue: allButTheLeader,
    events: ["escape", "cleanup", "exit"],
  },
  {
    name: "SIGKILL of the supervisor",
    cause: (libraryProcess) => libraryProcess.kill(),
    orphaned: true,
    exit: { reason: "owner-lost", actor: "anchor", code: null, signal: "SIGTERM", source: "exit-file" },
    residue: onlyTermIgnoring,
    events: ["reconcile", "cleanup", "exit"],
  },
  {
    name: "SIGKILL of the anchor",
    cause: (_, record) => signalRecorded(record.anchor, "SIGKILL"),
    exit: { reason: "lost", actor: "", code: null, signal: null, source: "none" },
    residue: null,
    events: ["cleanup", "exit"],
  },
  {
    name: "SIGKILL of both",
    cause: async (libraryProcess, record) => {
      signalRecorded(record.anchor, "SIGKILL");
      await libraryProcess.kill();
    },
    orphaned: true,
    exit: { reason: "lost", actor: "", code: null, signal: null, source: "none" },
    residue: null,
    events: ["reconcile", "cleanup", "exit"],
  },
  {
    name: "SIGTERM to the anchor",
    cause: (_, record) => signalRecorded(record.anchor, "SIGTERM"),
    exit: {
      reason: "manual-cancel",
      actor: `signal:TERM pid:${process.pid}`,
      code: null,
      signal: "SIGTERM",
      source: "anchor",
    },
    residue: onlyTermIgnoring,
    events: ["cancel", "cleanup", "exit"],
  },
];
