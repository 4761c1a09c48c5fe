import { z } from "zod";
import type { ResponseOf } from "../api/contract.js";
import type { RunRecord } from "../model/run.js";

/** A run as models see it. */
export const runView = z.object({
  runId: z.string(),
  command: z.string(),
  cwd: z.string(),
  state: z.enum(["running", "ended"]),
  exitCode: z.int().nullable(),
  signal: z.string().nullable(),
  endReason: z
    .string()
    .nullable()
    .describe("exit, signal, manual-cancel, overall-timeout, …; null while it runs"),
  terminal: z.boolean().describe("it has a terminal: screen, keys and submit work"),
  service: z.boolean(),
  port: z.int().nullable(),
  startedAt: z.string().nullable(),
  endedAt: z.string().nullable(),
});
type RunView = z.output<typeof runView>;

/** A piece of output. */
export const outputView = z.object({
  text: z.string(),
  offset: z.int().describe("byte offset of the beginning of text"),
  nextOffset: z.int().describe("where the next piece begins"),
  leftOutBytes: z.int().describe("bytes before text that are not shown; process log reads them"),
});
type OutputView = z.output<typeof outputView>;

export type OutputPiece = ResponseOf<"log">;

export function viewRun(run: RunRecord): RunView {
  const { runId, command, cwd, exit, io, service } = run;
  return {
    runId,
    command,
    cwd,
    state: run.state === "exited" ? "ended" : "running",
    exitCode: exit?.code ?? null,
    signal: exit?.signal ?? null,
    endReason: exit?.reason ?? null,
    terminal: io === "pty",
    service: service !== null,
    port: service?.port ?? null,
    startedAt: isoTime(run.startedAt),
    endedAt: isoTime(run.endedAt),
  };
}

export function isoTime(at: number | null): string | null {
  return at === null ? null : new Date(at).toISOString();
}

export function viewOutput(pieces: readonly OutputPiece[], stream: "stdout" | "stderr"): OutputView {
  const piece = pieces.find((each) => each.stream === stream);
  if (piece === undefined) return { text: "", offset: 0, nextOffset: 0, leftOutBytes: 0 };
  const { text, offset, nextOffset, skipped } = piece;
  return { text, offset, nextOffset, leftOutBytes: skipped };
}

/** The output of a run as text, with a note about what was left out. */
export function outputText(runId: string, stdout: OutputView, stderr: OutputView): string {
  const parts = [streamText(runId, "stdout", stdout)];
  if (stderr.text !== "" || stderr.leftOutBytes > 0)
    parts.push("[stderr]", streamText(runId, "stderr", stderr));
  return parts.filter((part) => part !== "").join("\n");
}

function streamText(runId: string, stream: string, { text, offset, leftOutBytes }: OutputView): string {
  const body = text.replace(/\n$/, "");
  if (leftOutBytes === 0) return body;
  const from = Math.max(0, offset - leftOutBytes);
  return `[${leftOutBytes} bytes of ${stream} before this are left out; read them with process log, runId ${runId}, stream ${stream}, offset ${from}]\n${body}`;
}

/** One line about the state of a run. */
export function stateText(run: RunRecord, failure: string | null): string {
  if (run.state !== "exited") return `${run.runId} is running`;
  const { exit } = run;
  const detail = exit?.detail === null || exit?.detail === undefined ? "" : `: ${exit.detail}`;
  if (failure === null) return `${run.runId} ended with exit code ${exit?.code ?? 0}`;
  if (failure === "exit-code") return `${run.runId} failed with exit code ${exit?.code ?? "unknown"}`;
  if (failure === "overall-timeout") return `${run.runId} was stopped because its time was over${detail}`;
  if (failure === "signal") return `${run.runId} was ended by ${exit?.signal ?? "a signal"}${detail}`;
  return `${run.runId} failed (${failure})${detail}`;
}
