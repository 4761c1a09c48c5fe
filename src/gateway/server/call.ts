import type { WebSocket } from "ws";
import type { StreamName } from "../../anchor/host.js";
import { defaults } from "../../defaults.js";
import type { RunRecord } from "../../store/run-record.js";
import type { OutputChunk, Run, Supervisor } from "../../supervisor/api.js";
import { ALL_SAID, frame, type ToViewer } from "../attach-frames.js";
import type { Callers } from "../callers.js";
import { CallInput } from "./call-input.js";
import { heard, stopFor } from "./heard.js";
import type { Requester } from "./requester.js";
import { Window } from "./window.js";

export interface CallParts {
  readonly supervisor: Supervisor;
  readonly callers: Callers;
  readonly requester: Requester;
  readonly record: RunRecord;
  /** Null: it has ended. */
  readonly run: Run | null;
  readonly socket: WebSocket;
  /** Of each stream, the first byte that the caller does not have. */
  readonly offsets: Partial<Record<StreamName, number>>;
}

/** A caller and its run, for as long as they are connected. */
export interface Call {
  /** The run has ended; what is left of its output is on its way. */
  readonly ending: boolean;
  readonly done: Promise<void>;
}

/** Survivors and a state that has changed are told this late. */
const LOOK_MS = 100;

/**
 * The foreground's own connection. Output is sent no further than a window beyond what the caller has written, so neither
 * side piles it up, and freed when it has been. Input comes with offsets, so that a caller can send again what it is not
 * sure of.
 */
export function answerCall(parts: CallParts): Call {
  const call = { ending: parts.run === null, done: Promise.resolve() };
  call.done = serve(parts, () => (call.ending = true));
  return call;
}

async function serve(parts: CallParts, ending: () => void): Promise<void> {
  const { callers, record, run, socket, offsets } = parts;
  const left = new AbortController();
  const tell = (message: ToViewer): void => socket.send(JSON.stringify(message));
  const windows = { stdout: new Window(offsets.stdout ?? 0), stderr: new Window(offsets.stderr ?? 0) };
  // Others have typed into it while this caller was away: where its own bytes would go is not known any more.
  const overtaken = callers.overtaken(record.runId);
  const input = new CallInput({
    runId: record.runId,
    run: overtaken ? null : run,
    left: left.signal,
    tell,
    hangUp: () => socket.close(1011, "its input could not be taken"),
  });
  using _present = run === null ? null : callers.arrived(run.runId, () => socket.terminate());
  socket.on("error", () => socket.terminate());
  socket.on("close", () => {
    left.abort();
    for (const window of Object.values(windows)) window.end();
  });
  socket.on("message", (data: Buffer, binary: boolean) => {
    obey(parts, windows, input, data, binary).catch((error: unknown) =>
      tell({ type: "refused", message: messageOf(error) }),
    );
  });
  const { runId } = record;
  const { state, size, accepted } = run ?? { state: record.state, size: null, accepted: 0 };
  tell({ type: "attached", runId, state, size, accepted });
  if (overtaken) tell({ type: "unread", message: "others have typed into it meanwhile" });
  using _watch = run === null ? null : watch(run, tell);
  const sending = (["stdout", "stderr"] as const).map(async (stream) => {
    for await (const { offset, bytes } of outputOf(parts, stream, left.signal)) {
      socket.send(frame(stream, offset, bytes));
      await windows[stream].room(offset + bytes.length);
    }
  });
  const output = Promise.all(sending);
  output.catch(() => socket.close(1011, "the gateway failed to show it"));
  const gone = new Promise<null>((resolve) => left.signal.addEventListener("abort", () => resolve(null)));
  const ended = run === null ? { record, recordPending: null } : await Promise.race([run.end(), gone]);
  if (ended === null) return;
  ending();
  tell({ type: "ended", ...ended });
  await output;
  socket.close(ALL_SAID);
}

async function obey(
  { requester, run }: CallParts,
  windows: Readonly<Record<StreamName, Window>>,
  input: CallInput,
  data: Buffer,
  binary: boolean,
): Promise<void> {
  if (binary) return input.take(data);
  const message = heard(data);
  switch (message.type) {
    case "ack":
      windows[message.stream].taken(message.offset);
      return run?.ack(message.stream, message.offset);
    case "stop":
      return run === null ? undefined : stopFor(run, requester, message);
    case "resize":
      return run?.resize({ rows: message.rows, cols: message.cols });
    case "eof":
      return input.end();
  }
}

/** From a run that has ended, what is kept of it. */
async function* outputOf(
  { supervisor, record: { runId }, run, offsets }: CallParts,
  stream: StreamName,
  signal: AbortSignal,
): AsyncGenerator<OutputChunk, void, undefined> {
  if (run !== null) {
    yield* run.follow({ streams: [stream], offsets, signal });
    return;
  }
  for (let from = offsets[stream] ?? 0; !signal.aborted;) {
    const chunk = await supervisor.readOutput(runId, stream, {
      offset: from,
      maxBytes: defaults.followBytes,
    });
    // Empty, and further on: the last of it is lost.
    if (chunk.bytes.length === 0 && chunk.offset <= from) return;
    yield chunk;
    from = chunk.offset + chunk.bytes.length;
  }
}

function watch(run: Run, tell: (message: ToViewer) => void): Disposable {
  let told = "";
  const look = (): void => {
    const { state, survivors, service } = run;
    const now = JSON.stringify([state, survivors.length, service]);
    if (now !== told) tell({ type: "state", state, survivors, service });
    told = now;
  };
  look();
  const timer = setInterval(look, LOOK_MS);
  return { [Symbol.dispose]: () => clearInterval(timer) };
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
