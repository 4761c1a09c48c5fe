import type { ResponseOf } from "../../../api/contract.js";
import { sanitizeLine } from "../../../text/sanitize.js";
import { formatElapsed } from "../../../text/format-units.js";
import { exitCodes } from "../../print/exit-code.js";
import { notice } from "../../print/errors-and-notices.js";
import { print } from "../../print/write-output.js";

type ClosedTree = Pick<ResponseOf<"closeSession">, "children" | "runs">;

interface ShownSession {
  readonly closedAt: number | null;
  readonly closedBy: string | null;
  readonly closeReason: string | null;
  readonly leaseId: string | null;
  readonly leaseState: string | null;
}

/** When, by whom and why a session was closed. Null: it is open. */
export function closeText({ closedAt, closedBy, closeReason }: ShownSession): string | null {
  if (closedAt === null) return null;
  const by = closedBy === null ? "" : ` by ${closedBy}`;
  return `${formatElapsed(closedAt)} ago${by}${because(closeReason)}`;
}

/** The lease of a session's agent. Null: its agent has not run. */
export function leaseText({ leaseId, leaseState }: ShownSession): string | null {
  return leaseId === null ? null : `${leaseId}, ${leaseState}`;
}

/** Sessions and runs that a notice lists by name. */
const MAX_LISTED = 5;

/** Prints what became of the descendants and runs of a closed session. `again`: the command that also ends what continues. */
export function printClosedTree({ children, runs }: ClosedTree, tree: boolean, again: string): void {
  const closed = children.filter(({ outcome }) => outcome === "closed");
  const stopped = runs.filter(({ outcome }) => outcome === "stopped");
  for (const { key, sessionId, why } of closed)
    print(sanitizeLine(`${key} (${sessionId}) is closed${because(why)}`) + "\n");
  for (const { runId, command } of stopped) print(sanitizeLine(`${runId} is stopped: ${command}`) + "\n");
  const open = children.filter(({ outcome }) => outcome === "open");
  const running = runs.filter(({ outcome }) => outcome === "running");
  if (open.length + running.length === 0) return;
  if (open.length > 0)
    noticeLeft(
      "stays open",
      open.map(({ key, sessionId, why }) => `${key} (${sessionId})${because(why)}`),
    );
  if (running.length > 0)
    noticeLeft(
      "continues",
      running.map(({ runId, command, why }) => `${runId} (${command})${because(why)}`),
    );
  if (!tree) notice(`to close them too: ${again}`, "dim");
}

function noticeLeft(what: string, names: readonly string[]): void {
  const more = names.length > MAX_LISTED ? ` and ${names.length - MAX_LISTED} more` : "";
  notice(`${what}: ${names.slice(0, MAX_LISTED).join(", ")}${more}`, "yellow");
}

function because(why: string | null): string {
  return why === null ? "" : `: ${why}`;
}

/** `tree`: everything was to be closed. */
export function closedTreeExitCode({ children, runs }: ClosedTree, tree: boolean): number {
  const left = children.some(({ outcome, why }) => outcome === "open" || why !== null);
  const running = runs.some(({ outcome }) => outcome === "running");
  return tree && (left || running) ? exitCodes.incomplete : 0;
}
