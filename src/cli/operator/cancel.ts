import { leftText } from "../../anchor/seen.js";
import type { Survivor } from "../../anchor/host.js";
import { RunNotFound } from "../../errors.js";
import { sanitizeLine } from "../../output/sanitize.js";
import { newRequestId } from "../../supervisor/ids.js";
import { stopRun } from "../../supervisor/stop-run.js";
import { cliActor } from "../actor.js";
import { say } from "../complain.js";
import { needGateway } from "../gateway/connect.js";
import { sessionToken } from "../session-token.js";
import type { AnswerOf } from "../../gateway/contract/contract.js";
import { toJson } from "../json.js";
import { fullRunId, handedOverText, stopCode } from "../process/act.js";
import { print } from "../runs/print.js";
import { statusOf } from "../runs/status.js";
import { isElsewhere, isShared } from "./elsewhere.js";
import { findRun, type FoundRun } from "./find-run.js";
import { openObservatory, type Observatory } from "./observer.js";

export interface CancelRequest {
  readonly wanted: string;
  /** Null: the run's own. */
  readonly graceMs: number | null;
  readonly json: boolean;
}

/** What became of a run that was to be stopped. */
export type Outcome =
  | { readonly outcome: "gone"; readonly detail: string }
  | { readonly outcome: "ended-before"; readonly detail: string }
  | { readonly outcome: "survivors"; readonly survivors: readonly Survivor[]; readonly detail: string }
  | { readonly outcome: "no-anchor"; readonly detail: string }
  /** Its host has it, and has not said yet that it is done. */
  | { readonly outcome: "handed-over"; readonly detail: string; readonly command: Answer["command"] };

type Answer = AnswerOf<"kill">;

/** A session's word goes to the gateway, which knows what is the session's own. */
export function cancelRun(request: CancelRequest): Promise<number> {
  return sessionToken() === null ? cancelDirectly(request) : cancelThroughGateway(request);
}

/** Stop a run through its anchor: no gateway, no store, no lease is needed. The record catches up. */
async function cancelDirectly(request: CancelRequest): Promise<number> {
  const { wanted, graceMs, json } = request;
  await using observatory = await openObservatory();
  const found = observatory === null ? null : await findRun(observatory, wanted);
  // Of another host there is nothing here but the record, if that.
  if (observatory === null ? await isShared() : found !== null && (await isElsewhere(observatory, found)))
    return await cancelThroughGateway(request);
  if (observatory === null || found === null) throw new RunNotFound(wanted);
  const outcome = await cancelFound(observatory, found, graceMs);
  const late = await whyRecordIsLate(observatory, found);
  const code = conclude(found.runId, outcome, json);
  if (late !== null) say(late, "dim");
  return code;
}

async function cancelThroughGateway({ wanted, graceMs, json }: CancelRequest): Promise<number> {
  const connection = await needGateway();
  const runId = await fullRunId(connection, wanted);
  const body = graceMs === null ? {} : { graceMs };
  return conclude(runId, asOutcome(await connection.client.kill({ params: { runId }, body })), json);
}

/** What a gateway answered. */
export function asOutcome(answer: Answer): Outcome {
  const { outcome, survivors, run, command } = answer;
  switch (outcome) {
    case "gone":
      return { outcome, detail: statusOf(run) };
    case "ended-before":
      return { outcome, detail: `it had ended before: ${statusOf(run)}` };
    case "survivors":
      return { outcome, survivors, detail: "its anchor stays and goes on trying" };
    case "handed-over":
      return { outcome, detail: handedOverText(answer), command };
    case "unknown": {
      const detail = command?.error ?? "no anchor answers for it, and nothing was signalled";
      return { outcome: "no-anchor", detail };
    }
  }
}

function conclude(runId: string, outcome: Outcome, json: boolean): number {
  if (json) print(toJson({ runId, ...outcome }));
  else report(runId, outcome);
  return stopCode(outcome.outcome);
}

/** Stopping needs neither store nor owner; writing it down does. Null: somebody is there to do it. */
async function whyRecordIsLate({ host }: Observatory, { record, unread }: FoundRun): Promise<string | null> {
  if (unread !== null) {
    const [why] = unread.message.split(/\. |\.$/, 1);
    return `its record catches up when the store works again: ${why}`;
  }
  if (record === null || record.state === "exited") return null;
  const owner = (await host.instances()).find(({ instanceId }) => instanceId === record.ownerInstanceId);
  return owner?.alive === true ? null : "nobody owns it now; the next gateway completes its record";
}

/** `told` is called when its anchor has been: what it then does may take a while. */
export async function cancelFound(
  { host }: Observatory,
  { runId, address, record }: FoundRun,
  graceMs: number | null,
  told: () => void = () => {},
): Promise<Outcome> {
  const link = address === null ? null : await host.attach(address, 0);
  if (link !== null && address !== null) {
    const stop = { reason: "manual-cancel", actor: cliActor(), requestId: newRequestId(), graceMs };
    const stopping = stopRun(link, stop);
    told();
    const stopped = await stopping;
    if (stopped.kind === "ended") {
      const { reason, actor, emptiness, residue } = stopped.exit;
      const detail = `${reason}${actor === "" ? "" : ` by ${actor}`}`;
      if (emptiness === "proven") return { outcome: "gone", detail: `${detail}, proven empty` };
      return { outcome: "survivors", survivors: residue, detail: `${detail}: it was abandoned meanwhile` };
    }
    if (stopped.kind === "survivors") {
      const detail = "its anchor stays and goes on trying; `holdfast runs abandon` gives up on them";
      return { outcome: "survivors", survivors: stopped.survivors, detail };
    }
  }
  const exit = address === null ? null : (await host.remains(address)).exit;
  if (exit !== null) return { outcome: "ended-before", detail: `it has ended: ${exit.reason}` };
  if (record?.state === "exited")
    return { outcome: "ended-before", detail: `it had ended before: ${statusOf(record)}` };
  return {
    outcome: "no-anchor",
    detail: `no anchor answers for it, and nothing was signalled; \`holdfast runs cleanup --run ${runId}\` ends what is verifiably left`,
  };
}

export function report(runId: string, outcome: Outcome): void {
  switch (outcome.outcome) {
    case "gone":
      return print(`${runId} is gone (${sanitizeLine(outcome.detail)})\n`);
    case "ended-before":
      return print(`${runId}: ${sanitizeLine(outcome.detail)}\n`);
    case "survivors":
      print(`${runId} has survivors:\n${survivorLines(outcome.survivors).join("\n")}\n`);
      return say(outcome.detail, "yellow");
    case "no-anchor":
    case "handed-over":
      return say(`${runId}: ${outcome.detail}`, "yellow");
  }
}

function survivorLines(survivors: readonly Survivor[]): string[] {
  return survivors.map((each) => `  ${sanitizeLine(leftText(each))}`);
}
