import type { ResponseOf } from "../../api/contract.js";
import { findLockedInstance } from "../../gateway/gateway-files.js";
import { resolveHome } from "../../home/state-directory.js";
import { openStore } from "../../store/open.js";
import { openStateDirectory } from "../../store/open-state-directory.js";
import { connectOrStart } from "../client/connect.js";
import { cliActor } from "../client/requester.js";
import { resolveAcpSession } from "../client/resolve-acp-session.js";
import type { JsonFlag } from "../options/command-definition.js";
import { exitCodes } from "../print/exit-code.js";
import { notice } from "../print/errors-and-notices.js";
import { print, toJson } from "../print/write-output.js";
import { printRemark, StopCoordinator, type StopResult, survivorsOf } from "../stop/stop-coordinator.js";
import { printStopOutcome, stopExitCode } from "../stop/stop-run.js";
import { findSessionRuns, type FoundSession } from "../stop/select-runs.js";
import { closedTreeExitCode, printClosedTree } from "./view/close-result.js";
import { auditNotice, processNames, turnEndNotice } from "./view/notice-texts.js";

interface CancelTurnFlags extends JsonFlag {
  readonly turn?: string;
  readonly reapTools?: true;
}

/** Cancels the running turn, or a queued one, and waits for its end. The agent stays. */
export async function cancelTurn(
  session: string,
  { turn: turnId, reapTools, json }: CancelTurnFlags,
): Promise<number> {
  const { client } = await connectOrStart();
  const { sessionId, key } = await resolveAcpSession(client, session);
  const { turn } = await client.acpCancel({
    params: { id: sessionId },
    body: { reapTools: reapTools === true, ...(turnId === undefined ? {} : { turnId }) },
  });
  if (json === true) print(toJson({ turn }));
  else if (turn === null)
    notice(`${key} has no ${turnId === undefined ? "turn" : "such turn"} to cancel`, "dim");
  else {
    const remark = turn.outcome === "cancelled" ? null : turnEndNotice(turn);
    if (remark === null) print(`${turn.turnId} is ${turn.outcome}; ${key} is ready for the next prompt\n`);
    else notice(...remark);
    const left = turn.audit === null ? null : auditNotice(turn.audit);
    if (left !== null) notice(...left);
  }
  if (turn === null) return exitCodes.notThere;
  if (turn.outcome === "cancel-unconfirmed") return exitCodes.cancelUnconfirmed;
  if (turn.audit === null) return 0;
  const { reaped, survivors, unknown } = turn.audit;
  return (reaped && survivors.length > 0) || (reapTools === true && unknown !== null)
    ? exitCodes.incomplete
    : 0;
}

interface CloseFlags extends JsonFlag {
  readonly discard?: boolean;
  readonly reason?: string;
  readonly tree?: boolean;
}

type CloseAnswer = ResponseOf<"acpClose">;

/** Closes a session and waits until every process of it is proven to be gone. */
export async function closeAcpSession(
  wanted: string,
  { discard = false, reason, tree = false, json = false }: CloseFlags,
): Promise<number> {
  let found: FoundSession | null = null;
  const stopped = await new StopCoordinator(null).stop<CloseAnswer>({
    graceMs: null,
    ask: async ({ client }, signal) => {
      const acpList: typeof client.acpList = (question) => client.acpList(question, signal);
      const { sessionId } = await resolveAcpSession({ acpList }, wanted);
      const body = { discardPersistentState: discard, tree, ...(reason === undefined ? {} : { reason }) };
      return client.acpClose({ params: { id: sessionId }, body }, signal);
    },
    isSettled: () => true,
    find: async (localState) => {
      found = await findSessionRuns(localState, wanted);
      return found.runs;
    },
  });
  return stopped.through === "gateway"
    ? printGatewayAnswer(stopped.answer, tree, json)
    : printDirectStop(wanted, found, stopped, { tree, json, reason: reason ?? null });
}

function printGatewayAnswer(answer: CloseAnswer, tree: boolean, json: boolean): number {
  const { survivors, emptiness, session } = answer;
  const { key, sessionId } = session;
  if (json) print(toJson(answer));
  else if (emptiness === "unproven")
    print(
      `${key} (${sessionId}) is recorded as closed; it is not known whether its processes still run on their host\n`,
    );
  else if (survivors.length === 0) print(`${key} (${sessionId}) is closed; none of its processes is left\n`);
  else
    notice(
      `${key} (${sessionId}) is closed when these processes, which survived SIGKILL, are gone: ${processNames(survivors)}`,
      "red",
    );
  if (!json) printClosedTree(answer, tree, `holdfast acp close ${sessionId} --tree`);
  return survivors.length === 0 ? closedTreeExitCode(answer, tree) : exitCodes.incomplete;
}

/** The session was stopped without a gateway. The next gateway records that it is closed. */
async function printDirectStop(
  wanted: string,
  found: FoundSession | null,
  { runs, remark }: Extract<StopResult<CloseAnswer>, { through: "direct" }>,
  { tree, json, reason }: { readonly tree: boolean; readonly json: boolean; readonly reason: string | null },
): Promise<number> {
  const stopped = Math.max(0, ...runs.map(({ outcome }) => stopExitCode(outcome.outcome)));
  const code = tree ? Math.max(stopped, exitCodes.incomplete) : stopped;
  const key = found?.key ?? wanted;
  const sessionId = found?.sessionId ?? null;
  const closed = found?.session?.state === "closed";
  const recorded = !closed && sessionId !== null && (await recordClosing(sessionId, reason));
  if (json)
    print(
      toJson({
        session: found?.session ?? null,
        sessionId,
        key,
        survivors: survivorsOf(runs),
        emptiness: stopped === 0 ? "proven" : "unproven",
        through: "direct",
        recorded,
        runs: runs.map(({ runId, outcome }) => ({ runId, ...outcome })),
      }),
    );
  else {
    for (const { runId, outcome } of runs) printStopOutcome(runId, outcome);
    if (stopped === 0) print(`${key} (${sessionId}): none of its processes is left\n`);
  }
  printRemark(remark);
  if (tree) notice("without a gateway, the sessions below it were not closed", "yellow");
  if (recorded) notice(`${key} is recorded as closing; the next gateway closes it`, "dim");
  else if (!closed) {
    const unkept = reason === null ? "" : ", and the reason is not recorded";
    notice(
      `${key} is still recorded as open${unkept}: only a gateway can close it; run the command again when a gateway answers`,
      "yellow",
    );
  }
  return code;
}

/**
 * Records that a session is closing, by whom and why. The next gateway closes it. False: a gateway of this state directory
 * is alive, which alone writes its sessions, or the store cannot be written.
 */
async function recordClosing(sessionId: string, reason: string | null): Promise<boolean> {
  try {
    const { home, storePath } = await openStateDirectory(resolveHome());
    if ((await findLockedInstance(home)) !== null) return false;
    await using store = await openStore(storePath, "close");
    const row = await store.getAcpSession(sessionId);
    if (row === null || row.state === "closed") return false;
    const { gatewayInstanceId, version } = row;
    // Optimistic lock: a gateway may have started.
    const change = { version, session: { state: "closing" } } as const;
    if ((await store.commitAcpChange(sessionId, gatewayInstanceId, change)) === null) return false;
    await store.recordSessionClosing(sessionId, cliActor(), reason);
    return true;
  } catch {
    return false;
  }
}
