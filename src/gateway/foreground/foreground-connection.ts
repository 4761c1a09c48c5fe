import type { WebSocket } from "ws";
import { z } from "zod";
import type { StreamName } from "../../anchor/host-interface.js";
import {
  type AttachClientMessage,
  type AttachServerMessage,
  CLOSE_COMPLETE,
  decodeFrame,
  encodeFrame,
} from "../../api/attach-frames.js";
import { contract, validateInput } from "../../api/contract.js";
import { stream as streamSchema } from "../../api/routes/schemas.js";
import { SerialQueue } from "../../async/concurrency.js";
import { defaults } from "../../defaults.js";
import { BadInput, StdinClosed } from "../../errors.js";
import { errorMessage } from "../../home/errno.js";
import type { RunRecord } from "../../model/run.js";
import type { Requester } from "../../sessions/requester.js";
import type { OutputChunk, Run, Supervisor } from "../../supervisor/api.js";
import { retryWhileFenced } from "../../supervisor/run-handle.js";
import type { ForegroundClients } from "./foreground-clients.js";

const actorName = z
  .string()
  .max(200)
  .refine((text) => !text.includes("\0"), "must be text without NUL");

const clientMessageSchema = z.discriminatedUnion("type", [
  contract.resize.body.extend({ type: z.literal("resize") }),
  z.strictObject({ type: z.literal("eof") }),
  z.strictObject({
    type: z.literal("stop"),
    graceMs: z.number().min(0).max(600_000).optional(),
    actor: actorName.optional(),
  }),
  z.strictObject({ type: z.literal("ack"), stream: streamSchema, offset: z.int().min(0) }),
]) satisfies z.ZodType<AttachClientMessage>;

/** Messages of viewers and callers. */
export function parseClientMessage(data: Buffer): AttachClientMessage {
  return validateInput(clientMessageSchema, JSON.parse(data.toString("utf8")), "the message");
}

export function stopRunFor(
  run: Run,
  requester: Requester,
  { graceMs, actor }: Extract<AttachClientMessage, { type: "stop" }>,
): Promise<void> {
  return run.cancel({
    actor: resolveActor(requester, actor),
    ...(graceMs === undefined ? {} : { graceMs }),
  });
}

/** The actor of a stop. The operator may name one; for a session it is the session. */
function resolveActor({ kind, actor }: Requester, named: string | undefined): string {
  if (named === undefined || named === "") return actor;
  return kind === "operator" ? named : `${actor} (${named})`;
}

/** The send window of one stream. */
class SendWindow {
  #acknowledged: number;
  #wake: () => void = () => {};
  #closed = false;

  constructor(from: number) {
    this.#acknowledged = from;
  }

  acknowledge(offset: number): void {
    this.#acknowledged = Math.max(this.#acknowledged, offset);
    this.#wake();
  }

  /** The reader is gone. */
  close(): void {
    this.#closed = true;
    this.#wake();
  }

  /** Resolves when the window has room. */
  async waitForRoom(sent: number): Promise<void> {
    while (!this.#closed && sent - this.#acknowledged >= defaults.callerWindowBytes)
      await new Promise<void>((resolve) => (this.#wake = resolve));
  }
}

interface ForegroundInputDeps {
  readonly runId: string;
  /** Null: the caller's input is not accepted. */
  readonly run: Pick<Run, "write" | "closeStdin"> | null;
  readonly disconnected: AbortSignal;
  readonly send: (message: AttachServerMessage) => void;
  /** Closes the connection, so that the caller reconnects and sends unaccepted input again. */
  readonly disconnect: () => void;
}

/** Queues the caller's input and its end, also while the run cannot be controlled. */
class ForegroundInput {
  readonly #deps: ForegroundInputDeps;
  readonly #writes = new SerialQueue();

  constructor(deps: ForegroundInputDeps) {
    this.#deps = deps;
  }

  async write(data: Buffer): Promise<void> {
    const { stream, offset, bytes } = decodeFrame(data);
    if (stream !== "stdin") throw new BadInput("frame", `a caller sends stdin, not ${stream}`);
    const { runId, run, send } = this.#deps;
    await this.#enqueue(async () => {
      if (run === null) throw new StdinClosed(runId, "the input of its caller is no longer accepted");
      await run.write(bytes, offset);
      send({ type: "accepted", offset: offset + bytes.length });
    });
  }

  async end(): Promise<void> {
    await this.#enqueue(async () => this.#deps.run?.closeStdin());
  }

  async #enqueue(act: () => Promise<void>): Promise<void> {
    const { disconnected, send, disconnect } = this.#deps;
    await this.#writes
      .run(() => retryWhileFenced(act, disconnected))
      .catch((error: unknown) => {
        if (error instanceof StdinClosed || error instanceof BadInput)
          send({ type: "unread", message: error.message });
        else disconnect();
      });
  }
}

interface ForegroundConnectionDeps {
  readonly supervisor: Supervisor;
  readonly foregroundClients: ForegroundClients;
  readonly requester: Requester;
  readonly record: RunRecord;
  /** Null: the run has ended. */
  readonly run: Run | null;
  readonly socket: WebSocket;
  /** Offset of the first byte of each stream that the caller does not have. */
  readonly offsets: Partial<Record<StreamName, number>>;
}

/** The connection of a caller to its foreground run. */
export interface ForegroundConnection {
  /** The run has ended; the rest of its output is being sent. */
  readonly ending: boolean;
  readonly done: Promise<void>;
}

/** Interval at which survivors and state changes are reported. */
const POLL_MS = 100;

/**
 * The connection of a foreground run. A send window limits the output that the caller has not acknowledged; acknowledged
 * output is freed. Input has offsets, so that a caller can send unacknowledged input again.
 */
export function serveForeground(deps: ForegroundConnectionDeps): ForegroundConnection {
  const connection = { ending: deps.run === null, done: Promise.resolve() };
  connection.done = serveConnection(deps, () => (connection.ending = true));
  return connection;
}

async function serveConnection(deps: ForegroundConnectionDeps, onEnding: () => void): Promise<void> {
  const { foregroundClients, record, run, socket, offsets } = deps;
  const disconnected = new AbortController();
  const send = (message: AttachServerMessage): void => socket.send(JSON.stringify(message));
  const windows = {
    stdout: new SendWindow(offsets.stdout ?? 0),
    stderr: new SendWindow(offsets.stderr ?? 0),
  };
  // Other clients wrote to the input while the caller was disconnected, so its input offset is unknown.
  const inputTaken = foregroundClients.isInputTaken(record.runId);
  const input = new ForegroundInput({
    runId: record.runId,
    run: inputTaken ? null : run,
    disconnected: disconnected.signal,
    send,
    disconnect: () => socket.close(1011, "the input could not be written"),
  });
  using _present = run === null ? null : foregroundClients.attached(run.runId, () => socket.terminate());
  socket.on("error", () => socket.terminate());
  socket.on("close", () => {
    disconnected.abort();
    for (const window of Object.values(windows)) window.close();
  });
  socket.on("message", (data: Buffer, binary: boolean) => {
    handleMessage(deps, windows, input, data, binary).catch((error: unknown) =>
      send({ type: "refused", message: errorMessage(error) }),
    );
  });
  const { runId } = record;
  const { state, size, accepted } = run ?? { state: record.state, size: null, accepted: 0 };
  send({ type: "attached", runId, state, size, accepted });
  if (inputTaken) send({ type: "unread", message: "another client has written to its input meanwhile" });
  using _watch = run === null ? null : watchState(run, send);
  const sending = (["stdout", "stderr"] as const).map(async (stream) => {
    for await (const { offset, bytes } of readOutput(deps, stream, disconnected.signal)) {
      socket.send(encodeFrame(stream, offset, bytes));
      await windows[stream].waitForRoom(offset + bytes.length);
    }
  });
  const output = Promise.all(sending);
  output.catch(() => socket.close(1011, "the gateway could not show it"));
  const gone = new Promise<null>((resolve) =>
    disconnected.signal.addEventListener("abort", () => resolve(null)),
  );
  const ended = run === null ? { record, recordPending: null } : await Promise.race([run.end(), gone]);
  if (ended === null) return;
  onEnding();
  send({ type: "ended", ...ended });
  await output;
  socket.close(CLOSE_COMPLETE);
}

async function handleMessage(
  { requester, run }: ForegroundConnectionDeps,
  windows: Readonly<Record<StreamName, SendWindow>>,
  input: ForegroundInput,
  data: Buffer,
  binary: boolean,
): Promise<void> {
  if (binary) return input.write(data);
  const message = parseClientMessage(data);
  switch (message.type) {
    case "ack":
      windows[message.stream].acknowledge(message.offset);
      return run?.ack(message.stream, message.offset);
    case "stop":
      return run === null ? undefined : stopRunFor(run, requester, message);
    case "resize":
      return run?.resize({ rows: message.rows, cols: message.cols });
    case "eof":
      return input.end();
  }
}

/** The stored output of an ended run. */
async function* readOutput(
  { supervisor, record: { runId }, run, offsets }: ForegroundConnectionDeps,
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
    // An empty piece with a later offset: the end of the output is lost.
    if (chunk.bytes.length === 0 && chunk.offset <= from) return;
    yield chunk;
    from = chunk.offset + chunk.bytes.length;
  }
}

function watchState(run: Run, send: (message: AttachServerMessage) => void): Disposable {
  let lastSent = "";
  const sendIfChanged = (): void => {
    const { state, survivors, service } = run;
    const now = JSON.stringify([state, survivors.length, service]);
    if (now !== lastSent) send({ type: "state", state, survivors, service });
    lastSent = now;
  };
  sendIfChanged();
  const timer = setInterval(sendIfChanged, POLL_MS);
  return { [Symbol.dispose]: () => clearInterval(timer) };
}
