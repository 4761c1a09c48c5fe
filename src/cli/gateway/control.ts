import { packageVersion } from "../../anchor/package-version.js";
import type { AnswerOf } from "../../gateway/contract/contract.js";
import { locateGateway, unreachableText, type UnreachableGateway } from "../../gateway/locate.js";
import { startGateway } from "../../gateway/start.js";
import { waitingText } from "../../gateway/waiting.js";
import type { StopPolicy, Stopping } from "../../gateway/stop.js";
import { sanitizeLine } from "../../output/sanitize.js";
import { openStateDirectory, resolveHome } from "../../store/state-directory.js";
import { toJson } from "../json.js";
import { mustBeOperator, mustBeOutside, tokenFor } from "./connect.js";
import { say } from "../complain.js";
import { formatDuration } from "../duration.js";
import { exitCodes } from "../exit-code.js";
import { print } from "../runs/print.js";
import { report } from "../operator/cancel.js";
import { stopCode } from "../process/act.js";
import { stopGateway, stopWithRuns, type Stopped } from "./stop.js";

type Status = AnswerOf<"status">;

export async function startInBackground(json: boolean): Promise<number> {
  mustBeOutside("started");
  const { home } = await openStateDirectory(resolveHome());
  const { status, started } = await startGateway(home);
  if (json) print(toJson({ running: true, started, ...status }));
  else print(`${started ? "started" : "already running"}: ${statusLine(status)}\n`);
  return 0;
}

export async function stopInBackground(policy: StopPolicy, json: boolean): Promise<number> {
  mustBeOperator("stop the gateway");
  if (policy.runs === "terminate") return stopAll(json);
  const stopped = await stopGateway(resolveHome(), policy);
  if (json) print(toJson(stopFacts(stopped)));
  else sayStopped(stopped);
  return stopped.kind === "left" ? exitCodes.incomplete : 0;
}

async function stopAll(json: boolean): Promise<number> {
  const { stopped, runs } = await stopWithRuns(resolveHome());
  if (json) {
    const outcomes = runs.map(({ runId, outcome }) => ({ runId, ...outcome }));
    print(toJson({ ...stopFacts(stopped), runs: outcomes }));
  } else {
    for (const { runId, outcome } of runs) report(runId, outcome);
    sayStopped(stopped, "its runs were stopped without it");
  }
  const left = runs.some(({ outcome }) => stopCode(outcome.outcome) !== 0);
  return left || stopped.kind === "left" ? exitCodes.incomplete : 0;
}

export function stopFacts(stopped: Stopped): object {
  switch (stopped.kind) {
    case "none":
      return { running: false };
    case "down":
      return { running: false, ...stopped.done };
    case "signalled":
      return { running: false, signalled: stopped.pid };
    case "left":
      return { running: true, ...(stopped.gateway === null ? {} : unreachableFacts(stopped.gateway)) };
  }
}

/** `runs`: what became of the runs of a gateway that was ended by a signal. */
export function sayStopped(stopped: Stopped, runs = "its runs are left to their anchors"): void {
  switch (stopped.kind) {
    case "none":
      return say("no gateway is running", "dim");
    case "down":
      return print(
        `gateway ${stopped.instanceId} is down${stopped.done === null ? "" : `; ${doneLine(stopped.done)}`}\n`,
      );
    case "signalled":
      return print(
        `gateway ${stopped.instanceId} did not answer and was ended by a signal (pid ${stopped.pid}); ${runs}\n`,
      );
    case "left":
      return say(stopped.message, "yellow");
  }
}

function doneLine({ ended, terminated, left, callers }: Stopping): string {
  const counts = [
    [terminated, "terminated"],
    [ended, "ended by themselves"],
    [left, "left to their anchors"],
  ] as const;
  const parts = counts.filter(([count]) => count > 0).map(([count, what]) => `${count} ${what}`);
  if (parts.length === 0) return "it held no runs";
  const waiting =
    callers === 0 ? "" : `; ${callers} in the foreground, whose callers wait for the next gateway`;
  return `runs: ${parts.join(", ")}${waiting}`;
}

export async function showStatus(json: boolean): Promise<number> {
  const home = resolveHome();
  const found = await locateGateway(home, (await tokenFor(home)) || null);
  switch (found.kind) {
    case "answers":
      print(
        json
          ? toJson({ running: true, ...found.status, installedVersion: packageVersion() })
          : `${statusLine(found.status)}\n`,
      );
      return 0;
    case "waiting":
      if (json) print(toJson({ running: false, waiting: found.waiting }));
      else say(waitingText(found.waiting), "yellow");
      return exitCodes.notThere;
    case "unreachable":
      if (json) print(toJson({ running: true, ...unreachableFacts(found.gateway) }));
      else say(`${unreachableText(home, found.gateway)}. To end it: holdfast gateway stop`, "yellow");
      return exitCodes.incomplete;
    case "none":
      if (json) print(toJson({ running: false }));
      else say("no gateway is running", "dim");
      return exitCodes.notThere;
  }
}

function unreachableFacts({ instanceId, process, listens }: UnreachableGateway): object {
  return { reachable: false, listens, instanceId, pid: process?.pid ?? null };
}

export function statusLine({
  instanceId,
  pid,
  home,
  runs,
  startedAt,
  version,
  listen,
  storeAway,
  storeWrites,
}: Status): string {
  const since = formatDuration(Math.max(0, Date.now() - startedAt));
  const installed = packageVersion();
  const outdated = installed === version ? "" : ` (restart to use ${installed}: holdfast gateway restart)`;
  return `gateway ${instanceId} ${version}${outdated}, pid ${pid}, up ${since}, ${runs} open ${runs === 1 ? "run" : "runs"}, state in ${home}${listen === null ? "" : `, listening on ${listen}`}${storeAway === null ? writesText(storeWrites) : `; ${sanitizeLine(storeAway)}`}`;
}

/** Only for a store that can be read. A gateway of an earlier version does not report it. */
function writesText(writes: Status["storeWrites"] | undefined): string {
  if (writes === undefined || writes.writable) return "";
  const { since, backlog, refusal } = writes;
  const forMs = formatDuration(Math.max(0, Date.now() - (since ?? Date.now())));
  return `; the store can be read but not written, for ${forMs}, and ${backlog} ${backlog === 1 ? "write is" : "writes are"} waiting: ${sanitizeLine(refusal ?? "")}`;
}
