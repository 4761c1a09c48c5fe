import type { ShutdownPolicy, ShutdownSummary } from "../../api/routes/gateway.js";
import { startGateway } from "../../gateway/start-in-background.js";
import { resolveHome } from "../../home/state-directory.js";
import { openStateDirectory } from "../../store/open-state-directory.js";
import { assertOperator, assertOutsideRun, warnOfLogout } from "../client/connect.js";
import type { JsonFlag } from "../options/command-definition.js";
import { exitCodes } from "../print/exit-code.js";
import { notice } from "../print/errors-and-notices.js";
import { print, toJson } from "../print/write-output.js";
import { printStopOutcome, stopExitCode } from "../stop/stop-run.js";
import { gatewayStatusLine, unreachableJson } from "./status.js";
import { type GatewayStopResult, stopGateway, stopGatewayWithRuns } from "./stop-gateway.js";

export async function startBackgroundGateway({ json = false }: JsonFlag): Promise<number> {
  assertOutsideRun("started");
  const { home } = await openStateDirectory(resolveHome());
  const start = await startGateway(home);
  const { status, started } = start;
  warnOfLogout(start);
  if (json) print(toJson({ running: true, started, ...status }));
  else print(`${started ? "started" : "already running"}: ${gatewayStatusLine(status)}\n`);
  return 0;
}

interface StopFlags extends JsonFlag {
  readonly runs: ShutdownPolicy["runs"];
  readonly wait: number;
}

export async function stopBackgroundGateway({ runs, wait, json = false }: StopFlags): Promise<number> {
  assertOperator("stop the gateway");
  if (runs === "terminate") return stopGatewayAndRuns(json);
  const stopped = await stopGateway(resolveHome(), { runs, waitMs: wait });
  if (json) print(toJson(stopResultJson(stopped)));
  else printStopResult(stopped);
  return stopped.kind === "left" ? exitCodes.incomplete : 0;
}

async function stopGatewayAndRuns(json: boolean): Promise<number> {
  const { stopped, runs } = await stopGatewayWithRuns(resolveHome());
  if (json) {
    const outcomes = runs.map(({ runId, outcome }) => ({ runId, ...outcome }));
    print(toJson({ ...stopResultJson(stopped), runs: outcomes }));
  } else {
    for (const { runId, outcome } of runs) printStopOutcome(runId, outcome);
    printStopResult(stopped, "its runs were stopped without it");
  }
  const left = runs.some(({ outcome }) => stopExitCode(outcome.outcome) !== 0);
  return left || stopped.kind === "left" ? exitCodes.incomplete : 0;
}

export function stopResultJson(stopped: GatewayStopResult): object {
  switch (stopped.kind) {
    case "none":
      return { running: false };
    case "down":
      return { running: false, ...stopped.done };
    case "signalled":
      return { running: false, signalled: stopped.pid };
    case "left":
      return { running: true, ...(stopped.gateway === null ? {} : unreachableJson(stopped.gateway)) };
  }
}

/** `runs`: the results of the runs of a gateway that was ended by a signal. */
export function printStopResult(
  stopped: GatewayStopResult,
  runs = "its runs are left to their anchors",
): void {
  switch (stopped.kind) {
    case "none":
      return notice("no gateway is running", "dim");
    case "down":
      return print(
        `gateway ${stopped.instanceId} is down${stopped.done === null ? "" : `; ${stoppedRunsText(stopped.done)}`}\n`,
      );
    case "signalled":
      return print(
        `gateway ${stopped.instanceId} did not answer and was ended by a signal (pid ${stopped.pid}); ${runs}\n`,
      );
    case "left":
      return notice(stopped.message, "yellow");
  }
}

function stoppedRunsText({ ended, terminated, left, callers }: ShutdownSummary): string {
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
