import type { AnswerOf } from "../../gateway/contract/contract.js";
import { say } from "../complain.js";
import { exitCodes } from "../exit-code.js";
import { toJson } from "../json.js";
import { report } from "../operator/cancel.js";
import { stopCode } from "../process/act.js";
import { print } from "../runs/print.js";
import { findSession, type FoundSession } from "../stop/find-targets.js";
import { sayRemark, StopPath, survivorsOf, type Stopped } from "../stop/stop.js";
import { namesOf } from "./ending.js";
import { pickSession } from "./pick-session.js";

type Answer = AnswerOf<"acpClose">;

/** Close a session; every process of it is gone when this says so. */
export async function closeSession(wanted: string, discard: boolean, json: boolean): Promise<number> {
  let found: FoundSession | null = null;
  const stopped = await new StopPath(null).stop<Answer>({
    graceMs: null,
    ask: async ({ client }, signal) => {
      const acpList: typeof client.acpList = (question) => client.acpList(question, signal);
      const { sessionId } = await pickSession({ acpList }, wanted);
      const body = { discardPersistentState: discard };
      return client.acpClose({ params: { id: sessionId }, body }, signal);
    },
    settled: () => true,
    find: async (observatory) => {
      found = await findSession(observatory, wanted);
      return found.runs;
    },
  });
  return stopped.through === "gateway" ? told(stopped.answer, json) : direct(wanted, found, stopped, json);
}

function told(answer: Answer, json: boolean): number {
  const { survivors, emptiness, session } = answer;
  const { key, sessionId } = session;
  if (json) print(toJson(answer));
  else if (emptiness === "unproven")
    print(
      `${key} (${sessionId}) is closed, on record; whether any of its processes still runs where it was is not known\n`,
    );
  else if (survivors.length === 0) print(`${key} (${sessionId}) is closed; none of its processes is left\n`);
  else
    say(
      `${key} (${sessionId}) closes when these are gone, which survive their KILL: ${namesOf(survivors)}`,
      "red",
    );
  return survivors.length === 0 ? 0 : exitCodes.incomplete;
}

/** The session was stopped without a gateway. Only a gateway can record that it is closed. */
function direct(
  wanted: string,
  found: FoundSession | null,
  { runs, remark }: Extract<Stopped<Answer>, { through: "direct" }>,
  json: boolean,
): number {
  const code = Math.max(0, ...runs.map(({ outcome }) => stopCode(outcome.outcome)));
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
        emptiness: code === 0 ? "proven" : "unproven",
        through: "direct",
        runs: runs.map(({ runId, outcome }) => ({ runId, ...outcome })),
      }),
    );
  else {
    for (const { runId, outcome } of runs) report(runId, outcome);
    if (code === 0) print(`${key} (${sessionId}): none of its processes is left\n`);
  }
  sayRemark(remark);
  if (!closed)
    say(
      `${key} is still open on record: only a gateway can close it; repeat the command when one answers`,
      "yellow",
    );
  return code;
}
