import { type IncomingMessage, STATUS_CODES } from "node:http";
import type { Duplex } from "node:stream";
import { setTimeout } from "node:timers/promises";
import { WebSocket, WebSocketServer } from "ws";
import type { StreamName } from "../../anchor/host-interface.js";
import {
  type AttachServerMessage,
  CLOSE_COMPLETE,
  CLOSE_GATEWAY_STOPPED,
  encodeFrame,
} from "../../api/attach-frames.js";
import { errorHeaders, httpStatusOf, toErrorResponse } from "../../api/error-response.js";
import type { Bell } from "../../channels/bell.js";
import { defaults } from "../../defaults.js";
import { BadInput, HoldfastError } from "../../errors.js";
import { errorMessage } from "../../home/errno.js";
import type { RunRecord } from "../../model/run.js";
import type { Authorizer } from "../../sessions/authorizer.js";
import type { Requester } from "../../sessions/requester.js";
import type { Run, Supervisor } from "../../supervisor/api.js";
import type { ForegroundClients } from "../foreground/foreground-clients.js";
import { assertStdinRoom, assertSteerable, claimInput } from "../foreground/input-guards.js";
import {
  type ForegroundConnection,
  parseClientMessage,
  serveForeground,
  stopRunFor,
} from "../foreground/foreground-connection.js";
import type { Peer } from "../peers/peer.js";
import { proxyUpgrade } from "../peers/proxy.js";
import type { AdmissionControl } from "./admission-control.js";
import type { ListenerPolicy } from "./listeners.js";
import { assertAllowedHost } from "./loopback-listener.js";
import { PathPattern, requestTarget, type RequestTarget } from "./route-table.js";

const ATTACH_PATH = new PathPattern("/v1/runs/{runId}/attach");

/** Unread bytes of a viewer above which the next piece of output waits. */
const MAX_BUFFERED_BYTES = 1024 * 1024;

/** The timeout of a closing handshake, and the interval at which a viewer's authorization is checked. */
const CLOSE_TIMEOUT_MS = 500;
const POLL_MS = 500;

/** A viewer whose run another gateway owns; its messages are forwarded. */
interface ProxiedAttach {
  readonly requester: Requester;
  readonly peer: Peer;
}

interface AcceptedAttach {
  readonly peer: null;
  readonly requester: Requester;
  readonly record: RunRecord;
  /** Null: the run has ended. */
  readonly run: Run | null;
  readonly url: RequestTarget;
  readonly stillSees: () => Promise<boolean>;
}

interface AttachmentsDeps {
  readonly supervisor: Supervisor;
  readonly foregroundClients: ForegroundClients;
  readonly authorizer: Authorizer;
  readonly admissionControl: AdmissionControl;
  readonly bell: Pick<Bell, "listen">;
  /** Throws when the gateway is stopping. */
  readonly assertOpen: () => void;
}

/**
 * Viewers of runs over WebSocket. A viewer gets output from the requested offsets on, and sends input, terminal sizes and
 * stops if it may control the run. Several viewers can attach to one run. A caller (`as=caller`) owns its foreground run.
 */
export class Attachments implements AsyncDisposable {
  readonly #deps: AttachmentsDeps;
  readonly #foreground = new Set<ForegroundConnection>();
  readonly #proxied = new Set<Duplex>();
  readonly #server = new WebSocketServer({
    noServer: true,
    maxPayload: 1024 * 1024,
    perMessageDeflate: false,
  });

  constructor(deps: AttachmentsDeps) {
    this.#deps = deps;
  }

  upgrade(request: IncomingMessage, socket: Duplex, head: Buffer, policy: ListenerPolicy): void {
    socket.on("error", () => socket.destroy());
    this.#handleUpgrade(request, socket, head, policy).catch((error: unknown) => {
      const status = httpStatusOf(error);
      const headers = Object.entries({
        "content-type": "application/json",
        ...policy.refusalHeaders,
        ...errorHeaders(error),
        connection: "close",
      }).map(([name, value]) => `${name}: ${value}`);
      const answer = [`HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ""}`, ...headers].join("\r\n");
      // Destroyed, not only ended: a client that does not close its side would keep the gateway from stopping.
      socket.end(`${answer}\r\n\r\n${JSON.stringify(toErrorResponse(error))}`, () => socket.destroy());
    });
  }

  async #handleUpgrade(
    request: IncomingMessage,
    socket: Duplex,
    head: Buffer,
    policy: ListenerPolicy,
  ): Promise<void> {
    assertAllowedHost(policy.allowedHosts, request);
    const requester = await policy.authenticate(request);
    policy.connectionLimiter?.assign(request.socket, requester);
    if (socket.closed) return;
    const { admissionControl } = this.#deps;
    // A caller's connection counts as the request that started its run: a session may have more foreground commands
    // than streams.
    const counted = isForeground(requestTarget(request))
      ? admissionControl.request(requester)
      : admissionControl.stream(requester);
    socket.once("close", () => counted[Symbol.dispose]());
    const accepted = await admissionControl.run(requester, () => this.#accept(request, requester, policy));
    if (accepted.peer !== null) {
      this.#proxied.add(socket);
      socket.once("close", () => this.#proxied.delete(socket));
      return proxyUpgrade(accepted.peer, accepted.requester, request, socket, head);
    }
    this.#server.handleUpgrade(request, socket, head, (viewer) => {
      closeWhenNotVisible(viewer, accepted.stillSees);
      if (policy.peersOnly) sendPings(viewer);
      // For example, the output cannot be read. Only this viewer is closed.
      this.#serve(accepted, viewer).catch(() => viewer.close(1011, "the gateway could not show it"));
    });
  }

  async #accept(
    request: IncomingMessage,
    requester: Requester,
    policy: ListenerPolicy,
  ): Promise<AcceptedAttach | ProxiedAttach> {
    const { supervisor, authorizer, assertOpen } = this.#deps;
    const url = requestTarget(request);
    const runId = ATTACH_PATH.matchPath(url.pathname)?.["runId"] ?? "";
    const peer = await policy.locateRun(requester, runId);
    assertOpen();
    if (peer !== null) return { requester, peer };
    const record = await authorizer.requireRun(supervisor, requester, runId);
    const run = supervisor.run(record.runId);
    const foreground = isForeground(url);
    if (foreground && !record.policy.callerBound)
      throw new BadInput("as", `run ${runId} was not started in the foreground: it has no caller`);
    if (run === null && !(foreground && record.state === "exited"))
      throw new HoldfastError(
        "NOT_STEERING",
        record.state === "exited"
          ? `run ${runId} has ended; its output is in its log: holdfast logs ${runId}`
          : `run ${runId} is held by another supervisor`,
      );
    assertOpen();
    // A foreground run that was started with a valid token continues when the token ends.
    const stillSees = () =>
      foreground ? authorizer.isSessionOpen(requester) : authorizer.isStillAuthorized(requester);
    return { peer: null, requester, record, run, url, stillSees };
  }

  async #serve({ requester, record, run, url }: AcceptedAttach, socket: WebSocket): Promise<void> {
    const offsets = parseOffsets(url);
    const { supervisor, foregroundClients } = this.#deps;
    using _ = this.#forwardBell(requester, url, socket);
    if (!isForeground(url)) {
      if (run !== null) await serveViewer(run, foregroundClients, requester, socket, offsets);
      return;
    }
    const connection = serveForeground({
      ...{ supervisor, foregroundClients, requester, record, run, socket, offsets },
    });
    this.#foreground.add(connection);
    await connection.done.finally(() => this.#foreground.delete(connection));
  }

  /** Bell notifications ring on the operator's terminals. */
  #forwardBell({ kind }: Requester, url: RequestTarget, socket: WebSocket): Disposable | null {
    if (kind !== "operator" || url.searchParams.get("bell") !== "1") return null;
    const ring: AttachServerMessage = { type: "bell" };
    return this.#deps.bell.listen(() => {
      if (socket.readyState !== WebSocket.OPEN) return false;
      socket.send(JSON.stringify(ring));
      return true;
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const closed = new Promise<void>((resolve) => this.#server.close(() => resolve()));
    // The run may have been stopped by the shutdown: its caller still gets the rest of the output.
    const last = [...this.#foreground].filter(({ ending }) => ending).map(({ done }) => done);
    const enough = new AbortController();
    const drained = setTimeout(defaults.drainMs, undefined, { signal: enough.signal }).catch(() => undefined);
    await Promise.race([Promise.allSettled(last), drained]);
    enough.abort();
    for (const viewer of this.#server.clients) viewer.close(CLOSE_GATEWAY_STOPPED, "the gateway stops");
    for (const socket of this.#proxied) socket.destroy();
    // A client that does not answer the closing handshake must not keep the gateway from stopping.
    const late = globalThis.setTimeout(() => {
      for (const viewer of this.#server.clients) viewer.terminate();
    }, CLOSE_TIMEOUT_MS);
    await closed;
    clearTimeout(late);
  }
}

function isForeground(url: RequestTarget): boolean {
  return url.searchParams.get("as") === "caller";
}

function parseOffsets(url: RequestTarget): Partial<Record<StreamName, number>> {
  return Object.fromEntries(
    (["stdout", "stderr"] as const).flatMap((stream) => {
      const text = url.searchParams.get(stream);
      return text !== null && /^\d{1,15}$/.test(text) ? [[stream, Number(text)] as const] : [];
    }),
  );
}

/** Closes the viewer when it may no longer see the run, for example because its session was closed. */
function closeWhenNotVisible(viewer: WebSocket, stillSees: () => Promise<boolean>): void {
  const check = (): void => {
    stillSees().then(
      (sees) => sees || viewer.close(1008, "no longer authorized"),
      // The store does not answer, so the authorization is unknown; the viewer stays.
      () => undefined,
    );
  };
  const timer = setInterval(check, POLL_MS);
  viewer.once("close", () => clearInterval(timer));
}

/** Pings, so that a forwarding gateway can tell a silent program from a host that is gone. */
function sendPings(viewer: WebSocket): void {
  const timer = setInterval(() => viewer.ping(), defaults.peerLifeMs);
  viewer.once("close", () => clearInterval(timer));
}

async function serveViewer(
  run: Run,
  foregroundClients: ForegroundClients,
  requester: Requester,
  viewer: WebSocket,
  offsets: Partial<Record<StreamName, number>>,
): Promise<void> {
  const disconnected = new AbortController();
  viewer.on("close", () => disconnected.abort());
  viewer.on("error", () => viewer.terminate());
  const send = (message: AttachServerMessage): void => viewer.send(JSON.stringify(message));
  viewer.on("message", (data: Buffer, binary: boolean) => {
    handleViewerMessage(run, foregroundClients, requester, data, binary).catch((error: unknown) =>
      send({ type: "refused", message: errorMessage(error) }),
    );
  });
  send({ type: "attached", runId: run.runId, state: run.state, size: run.size, accepted: run.accepted });
  for await (const { stream, offset, bytes } of run.follow({ offsets, signal: disconnected.signal })) {
    viewer.send(encodeFrame(stream, offset, bytes));
    while (viewer.bufferedAmount > MAX_BUFFERED_BYTES && !disconnected.signal.aborted) await setTimeout(5);
  }
  if (disconnected.signal.aborted) return;
  const { record, recordPending } = await run.end().catch(() => ({ record: null, recordPending: null }));
  send({ type: "ended", record, recordPending });
  viewer.close(CLOSE_COMPLETE);
}

async function handleViewerMessage(
  run: Run,
  foregroundClients: ForegroundClients,
  requester: Requester,
  data: Buffer,
  binary: boolean,
): Promise<void> {
  const message = binary ? null : parseClientMessage(data);
  if (message?.type === "stop") return stopRunFor(run, requester, message);
  if (message === null || message.type === "eof") claimInput(run, foregroundClients);
  else assertSteerable(run, foregroundClients);
  if (message === null) {
    assertStdinRoom(run);
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
