import type { MachineIdentity } from "../../anchor/host.js";
import type { RunRecord } from "../../store/run-record.js";

/** How a run stands or ended, in a word or two. */
export function statusOf({ state, exit }: Pick<RunRecord, "state" | "exit">): string {
  if (state !== "exited" || exit === null) return state;
  switch (exit.reason) {
    case "exit":
      return `exit ${exit.code ?? "?"}`;
    case "signal":
      return exit.signal ?? "signal";
    case "spawn-error":
    case "manual-cancel":
    case "overall-timeout":
    case "no-output-timeout":
    case "ownership-escape":
    case "owner-lost":
    case "lost":
    case "shutdown":
      return exit.reason;
  }
}

/** What is worth saying of an open run besides its state: nobody here can see it, or nobody looks after it. */
export function careOf(
  record: Pick<RunRecord, "state" | "hostId" | "bootId" | "pidNamespace" | "leaseExpiresAt">,
  here: MachineIdentity,
  now: number,
): "unreachable" | "unowned" | null {
  if (record.state === "exited") return null;
  const { hostId, bootId, pidNamespace } = here;
  if (record.hostId !== hostId || record.bootId !== bootId || record.pidNamespace !== pidNamespace)
    return "unreachable";
  return record.leaseExpiresAt <= now ? "unowned" : null;
}

export type Mood = "good" | "bad" | "live" | "ended";

export function moodOf({ state, exit }: Pick<RunRecord, "state" | "exit">): Mood {
  if (state !== "exited" || exit === null) return "live";
  if (exit.reason === "exit") return exit.code === 0 ? "good" : "bad";
  return exit.reason === "manual-cancel" || exit.reason === "shutdown" ? "ended" : "bad";
}
