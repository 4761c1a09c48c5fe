import { ACP_BACKEND } from "../../model/enums.js";
import { TERMINAL_BACKEND } from "../../acp/client/terminals.js";
import type { RequestContext, ResponseOf } from "../../api/contract.js";
import { OPEN_RUN_STATES, type RunRecord } from "../../model/run.js";
import type { SessionRecord, SessionScope } from "../../model/session.js";
import type { Requester } from "../../sessions/requester.js";
import type { HandlerDeps } from "./handler-deps.js";

type CloseTreeDeps = Pick<
  HandlerDeps,
  "store" | "sessions" | "acp" | "authorizer" | "supervisor" | "runStopper"
>;

type Closed = Pick<ResponseOf<"closeSession">, "children" | "runs">;
type ClosedChild = Closed["children"][number];
type StoppedRun = Closed["runs"][number];

export interface CloseRequest {
  readonly reason: string | null;
  /** Also close the session's descendants, and stop the runs of all of them. */
  readonly tree: boolean;
}

/** Closes one session with its agent. `closed` false: both were closed before. */
export async function closeOneSession(
  { store, sessions, acp }: Pick<CloseTreeDeps, "store" | "sessions" | "acp">,
  id: string,
  actor: string,
  reason: string | null,
): Promise<{ readonly closed: boolean; readonly survivors: number }> {
  const agent = await store.getAcpSession(id);
  const agentIsOpen = agent !== null && agent.state !== "closed";
  // The agent must not outlive its session.
  const survivors = agentIsOpen ? (await acp.closeSession(id, { actor, reason })).survivors.length : 0;
  return { closed: (await sessions.close(id, actor, reason)) || agentIsOpen, survivors };
}

/** Rounds of `closeDescendants`: a child that is being closed may have started another one. */
const MAX_ROUNDS = 5;

/** After a session was closed: closes what it left, or with `tree: false` only lists it. */
export async function closeDescendants(
  deps: CloseTreeDeps,
  { id, key }: SessionRecord,
  { reason, tree }: CloseRequest,
  { requester, disconnected }: Pick<RequestContext, "requester" | "disconnected">,
): Promise<Closed> {
  const { actor } = requester;
  const why = `closed with ${key}${reason === null ? "" : `: ${reason}`}`;
  const first = await openDescendants(deps, requester, id);
  if (!tree)
    return {
      children: first.sessions.map((child) => leftOpen(child, null)),
      runs: first.runs.map((run) => leftRunning(run, null)),
    };
  const children = new Map<string, ClosedChild>();
  const runs = new Map<string, StoppedRun>();
  let open = first;
  for (let round = 0; round < MAX_ROUNDS; round += 1) {
    const fresh = open.sessions.filter((child) => !children.has(child.id));
    const freshRuns = open.runs.filter(({ runId }) => !runs.has(runId));
    if (fresh.length + freshRuns.length === 0) break;
    const closed = fresh.map((child) => closeChild(deps, child, actor, why));
    for (const child of await Promise.all(closed)) children.set(child.sessionId, child);
    const stopped = freshRuns.map((run) => stopRun(deps, run, actor, disconnected));
    for (const run of await Promise.all(stopped)) runs.set(run.runId, run);
    open = await openDescendants(deps, requester, id);
  }
  return { children: [...children.values()], runs: [...runs.values()] };
}

/** Open descendants that the requester may see, and open runs of the session and of them, without those of agents. */
async function openDescendants(
  { sessions, supervisor, authorizer }: CloseTreeDeps,
  requester: Requester,
  sessionId: string,
): Promise<{ readonly sessions: readonly SessionRecord[]; readonly runs: readonly RunRecord[] }> {
  const seenBy: SessionScope = { sessionId, descendants: true, agentIds: [] };
  const canSee = authorizer.canSeeRunsOf(requester);
  const found: SessionRecord[] = [];
  for (const row of await sessions.list({ open: true, seenBy }))
    if (row.id !== sessionId && (await canSee(row.id))) found.push(row);
  const runs: RunRecord[] = [];
  for (const run of await supervisor.listRuns({ states: OPEN_RUN_STATES, seenBy, withoutLabels: true }))
    if (isBackgroundRun(run) && (await canSee(run.sessionId))) runs.push(run);
  return { sessions: found, runs };
}

/** Runs of agents, and of their terminals, end with their session. */
function isBackgroundRun({ backendId }: RunRecord): boolean {
  return backendId !== ACP_BACKEND && backendId !== TERMINAL_BACKEND;
}

function leftOpen({ id: sessionId, key }: SessionRecord, why: string | null): ClosedChild {
  return { sessionId, key, outcome: "open", why };
}

async function closeChild(
  deps: CloseTreeDeps,
  child: SessionRecord,
  actor: string,
  reason: string,
): Promise<ClosedChild> {
  try {
    const { survivors } = await closeOneSession(deps, child.id, actor, reason);
    const why = survivors === 0 ? null : "processes of its agent survived SIGKILL";
    return { sessionId: child.id, key: child.key, outcome: "closed", why };
  } catch (error) {
    return leftOpen(child, (error as Error).message);
  }
}

function leftRunning({ runId, command }: RunRecord, why: string | null): StoppedRun {
  return { runId, command, outcome: "running", why };
}

async function stopRun(
  { runStopper }: CloseTreeDeps,
  run: RunRecord,
  actor: string,
  disconnected: AbortSignal,
): Promise<StoppedRun> {
  const { runId, command, kind } = run;
  if (kind === "service") return leftRunning(run, `it is a service: holdfast stop ${runId} stops it`);
  try {
    const { outcome, survivors } = await runStopper.stop(run, { actor }, disconnected);
    if (survivors.length > 0) return leftRunning(run, "processes of it survived SIGKILL");
    return outcome === "gone" || outcome === "ended-before"
      ? { runId, command, outcome: "stopped", why: null }
      : leftRunning(run, `its stop is ${outcome}`);
  } catch (error) {
    return leftRunning(run, (error as Error).message);
  }
}
