import { STATUS_CODES, type IncomingMessage } from "node:http";
import type { Duplex } from "node:stream";
import { WebSocketServer, type WebSocket } from "ws";
import { z } from "zod";
import type { StreamName } from "../../anchor/host.js";
import { HoldfastError } from "../../errors.js";
import type { Run, Supervisor } from "../../supervisor/api.js";
import { stream as streamName } from "../contract/common.js";
import { contract } from "../contract/contract.js";
import { visibleRun, type Sees } from "../handlers/visible.js";
import { frame, type FromViewer, type ToViewer } from "../attach-frames.js";
import { parse, urlOf } from "./app.js";
import { answerFor, statusFor } from "./error-answer.js";
import { mustBeServed, type Served } from "./loopback.js";
import { matchPath } from "./match-path.js";
import type { Requester } from "./requester.js";

export const ATTACH_PATH = "/v1/runs/{runId}/attach";

/** What a viewer has not read yet: beyond it, the next piece of output waits. */
const BUFFERED = 1024 * 1024;

const fromViewer = z.discriminatedUnion("type", [
  contract.resize.body.extend({ type: z.literal("resize") }),
  z.strictObject({ type: z.literal("eof") }),
  z.strictObject({ type: z.literal("stop"), graceMs: z.number().min(0).max(600_000).optional() }),
  z.strictObject({ type: z.literal("ack"), stream: streamName, offset: z.int().min(0) }),
]) satisfies z.ZodType<FromViewer>;

/** How long a viewer may take to answer that it is closed, and how late it is noticed that it may not see its run any more. */
const GOODBYE_MS = 500;
const LOOK_MS = 500;

interface Admitted {
  readonly run: Run;
  readonly url: URL;
  readonly stillSees: () => Promise<boolean>;
}

export interface AttachParts {
  readonly supervisor: Supervisor;
  readonly sees: Sees;
  readonly requesterOf: (request: IncomingMessage) => Promise<Requester>;
}

/**
 * Live viewers of runs, over WebSocket: output as it comes, from the offsets asked for; input, size and stop from whoever
 * may steer. Viewers come and go, several at a time, and the run does not notice.
 */
export class Attachments implements AsyncDisposable {
  readonly #parts: AttachParts;
  readonly #server = new WebSocketServer({
    noServer: true,
    maxPayload: 1024 * 1024,
    perMessageDeflate: false,
  });

  constructor(parts: AttachParts) {
    this.#parts = parts;
  }

  upgrade(request: IncomingMessage, socket: Duplex, head: Buffer, served: Served | null = null): void {
    socket.on("error", () => socket.destroy());
    this.#admit(request, served).then(
      ({ run, url, stillSees }) =>
        this.#server.handleUpgrade(request, socket, head, (viewer) => {
          dismiss(viewer, stillSees);
          // Its output cannot be read, say: this viewer is told off, the others and the gateway go on.
          serve(run, viewer, url).catch(() => viewer.close(1011, "the gateway failed to show it"));
        }),
      (error: unknown) => {
        const status = statusFor(error);
        const answer = `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ""}\r\ncontent-type: application/json\r\nconnection: close`;
        // Not only ended: whoever does not hang up in turn would keep the connection, and the gateway from stopping.
        socket.end(`${answer}\r\n\r\n${JSON.stringify(answerFor(error))}`, () => socket.destroy());
      },
    );
  }

  async #admit(request: IncomingMessage, served: Served | null): Promise<Admitted> {
    mustBeServed(served, request);
    const { supervisor, sees, requesterOf } = this.#parts;
    const requester = await requesterOf(request);
    const url = urlOf(request);
    const runId = matchPath(ATTACH_PATH, url.pathname)?.["runId"] ?? "";
    const record = await visibleRun(supervisor, sees, requester, runId);
    const run = supervisor.run(record.runId);
    if (run === null)
      throw new HoldfastError(
        "NOT_STEERING",
        record.state === "exited"
          ? `run ${runId} has ended; what it wrote is in its log: holdfast logs ${runId}`
          : `run ${runId} is held by another supervisor`,
      );
    return { run, url, stillSees: () => sees(requester, record.sessionId) };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const closed = new Promise<void>((resolve) => this.#server.close(() => resolve()));
    for (const viewer of this.#server.clients) viewer.close(1001, "the gateway stops");
    // Whoever does not say goodbye in turn must not keep the gateway from stopping.
    const late = setTimeout(() => {
      for (const viewer of this.#server.clients) viewer.terminate();
    }, GOODBYE_MS);
    await closed;
    clearTimeout(late);
  }
}

/** A viewer stays for as long as it may see the run: a session that is closed takes its viewers with it. */
function dismiss(viewer: WebSocket, stillSees: () => Promise<boolean>): void {
  const look = (): void => {
    stillSees().then(
      (sees) => sees || viewer.close(1008, "it may not be seen any more"),
      // The store does not answer: that says nothing about the viewer.
      () => undefined,
    );
  };
  const timer = setInterval(look, LOOK_MS);
  viewer.once("close", () => clearInterval(timer));
}

async function serve(run: Run, viewer: WebSocket, url: URL): Promise<void> {
  const left = new AbortController();
  viewer.on("close", () => left.abort());
  viewer.on("error", () => viewer.terminate());
  const tell = (message: ToViewer): void => viewer.send(JSON.stringify(message));
  viewer.on("message", (data: Buffer, binary: boolean) => {
    obey(run, data, binary).catch((error: unknown) =>
      tell({ type: "refused", message: error instanceof Error ? error.message : String(error) }),
    );
  });
  const offsets = Object.fromEntries(
    (["stdout", "stderr"] as const).flatMap((stream) => {
      const text = url.searchParams.get(stream);
      return text !== null && /^\d{1,15}$/.test(text) ? [[stream, Number(text)] as const] : [];
    }),
  ) as Partial<Record<StreamName, number>>;
  tell({ type: "attached", runId: run.runId, state: run.state, size: run.size });
  for await (const { stream, offset, bytes } of run.follow({ offsets, signal: left.signal })) {
    viewer.send(frame(stream, offset, bytes));
    while (viewer.bufferedAmount > BUFFERED && !left.signal.aborted)
      await new Promise((resolve) => setTimeout(resolve, 5));
  }
  if (left.signal.aborted) return;
  const record = await run.wait().catch(() => null);
  tell({ type: "ended", record });
  viewer.close(1000);
}

async function obey(run: Run, data: Buffer, binary: boolean): Promise<void> {
  if (binary) return run.write(data);
  const message = parse(fromViewer, JSON.parse(data.toString("utf8")), "the message");
  switch (message.type) {
    case "resize":
      return run.resize({ rows: message.rows, cols: message.cols });
    case "eof":
      return run.closeStdin();
    case "stop":
      return run.cancel(message.graceMs === undefined ? {} : { graceMs: message.graceMs });
    case "ack":
      return run.ack(message.stream, message.offset);
  }
}
