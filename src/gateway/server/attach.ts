import { STATUS_CODES, type IncomingMessage } from "node:http";
import type { Duplex } from "node:stream";
import { setTimeout } from "node:timers/promises";
import { WebSocket, WebSocketServer } from "ws";
import type { StreamName } from "../../anchor/host.js";
import type { Bell } from "../../channels/bell.js";
import { defaults } from "../../defaults.js";
import { BadInput, HoldfastError } from "../../errors.js";
import type { RunRecord } from "../../store/run-record.js";
import type { Run, Supervisor } from "../../supervisor/api.js";
import type { Callers } from "../callers.js";
import { mayBeSteered, mayBeTypedInto, mustHaveRoom } from "../handlers/steered.js";
import type { Sights } from "../sights.js";
import { ALL_SAID, frame, TOLD_TO_STOP, type ToViewer } from "../attach-frames.js";
import { passUpgrade } from "../peers/pass-on.js";
import type { Peer } from "../peers/peer.js";
import { urlOf } from "./app.js";
import { answerCall, type Call } from "./call.js";
import type { Admission } from "./admission.js";
import { answerFor, headersFor, statusFor } from "./error-answer.js";
import { heard, stopFor } from "./heard.js";
import type { Entrance } from "./entrance.js";
import { mustBeServed } from "./loopback.js";
import { matchPath } from "./match-path.js";
import type { Requester } from "./requester.js";

export const ATTACH_PATH = "/v1/runs/{runId}/attach";

/** What a viewer has not read yet: beyond it, the next piece of output waits. */
const BUFFERED = 1024 * 1024;

/** How long a viewer may take to answer that it is closed, and how late it is noticed that it may not see its run any more. */
const GOODBYE_MS = 500;
const LOOK_MS = 500;

/** One whose run is elsewhere: what it says and hears passes through. */
interface PassedOn {
  readonly requester: Requester;
  readonly peer: Peer;
}

interface Admitted {
  readonly peer: null;
  readonly requester: Requester;
  readonly record: RunRecord;
  /** Null: it has ended. */
  readonly run: Run | null;
  readonly url: URL;
  readonly stillSees: () => Promise<boolean>;
}

export interface AttachParts {
  readonly supervisor: Supervisor;
  readonly callers: Callers;
  readonly sights: Sights;
  readonly admission: Admission;
  readonly bell: Pick<Bell, "hear">;
  /** Throws once the gateway stops. */
  readonly mustBeOpen: () => void;
}

/**
 * Live viewers of runs, over WebSocket: output as it comes, from the offsets asked for; input, size and stop from whoever
 * may steer. Viewers come and go, several at a time, and the run does not notice. A caller (`as=caller`) is the one whom
 * a foreground run belongs to.
 */
export class Attachments implements AsyncDisposable {
  readonly #parts: AttachParts;
  readonly #calls = new Set<Call>();
  readonly #passedOn = new Set<Duplex>();
  readonly #server = new WebSocketServer({
    noServer: true,
    maxPayload: 1024 * 1024,
    perMessageDeflate: false,
  });

  constructor(parts: AttachParts) {
    this.#parts = parts;
  }

  upgrade(request: IncomingMessage, socket: Duplex, head: Buffer, entrance: Entrance): void {
    socket.on("error", () => socket.destroy());
    this.#answer(request, socket, head, entrance).catch((error: unknown) => {
      const status = statusFor(error);
      const headers = Object.entries({
        "content-type": "application/json",
        ...headersFor(error),
        connection: "close",
      }).map(([name, value]) => `${name}: ${value}`);
      const answer = [`HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ""}`, ...headers].join("\r\n");
      // Not only ended: whoever does not hang up in turn would keep the connection, and the gateway from stopping.
      socket.end(`${answer}\r\n\r\n${JSON.stringify(answerFor(error))}`, () => socket.destroy());
    });
  }

  async #answer(request: IncomingMessage, socket: Duplex, head: Buffer, entrance: Entrance): Promise<void> {
    mustBeServed(entrance.served, request);
    const requester = await entrance.requesterOf(request);
    entrance.connections?.identify(request.socket, requester);
    if (socket.closed) return;
    const { admission } = this.#parts;
    // A caller's connection goes on with the request that started its run. It is limited as one: a session may have
    // more commands in the foreground than streams.
    const counted = isCall(urlOf(request)) ? admission.request(requester) : admission.stream(requester);
    socket.once("close", () => counted[Symbol.dispose]());
    const admitted = await admission.run(requester, () => this.#admit(request, requester, entrance));
    if (admitted.peer !== null) {
      this.#passedOn.add(socket);
      socket.once("close", () => this.#passedOn.delete(socket));
      return passUpgrade(admitted.peer, admitted.requester, request, socket, head);
    }
    this.#server.handleUpgrade(request, socket, head, (viewer) => {
      dismiss(viewer, admitted.stillSees);
      if (entrance.forPeers) tellOfLife(viewer);
      // Its output cannot be read, say: this viewer is told off, the others and the gateway go on.
      this.#serve(admitted, viewer).catch(() => viewer.close(1011, "the gateway failed to show it"));
    });
  }

  async #admit(
    request: IncomingMessage,
    requester: Requester,
    entrance: Entrance,
  ): Promise<Admitted | PassedOn> {
    const { supervisor, sights, mustBeOpen } = this.#parts;
    const url = urlOf(request);
    const runId = matchPath(ATTACH_PATH, url.pathname)?.["runId"] ?? "";
    const peer = await entrance.whoHas(requester, runId);
    mustBeOpen();
    if (peer !== null) return { requester, peer };
    const record = await sights.run(supervisor, requester, runId);
    const run = supervisor.run(record.runId);
    const calls = isCall(url);
    if (calls && !record.policy.callerBound)
      throw new BadInput("as", `run ${runId} was not started in the foreground: it has no caller`);
    if (run === null && !(calls && record.state === "exited"))
      throw new HoldfastError(
        "NOT_STEERING",
        record.state === "exited"
          ? `run ${runId} has ended; what it wrote is in its log: holdfast logs ${runId}`
          : `run ${runId} is held by another supervisor`,
      );
    mustBeOpen();
    // A foreground run that was started with a valid token continues when the token ends.
    const stillSees = () => (calls ? sights.isOpen(requester) : sights.acts(requester));
    return { peer: null, requester, record, run, url, stillSees };
  }

  async #serve({ requester, record, run, url }: Admitted, socket: WebSocket): Promise<void> {
    const offsets = offsetsOf(url);
    const { supervisor, callers } = this.#parts;
    using _ = this.#ringing(requester, url, socket);
    if (!isCall(url))
      return await (run === null ? undefined : show(run, callers, requester, socket, offsets));
    const call = answerCall({ supervisor, callers, requester, record, run, socket, offsets });
    this.#calls.add(call);
    await call.done.finally(() => this.#calls.delete(call));
  }

  /** A terminal of the operator's hears what rings on all of them. */
  #ringing({ kind }: Requester, url: URL, socket: WebSocket): Disposable | null {
    if (kind !== "operator" || url.searchParams.get("bell") !== "1") return null;
    const ring: ToViewer = { type: "bell" };
    return this.#parts.bell.hear(() => {
      if (socket.readyState !== WebSocket.OPEN) return false;
      socket.send(JSON.stringify(ring));
      return true;
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const closed = new Promise<void>((resolve) => this.#server.close(() => resolve()));
    // What has ended has been ended for good, perhaps on the way out: its caller gets the last of it.
    const last = [...this.#calls].filter(({ ending }) => ending).map(({ done }) => done);
    const enough = new AbortController();
    const drained = setTimeout(defaults.drainMs, undefined, { signal: enough.signal }).catch(() => undefined);
    await Promise.race([Promise.allSettled(last), drained]);
    enough.abort();
    for (const viewer of this.#server.clients) viewer.close(TOLD_TO_STOP, "the gateway stops");
    for (const socket of this.#passedOn) socket.destroy();
    // Whoever does not say goodbye in turn must not keep the gateway from stopping.
    const late = globalThis.setTimeout(() => {
      for (const viewer of this.#server.clients) viewer.terminate();
    }, GOODBYE_MS);
    await closed;
    clearTimeout(late);
  }
}

function isCall(url: URL): boolean {
  return url.searchParams.get("as") === "caller";
}

function offsetsOf(url: URL): Partial<Record<StreamName, number>> {
  return Object.fromEntries(
    (["stdout", "stderr"] as const).flatMap((stream) => {
      const text = url.searchParams.get(stream);
      return text !== null && /^\d{1,15}$/.test(text) ? [[stream, Number(text)] as const] : [];
    }),
  );
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

/** So that the gateway in between can tell a program that is silent from a host that is gone. */
function tellOfLife(viewer: WebSocket): void {
  const timer = setInterval(() => viewer.ping(), defaults.peerLifeMs);
  viewer.once("close", () => clearInterval(timer));
}

async function show(
  run: Run,
  callers: Callers,
  requester: Requester,
  viewer: WebSocket,
  offsets: Partial<Record<StreamName, number>>,
): Promise<void> {
  const left = new AbortController();
  viewer.on("close", () => left.abort());
  viewer.on("error", () => viewer.terminate());
  const tell = (message: ToViewer): void => viewer.send(JSON.stringify(message));
  viewer.on("message", (data: Buffer, binary: boolean) => {
    obey(run, callers, requester, data, binary).catch((error: unknown) =>
      tell({ type: "refused", message: error instanceof Error ? error.message : String(error) }),
    );
  });
  tell({ type: "attached", runId: run.runId, state: run.state, size: run.size, accepted: run.accepted });
  for await (const { stream, offset, bytes } of run.follow({ offsets, signal: left.signal })) {
    viewer.send(frame(stream, offset, bytes));
    while (viewer.bufferedAmount > BUFFERED && !left.signal.aborted) await setTimeout(5);
  }
  if (left.signal.aborted) return;
  const { record, recordPending } = await run.end().catch(() => ({ record: null, recordPending: null }));
  tell({ type: "ended", record, recordPending });
  viewer.close(ALL_SAID);
}

async function obey(
  run: Run,
  callers: Callers,
  requester: Requester,
  data: Buffer,
  binary: boolean,
): Promise<void> {
  const message = binary ? null : heard(data);
  if (message?.type === "stop") return stopFor(run, requester, message);
  if (message === null || message.type === "eof") mayBeTypedInto(run, callers);
  else mayBeSteered(run, callers);
  if (message === null) {
    mustHaveRoom(run);
    return run.write(data);
  }
  switch (message.type) {
    case "resize":
      return run.resize({ rows: message.rows, cols: message.cols });
    case "eof":
      return run.closeStdin();
    case "ack":
      return run.ack(message.stream, message.offset);
  }
}
