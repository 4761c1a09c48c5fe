import type { ResponseOf } from "../../api/contract.js";
import { connectOrStart } from "../client/connect.js";
import { resolveAcpSession } from "../client/resolve-acp-session.js";
import type { JsonFlag } from "../options/parsers.js";
import { exitCodes } from "../print/exit-code.js";
import { notice } from "../print/stderr.js";
import { print, toJson } from "../print/stdout.js";
import { printRemark, StopCoordinator, type StopResult, survivorsOf } from "../stop/stop-coordinator.js";
import { printStopOutcome, stopExitCode } from "../stop/stop-run.js";
import { findSessionRuns, type FoundSession } from "../stop/targets.js";
import { closedTreeExitCode, printClosedTree } from "./view/closed-tree.js";
import { auditNotice, processNames, turnEndNotice } from "./view/texts.js";

export interface CancelTurnFlags extends JsonFlag {
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
    : printDirectStop(wanted, found, stopped, { tree, json });
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

/** The session was stopped without a gateway. Only a gateway can record that it is closed. */
function printDirectStop(
  wanted: string,
  found: FoundSession | null,
  { runs, remark }: Extract<StopResult<CloseAnswer>, { through: "direct" }>,
  { tree, json }: { readonly tree: boolean; readonly json: boolean },
): number {
  const stopped = Math.max(0, ...runs.map(({ outcome }) => stopExitCode(outcome.outcome)));
  const code = tree ? Math.max(stopped, exitCodes.incomplete) : stopped;
  const key = found?.key ?? wanted;
  const sessionId = found?.sessionId ?? null;
  const closed = found?.session?.state === "closed";
  if (json)
    print(
      toJson({
        session: found?.session ?? null,
        sessionId,
        key,
        survivors: survivorsOf(runs),
        emptiness: stopped === 0 ? "proven" : "unproven",
        through: "direct",
        runs: runs.map(({ runId, outcome }) => ({ runId, ...outcome })),
      }),
    );
  else {
    for (const { runId, outcome } of runs) printStopOutcome(runId, outcome);
    if (stopped === 0) print(`${key} (${sessionId}): none of its processes is left\n`);
  }
  printRemark(remark);
  if (tree) notice("without a gateway, the sessions below it were not closed", "yellow");
  if (!closed)
    notice(
      `${key} is still recorded as open: only a gateway can close it; run the command again when a gateway answers`,
      "yellow",
    );
  return code;
}
