import { z } from "zod";

/**
 * Observations of several gateways on one store, as JSON lines: exported events, ends of tasks, messages that receivers
 * got, and requests of clients to a named process. Nothing here comes from the code or the tables of the store.
 */
const entrySchema = z.discriminatedUnion("entry", [
  /** An event of a run, as `holdfast events --json` prints it. */
  z.object({
    entry: z.literal("event"),
    seq: z.number(),
    runId: z.string(),
    type: z.string(),
    data: z.record(z.string(), z.unknown()),
  }),
  /** The end of a task, as its events say. */
  z.object({ entry: z.literal("task-end"), taskId: z.string(), status: z.string() }),
  /** A request to the receiver of a task's notifications. */
  z.object({ entry: z.literal("received"), id: z.string(), taskId: z.string(), status: z.string() }),
  /** A client wrote to a run through a process of a gateway. Times are of the client's monotonic clock. */
  z.object({
    entry: z.literal("steered"),
    runId: z.string(),
    process: z.string(),
    invokedAt: z.number(),
    returnedAt: z.number(),
    accepted: z.boolean(),
  }),
]);

export type HistoryEntry = z.output<typeof entrySchema>;

export function parseHistory(lines: string): HistoryEntry[] {
  return lines
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => entrySchema.parse(JSON.parse(line)));
}
