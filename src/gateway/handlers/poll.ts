import { setTimeout } from "node:timers/promises";
import type { StreamName } from "../../anchor/host.js";
import { defaults } from "../../defaults.js";
import type { RunRecord } from "../../store/run-record.js";
import type { AnswerOf, HeardOf } from "../contract/contract.js";
import type { Asking } from "../server/app.js";
import { nowOf, type RunReader } from "./run-reader.js";
import { shownPiece, textFrom } from "./text-output.js";

/** How late what another supervisor's run writes is noticed. */
const LOOK_MS = 100;

/** News since the caller's offsets; waits for some, and for no longer than it was told. Consumes nothing. */
export async function pollRun(
  reader: RunReader,
  record: RunRecord,
  query: HeardOf<"poll">["query"],
  { gone, turn }: Pick<Asking, "gone" | "turn">,
  seemsToWait: (text: string, idleMs: number) => { readonly seems: boolean; readonly because: string },
): Promise<AnswerOf<"poll">> {
  const from = { stdout: query.stdout ?? 0, stderr: query.stderr ?? 0 };
  const run = reader.run(record.runId);
  const quit = new AbortController();
  const left = AbortSignal.any([gone, quit.signal]);
  if (query.waitMs > 0) {
    const changed = run?.changed(from, left) ?? changedElsewhere(reader, record.runId, from, left);
    await news(changed, query.waitMs, gone).finally(() => quit.abort());
    // Many callers may wait for the same output, and each answer costs memory, so they take turns.
    return turn(() => answer(reader, record, run, from, query, seemsToWait));
  }
  return answer(reader, record, run, from, query, seemsToWait);
}

async function answer(
  reader: RunReader,
  record: RunRecord,
  run: ReturnType<RunReader["run"]>,
  from: Readonly<Record<StreamName, number>>,
  query: HeardOf<"poll">["query"],
  seemsToWait: (text: string, idleMs: number) => { readonly seems: boolean; readonly because: string },
): Promise<AnswerOf<"poll">> {
  const { record: now, recordPending } = await nowOf(reader, record, defaults.localListMs);
  const ended = now.state === "exited";
  const streams: readonly StreamName[] = ["stdout", "stderr"];
  const output = await Promise.all(
    streams.map((stream) =>
      textFrom(
        (name, options) => reader.readOutput(record.runId, name, options),
        stream,
        from[stream],
        query.maxChars,
        ended,
      ),
    ),
  );
  const idleMs = run?.idleMs ?? 0;
  const tail = output.map(({ text }) => text).findLast((text) => text !== "") ?? "";
  return {
    run: now,
    recordPending,
    output: output.map((piece) => shownPiece(piece, query.raw === true)),
    idleMs,
    waitingForInput: ended ? { seems: false, because: "it has ended" } : seemsToWait(tail, idleMs),
    survivors: run === null ? [] : [...run.survivors],
  };
}

/** The same for a run that another supervisor holds, which tells nobody here: looked at now and then. */
async function changedElsewhere(
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
    await setTimeout(LOOK_MS, undefined, { signal: left }).catch(() => undefined);
  }
}

async function news(changed: Promise<void>, waitMs: number, gone: AbortSignal): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  let leave = (): void => {};
  const enough = new Promise<void>((resolve) => {
    timer = globalThis.setTimeout(resolve, waitMs);
    leave = resolve;
    gone.addEventListener("abort", leave, { once: true });
  });
  try {
    await Promise.race([changed, enough]);
  } finally {
    clearTimeout(timer);
    gone.removeEventListener("abort", leave);
  }
}
