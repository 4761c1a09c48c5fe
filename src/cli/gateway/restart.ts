import { existsSync } from "node:fs";
import { environmentWithConfig } from "../../config/resolve-settings.js";
import { defaults } from "../../defaults.js";
import { describeWaitingGateway, savedConfigPath } from "../../gateway/gateway-files.js";
import { describeUnreachable, type GatewayLocation, locateGateway } from "../../gateway/locate-gateway.js";
import {
  checkGateway,
  CLI_MAIN,
  environmentOutsideRuns,
  startGateway,
  type StartResult,
} from "../../gateway/start-in-background.js";
import { errorMessage } from "../../home/errno.js";
import { readOwnFile } from "../../home/own-file.js";
import { resolveHome } from "../../home/state-directory.js";
import { OPEN_RUN_STATES, type RunRecord } from "../../model/run.js";
import { openStoreForReading } from "../../store/open.js";
import { findStateDirectory } from "../../store/open-state-directory.js";
import { assertOperator, assertOutsideRun, warnOfLogout } from "../client/connect.js";
import type { JsonFlag } from "../options/command-definition.js";
import { formatDuration } from "../../text/format-units.js";
import { exitCodes } from "../print/exit-code.js";
import { notice } from "../print/errors-and-notices.js";
import { print, toJson } from "../print/write-output.js";
import { printStopResult, startBackgroundGateway, stopResultJson } from "./start-and-stop.js";
import { gatewayStatusLine } from "./status.js";
import { locateAfterRebind, stopGateway } from "./stop-gateway.js";

/** Runs named when no gateway is left; the rest is counted. */
const NAMED_RUNS = 10;

/**
 * Stops the gateway and starts it again. Everything that can be checked is checked before the stop. If the new gateway
 * does not start, one with the former configuration is started.
 */
export async function restartBackgroundGateway(flags: JsonFlag): Promise<number> {
  const json = flags.json === true;
  assertOperator("restart the gateway");
  assertOutsideRun("restarted");
  const home = resolveHome();
  const former = await locateAfterRebind(home);
  if (former.kind === "none") {
    if (!json) notice("no gateway was running", "dim");
    return startBackgroundGateway(flags);
  }
  const wrong = await checkGateway(home);
  if (wrong !== null) {
    notice(
      `${withoutNothingChanged(wrong.message)}; the gateway was not restarted: it continues unchanged (${pidText(former)})`,
      "red",
    );
    if (json) print(toJson({ running: true, restarted: false, error: wrong.message }));
    return wrong.code;
  }
  const runs = await openRuns(home, former);
  const stopped = await stopGateway(home, { runs: "leave", waitMs: 0 }, former);
  if (stopped.kind === "left") {
    notice(`${stopped.message}. The gateway was not restarted`, "yellow");
    if (json) print(toJson(stopResultJson(stopped)));
    return exitCodes.incomplete;
  }
  const downAt = performance.now();
  if (!json) printStopResult(stopped);
  const instanceId = stopped.kind === "none" ? null : stopped.instanceId;
  try {
    const start = await startGateway(home);
    const { status } = start;
    warnOfLogout(start);
    if (json) print(toJson({ running: true, started: true, ...status }));
    else print(`started: ${gatewayStatusLine(status)}\n`);
    return 0;
  } catch (error) {
    return await restoreFormerConfig(
      home,
      instanceId,
      errorText(error),
      () => scheduledEnds(runs, downAt),
      json,
    );
  }
}

interface ScheduledEnd {
  readonly runId: string;
  readonly inMs: number;
}

async function restoreFormerConfig(
  home: string,
  instanceId: string | null,
  why: string,
  ends: () => readonly ScheduledEnd[],
  json: boolean,
): Promise<number> {
  const first = `the gateway did not start with the new configuration: ${why}`;
  const now = await locateGateway(home);
  if (now.kind !== "none") {
    notice(`${first}; ${locatedText(home, now)}`, "red");
    if (json) print(toJson({ running: true, ready: false, error: why }));
    return exitCodes.incomplete;
  }
  const again = await startWithFormerConfig(home, instanceId);
  if (typeof again !== "string") {
    notice(`${first}; it was started again with the former configuration`, "red");
    if (json) print(toJson({ running: true, started: true, restored: true, error: why, ...again.status }));
    else print(`started: ${gatewayStatusLine(again.status)}\n`);
    return exitCodes.incomplete;
  }
  const left = ends();
  notice(
    `${first}; it did not start with the former configuration either: ${again}. No gateway is running. ${scheduledEndsText(left)}`,
    "red",
  );
  if (json) print(toJson({ running: false, error: why, formerError: again, ends: left }));
  return exitCodes.failure;
}

/** Returns why it did not start, as text. */
async function startWithFormerConfig(home: string, instanceId: string | null): Promise<StartResult | string> {
  const path = instanceId === null ? "" : savedConfigPath(home, instanceId);
  if (!existsSync(path)) return "the former configuration is not recorded";
  try {
    const env = environmentWithConfig(path, await readOwnFile(path), environmentOutsideRuns());
    return await startGateway(home, CLI_MAIN, defaults.gatewayReadyMs, env);
  } catch (error) {
    return errorText(error);
  }
}

function locatedText(home: string, now: GatewayLocation): string {
  switch (now.kind) {
    case "waiting":
      return describeWaitingGateway(now.waiting);
    case "unreachable":
      return describeUnreachable(home, now.gateway);
    case "answers":
      return `a gateway runs (pid ${now.status.pid}) and is not ready yet`;
    case "none":
      return "no gateway runs";
  }
}

function pidText(former: Exclude<GatewayLocation, { readonly kind: "none" }>): string {
  switch (former.kind) {
    case "answers":
      return `pid ${former.status.pid}`;
    case "waiting":
      return `pid ${former.waiting.pid}`;
    case "unreachable":
      return former.gateway.process === null ? "pid not known" : `pid ${former.gateway.process.pid}`;
  }
}

/** From the gateway, or else from the store. */
async function openRuns(home: string, former: GatewayLocation): Promise<readonly RunRecord[]> {
  try {
    if (former.kind === "answers") {
      const soon = AbortSignal.timeout(defaults.gatewayAnswerMs);
      return (await former.client.listRuns({ query: { hidden: "1", limit: 1_000 } }, soon)).runs;
    }
    const directory = await findStateDirectory(home);
    await using store = await openStoreForReading(directory?.storePath ?? null);
    return (await store?.listRuns({ states: OPEN_RUN_STATES })) ?? [];
  } catch {
    return [];
  }
}

/** A service continues without a gateway; its anchor ends a task. */
function scheduledEnds(runs: readonly RunRecord[], downAt: number): ScheduledEnd[] {
  const passed = performance.now() - downAt;
  return runs
    .filter(({ kind }) => kind === "task")
    .map(({ runId, policy }) => ({ runId, inMs: Math.max(0, Math.round(policy.ownerLossMs - passed)) }))
    .toSorted((one, other) => one.inMs - other.inMs);
}

function scheduledEndsText(ends: readonly ScheduledEnd[]): string {
  if (ends.length === 0) return "No run ends because of this. To start a gateway: holdfast gateway start.";
  const named = ends.slice(0, NAMED_RUNS).map(({ runId, inMs }) => `${runId} in ${secondsText(inMs)}`);
  const more = ends.length - named.length;
  if (more > 0) named.push(`${more} more`);
  return `Unless a gateway is started (holdfast gateway start), these runs are ended by their anchors: ${named.join(", ")}.`;
}

function secondsText(ms: number): string {
  return formatDuration(Math.round(ms / 1_000) * 1_000);
}

function errorText(error: unknown): string {
  const message = errorMessage(error);
  return withoutNothingChanged(message.replace(/^the gateway did not start: /, ""));
}

/** The failed process changed nothing; whether this command did is reported by this command. */
function withoutNothingChanged(message: string): string {
  return message.replace(/[.;,]? *nothing (was|is) (changed|started)\.?$/i, "").replace(/\.$/, "");
}
