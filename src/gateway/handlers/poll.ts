import type { StreamName } from "../../anchor/host.js";
import type { RunRecord } from "../../store/run-record.js";
import type { Supervisor } from "../../supervisor/api.js";
import type { AnswerOf, HeardOf } from "../contract/contract.js";
import type { Asking } from "../server/app.js";
import { textFrom } from "./text-output.js";

/** News since the caller's offsets; waits for some, and for no longer than it was told. Consumes nothing. */
export async function pollRun(
  supervisor: Supervisor,
  record: RunRecord,
  query: HeardOf<"poll">["query"],
  { gone }: Asking,
  seemsToWait: (text: string, idleMs: number) => { readonly seems: boolean; readonly because: string },
): Promise<AnswerOf<"poll">> {
  const from = { stdout: query.stdout ?? 0, stderr: query.stderr ?? 0 };
  const run = supervisor.run(record.runId);
  if (query.waitMs > 0 && run !== null) await news(run.changed(from), query.waitMs, gone);
  if (query.waitMs > 0 && run === null) await newsElsewhere(supervisor, record, from, query.waitMs, gone);
  const now = (await supervisor.getRun(record.runId)) ?? record;
  const ended = now.state === "exited";
  const streams: readonly StreamName[] = ["stdout", "stderr"];
  const output = await Promise.all(
    streams.map((stream) =>
      textFrom(
        (name, options) => supervisor.readOutput(record.runId, name, options),
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
    output,
    idleMs,
    waitingForInput: ended ? { seems: false, because: "it has ended" } : seemsToWait(tail, idleMs),
    survivors: run === null ? [] : [...run.survivors],
  };
}

/** Another supervisor's run announces nothing here. */
const LOOK_MS = 100;

async function newsElsewhere(
  supervisor: Supervisor,
  { runId, state }: RunRecord,
  from: Readonly<Record<StreamName, number>>,
  waitMs: number,
  gone: AbortSignal,
): Promise<void> {
  const until = performance.now() + waitMs;
  const wrote = async (stream: StreamName): Promise<boolean> =>
    (await supervisor.readOutput(runId, stream, { offset: from[stream], maxBytes: 1 })).bytes.length > 0;
  while (state !== "exited" && !gone.aborted && performance.now() < until) {
    if ((await wrote("stdout")) || (await wrote("stderr"))) return;
    if ((await supervisor.getRun(runId))?.state !== state) return;
    await news(new Promise(() => {}), LOOK_MS, gone);
  }
}

async function news(changed: Promise<void>, waitMs: number, gone: AbortSignal): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  let leave = (): void => {};
  const enough = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, waitMs);
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
