import { ACP_BACKEND } from "../model/enums.js";
import type { ResponseOf } from "../api/contract.js";
import { defaults } from "../defaults.js";
import type { AcpTurn } from "../model/acp/session-and-turn.js";
import { omitUndefined } from "../model/record-type.js";
import { CLI_BACKEND } from "../model/enums.js";
import type { SessionRecord } from "../model/session.js";
import type { SessionMessage } from "../model/session-message.js";
import { leaseStateOf, OPEN_RUN_STATES, type RunRecord } from "../model/run.js";
import type { AcpStore } from "../store/acp/contract.js";
import type { MessageStore } from "../store/messages/contract.js";
import type { RunFilter } from "../store/runs/contract.js";
import { acpPermissionResponse, acpTurnResponse } from "./acp-responses.js";
import { leaseOf, withLeases } from "./agent-runs.js";

/** The records of sessions. */
type SessionRecords = Pick<MessageStore, "listMessages" | "countMessages"> &
  Pick<AcpStore, "getAcpSession" | "listAcpSessions" | "listAcpTurns" | "listAcpPermissionRequests">;

interface RunLister {
  listRuns(filter: RunFilter): Promise<readonly RunRecord[]>;
}

/** The status of a session, from the records. */
export async function readSessionStatus(
  session: SessionRecord,
  runs: RunLister,
  records: SessionRecords,
): Promise<ResponseOf<"sessionStatus">> {
  const open = await runs.listRuns({ sessionId: session.id, states: OPEN_RUN_STATES, withoutLabels: true });
  const acp = session.backend === ACP_BACKEND ? await readAcpStatus(session, records) : null;
  // An agent that waits for a prompt is a run, and idle.
  const works = open.some(({ backendId }) => backendId !== ACP_BACKEND) || isBusy(acp);
  const [row = { ...session, ...leaseOf(null) }] = await withLeases([session], {
    listRuns: (filter) => runs.listRuns(filter),
    listAcpSessions: (filter) => records.listAcpSessions(filter),
  });
  return {
    session: row,
    state: session.closedAt === null ? (works ? "working" : "idle") : "ended",
    runs: open.map(({ runId, state, command, createdAt, leaseId, exit }) => ({
      runId,
      state,
      command,
      createdAt,
      leaseId,
      leaseState: leaseStateOf({ state, exit }),
    })),
    messages: await records.countMessages(session.id),
    acp,
  };
}

function isBusy(acp: ResponseOf<"sessionStatus">["acp"]): boolean {
  return acp !== null && (acp.turn !== null || acp.queued.length > 0);
}

async function readAcpStatus(
  { id: sessionId, key }: SessionRecord,
  records: SessionRecords,
): Promise<ResponseOf<"sessionStatus">["acp"]> {
  const acp = await records.getAcpSession(sessionId);
  if (acp === null) return null;
  const { state, mode, problem } = acp;
  const turns = await records.listAcpTurns({ sessionId, states: ["running", "queued"] });
  const [running = null] = turns.filter((turn) => turn.state === "running");
  return {
    state,
    mode,
    problem,
    turn: running === null ? null : turnSummary(running),
    queued: turns.filter((turn) => turn.state === "queued").map(turnSummary),
    permissions: (await records.listAcpPermissionRequests({ sessionId, pending: true })).map((each) =>
      acpPermissionResponse(each, null, key),
    ),
  };
}

function turnSummary({ turnId, ordinal, askedBy, createdAt, startedAt }: AcpTurn) {
  return { turnId, ordinal, askedBy, createdAt, startedAt };
}

interface HistoryPage {
  readonly before?: number | undefined;
  readonly after?: number | undefined;
  readonly limit: number;
}

/**
 * The history of a session. Messages and turns have one order, and a page contains both. Runs are part of the newest page
 * only.
 */
export async function readSessionHistory(
  session: SessionRecord,
  runs: RunLister,
  records: SessionRecords,
  { before, after, limit }: HistoryPage,
): Promise<ResponseOf<"sessionHistory">> {
  const { id: sessionId } = session;
  const onwards = after !== undefined;
  const page = omitUndefined({ limit, before, after });
  const messages = await records.listMessages(sessionId, page);
  const turns = await records.listAcpTurns({ ...page, sessionId, newestFirst: !onwards });
  // A message's own turn has its place.
  const places = [
    ...new Set([...messages.map(({ seq }) => seq), ...turns.map(({ place }) => place)]),
  ].toSorted((one, other) => one - other);
  const shown = new Set(onwards ? places.slice(0, limit) : places.slice(-limit));
  const executed =
    onwards || before !== undefined ? [] : await runs.listRuns({ sessionId, limit, withoutLabels: true });
  return {
    session,
    messages: messages.filter(({ seq }) => shown.has(seq)),
    turns: turns
      .filter(({ place }) => shown.has(place))
      .toSorted((one, other) => one.place - other.place)
      .map(acpTurnResponse),
    runs: executed
      .filter(({ backendId }) => backendId !== ACP_BACKEND && backendId !== CLI_BACKEND)
      .toReversed()
      .map(({ runId, state, command, createdAt, endedAt, exit }) => {
        const end = exit === null ? null : { reason: exit.reason, code: exit.code, signal: exit.signal };
        return { runId, state, command, createdAt, endedAt, exit: end };
      }),
  };
}

/**
 * The waiting messages of a session, oldest first: limited in number and in text, but at least one. `taken`: ids of
 * messages that are being delivered to the agent and are left out.
 */
export async function readSessionInbox(
  session: SessionRecord,
  records: Pick<MessageStore, "listMessages">,
  limit: number,
  taken: ReadonlySet<string> = new Set(),
): Promise<ResponseOf<"sessionInbox">> {
  const wanted = { pending: true, limit: limit + taken.size + 1 } as const;
  const waiting = (await records.listMessages(session.id, wanted)).filter(({ id }) => !taken.has(id));
  const messages: SessionMessage[] = [];
  let chars = 0;
  for (const message of waiting.slice(0, limit)) {
    chars += message.text.length;
    if (messages.length > 0 && chars > defaults.messageChars) break;
    messages.push(message);
  }
  return { session, messages, more: waiting.length > messages.length };
}
