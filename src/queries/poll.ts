import { setTimeout } from "node:timers/promises";
import type { StreamName } from "../anchor/host-interface.js";
import type { ParsedRequestOf, RequestContext, ResponseOf } from "../api/contract.js";
import { defaults } from "../defaults.js";
import type { RunRecord } from "../model/run.js";
import { guessWaitingForInput } from "../terminal/waiting-for-input.js";
import { outputPieceResponse, readOutputText } from "./output.js";
import { currentRun, type RunReader } from "./runs.js";

/** Characters at the end of the output that show whether a program waits for input. */
const PROMPT_CHARS = 500;

/** Poll interval of runs that another supervisor owns. */
const POLL_MS = 100;

/** Returns new output since the offsets, and waits for it for the requested time. Consumes nothing. */
export async function pollRun(
  reader: RunReader,
  record: RunRecord,
  query: ParsedRequestOf<"poll">["query"],
  context: Pick<RequestContext, "disconnected" | "enqueue">,
): Promise<ResponseOf<"poll">> {
  const from = { stdout: query.stdout ?? 0, stderr: query.stderr ?? 0 };
  const run = reader.run(record.runId);
  if (query.waitMs === 0) return pollResponse(reader, record, run, from, query);
  const { disconnected, enqueue } = context;
  const quit = new AbortController();
  const left = AbortSignal.any([disconnected, quit.signal]);
  const changed = run?.changed(from, left) ?? pollForChange(reader, record.runId, from, left);
  await waitForChange(changed, query.waitMs, disconnected).finally(() => quit.abort());
  // Many callers may wait for the same output, and each answer costs memory, so they take turns.
  return enqueue(() => pollResponse(reader, record, run, from, query));
}

async function pollResponse(
  reader: RunReader,
  record: RunRecord,
  run: ReturnType<RunReader["run"]>,
  from: Readonly<Record<StreamName, number>>,
  query: ParsedRequestOf<"poll">["query"],
): Promise<ResponseOf<"poll">> {
  const { record: now, recordPending } = await currentRun(reader, record, defaults.localListMs);
  const ended = now.state === "exited";
  const streams: readonly StreamName[] = ["stdout", "stderr"];
  const output = await Promise.all(
    streams.map((stream) =>
      readOutputText(
        (name, options) => reader.readOutput(now, name, options),
        stream,
        from[stream],
        query.maxChars,
        ended,
      ),
    ),
  );
  const idleMs = run?.idleMs ?? 0;
  const tail =
    output
      .map(({ text }) => text)
      .findLast((text) => text !== "")
      ?.slice(-PROMPT_CHARS) ?? "";
  return {
    run: now,
    recordPending,
    output: output.map((piece) => outputPieceResponse(piece, query.raw === true)),
    idleMs,
    waitingForInput: ended
      ? { seems: false, because: "it has ended" }
      : guessWaitingForInput({ tail, idleMs }),
    survivors: run === null ? [] : [...run.survivors],
  };
}

/** Waits for output or the end of a run that another supervisor owns. */
async function pollForChange(
  reader: RunReader,
  runId: string,
  from: Readonly<Record<StreamName, number>>,
  left: AbortSignal,
): Promise<void> {
  while (!left.aborted) {
    const record = await reader.getRun(runId);
    if (record === null || record.state === "exited") return;
    for (const stream of ["stdout", "stderr"] as const) {
      const { bytes } = await reader.readOutput(runId, stream, { offset: from[stream], maxBytes: 1 });
      if (bytes.length > 0) return;
    }
    await setTimeout(POLL_MS, undefined, { signal: left }).catch(() => undefined);
  }
}

async function waitForChange(
  changed: Promise<void>,
  waitMs: number,
  disconnected: AbortSignal,
): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  let leave = (): void => {};
  const enough = new Promise<void>((resolve) => {
    timer = globalThis.setTimeout(resolve, waitMs);
    leave = resolve;
    disconnected.addEventListener("abort", leave, { once: true });
  });
  try {
    await Promise.race([changed, enough]);
  } finally {
    clearTimeout(timer);
    disconnected.removeEventListener("abort", leave);
  }
}
