import { setTimeout as sleep } from "node:timers/promises";
import type { RunRecord } from "../../../src/model/run.js";
import { Work, type WorkEnd } from "./work.js";

/** How long a work may take to end once nothing is wrong any more. */
const END_MS = 60_000;

/** A work whose run has an id that the soak chose. */
export abstract class RecordedRun extends Work {
  readonly #runId = `run_${this.token.padStart(12, "0").slice(-12)}`;

  get runId(): string {
    return this.#runId;
  }

  async end(): Promise<WorkEnd | null> {
    const record = await endedRecord(this);
    if (record === null) return null;
    const { output, declaredShort } = await readOutput(this, record.runId);
    return { reason: record.exit?.reason ?? "none", code: record.exit?.code ?? null, output, declaredShort };
  }
}

/** The record of its run once it has ended. Null: there is none, and the start was refused. */
export async function endedRecord(work: Work): Promise<RunRecord | null> {
  const deadline = performance.now() + END_MS;
  for (;;) {
    const record = work.runId === null ? null : await work.world.record(work.runId);
    if (record?.state === "exited") return record;
    if (record === null && work.refusal !== null && work.executions().length === 0) return null;
    if (performance.now() > deadline)
      throw new Error(
        `stuck: ${work.runId} is ${record?.state ?? "not on record"} (${work.refusal ?? "it was started"})`,
      );
    await sleep(20);
  }
}

export async function readOutput(
  { world }: Work,
  runId: string,
): Promise<{ readonly output: Buffer; readonly declaredShort: boolean }> {
  const parts: Buffer[] = [];
  let declaredShort = false;
  for (let offset = 0; ;) {
    const { output } = await world.ask((client) =>
      client.poll({ params: { runId }, query: { stdout: offset, maxChars: 900_000, raw: "1", waitMs: 0 } }),
    );
    const piece = output.find(({ stream }) => stream === "stdout");
    if (piece === undefined) return { output: Buffer.concat(parts), declaredShort: true };
    declaredShort ||= piece.skipped > 0 || piece.lost > 0;
    const bytes = Buffer.from(piece.base64 ?? "", "base64");
    parts.push(bytes);
    if (piece.nextOffset === offset || bytes.length === 0) break;
    offset = piece.nextOffset;
  }
  return { output: Buffer.concat(parts), declaredShort };
}
