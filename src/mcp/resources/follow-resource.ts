import { setTimeout } from "node:timers/promises";
import type { ResponseOf } from "../../api/contract.js";
import { defaults } from "../../defaults.js";
import { HoldfastError } from "../../errors.js";
import { isTaskEnded, type TaskRecord } from "../../model/task.js";
import type { SessionConnection } from "../session/session-connection.js";
import { parseResourceUri } from "./resources.js";

/** How long one request waits for a change. */
const WAIT_MS = 25_000;
const RETRY_MS = 1_000;

/** The part of a resource that every change changes: the ends of both streams of a run, or a task's last event. */
type ResourceState = readonly number[];

/**
 * The state from which a resource is followed. It is read before the client hears that it has subscribed, so that no later
 * change is missed. Null: the resource cannot be read now; the first answer then counts as a change.
 */
export async function readState(
  { observer }: SessionConnection,
  uri: string,
  signal: AbortSignal,
): Promise<ResourceState | null> {
  const name = parseResourceUri(uri);
  if (name === null) return null;
  try {
    if (name.kind === "task")
      return [(await observer.getTask({ params: { id: name.taskId } }, signal)).task.seq];
    return streamEnds(await observer.poll({ params: { runId: name.runId }, query: { maxChars: 0 } }, signal));
  } catch {
    return null;
  }
}

/** Calls `changed` when the resource is not in the state `from` any more, until it can change no more or `signal` aborts. */
export async function followResource(
  connection: SessionConnection,
  uri: string,
  from: ResourceState | null,
  changed: () => void | Promise<void>,
  signal: AbortSignal,
): Promise<void> {
  const name = parseResourceUri(uri);
  if (name === null) return;
  if (name.kind === "task") return followTask(connection, name.taskId, from, changed, signal);
  const { runId } = name;
  let seen = from;
  await repeatedly(signal, async () => {
    const [stdout = 0, stderr = 0] = seen ?? [];
    const query = seen === null ? { maxChars: 0 } : { stdout, stderr, waitMs: WAIT_MS, maxChars: 0 };
    const answer = await connection.observer.poll({ params: { runId }, query }, signal);
    const now = streamEnds(answer);
    const ended = answer.run.state === "exited";
    const before = seen;
    if (ended || now.some((end, at) => end !== before?.[at])) await changed();
    seen = now;
    return !ended;
  });
}

function streamEnds({ output }: ResponseOf<"poll">): ResourceState {
  return ["stdout", "stderr"].map(
    (stream) => output.find((piece) => piece.stream === stream)?.nextOffset ?? 0,
  );
}

/** Calls `changed` with the record of a task at each event after `from`, until the task has ended or `signal` aborts. */
export async function followTask(
  { observer, followTask: events }: SessionConnection,
  id: string,
  from: ResourceState | null,
  changed: (task: TaskRecord) => void | Promise<void>,
  signal: AbortSignal,
): Promise<void> {
  let [seq] = from ?? [];
  await repeatedly(signal, async () => {
    const { task } = await observer.getTask({ params: { id } }, signal);
    const ended = isTaskEnded(task.status);
    if (ended || task.seq !== seq) await changed(task);
    if (ended) return false;
    ({ seq } = task);
    for await (const _ of events(task.taskId, task.seq, signal)) break;
    return true;
  });
}

/** Repeats `step` until it resolves with false, the resource is gone, or `signal` aborts. */
async function repeatedly(signal: AbortSignal, step: () => Promise<boolean>): Promise<void> {
  while (!signal.aborted) {
    let waitMs: number = defaults.mcpNotifyMs;
    try {
      if (!(await step())) return;
    } catch (error) {
      const code = error instanceof HoldfastError ? error.code : "";
      if (["RUN_NOT_FOUND", "NOT_FOUND", "UNAUTHORIZED"].includes(code)) return;
      // The gateway restarts.
      waitMs = RETRY_MS;
    }
    await setTimeout(waitMs, undefined, { signal }).catch(() => undefined);
  }
}
