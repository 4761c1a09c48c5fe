import type { AnswerOf } from "../../gateway/contract/contract.js";
import { reach, startGateway } from "../../gateway/start.js";
import { waitingGateway, waitingText } from "../../gateway/waiting.js";
import type { StopPolicy, Stopping } from "../../gateway/stop.js";
import { sanitizeLine } from "../../output/sanitize.js";
import { openStateDirectory, resolveHome } from "../../store/state-directory.js";
import { toJson } from "../json.js";
import { mustBeOperator, mustBeOutside, tokenFor } from "./connect.js";
import { say } from "../complain.js";
import { formatDuration } from "../duration.js";
import { exitCodes } from "../exit-code.js";
import { print } from "../runs/print.js";

type Status = AnswerOf<"status">;

export async function startInBackground(json: boolean): Promise<number> {
  mustBeOutside("started");
  const { home } = await openStateDirectory(resolveHome());
  const { status, started } = await startGateway(home);
  if (json) print(toJson({ running: true, started, ...status }));
  else print(`${started ? "started" : "already running"}: ${line(status)}\n`);
  return 0;
}

export async function stopInBackground(policy: StopPolicy, json: boolean): Promise<number> {
  mustBeOperator("stop the gateway");
  const down = await stop(policy);
  if (json) print(toJson({ running: false, ...down?.done }));
  else if (down === null) say(await noneToStop(), "dim");
  else print(`gateway ${down.instanceId} is down; ${doneLine(down.done)}\n`);
  return 0;
}

async function noneToStop(): Promise<string> {
  const waiting = await waitingGateway(resolveHome());
  return waiting === null
    ? "no gateway is running"
    : `${waitingText(waiting)} To end it: kill ${waiting.pid}`;
}

export async function restartInBackground(json: boolean): Promise<number> {
  mustBeOperator("restart the gateway");
  mustBeOutside("restarted");
  const down = await stop({ runs: "leave", waitMs: 0 });
  if (!json)
    if (down === null) say("no gateway was running", "dim");
    else print(`gateway ${down.instanceId} is down; ${doneLine(down.done)}\n`);
  return startInBackground(json);
}

/** Null: none was running. */
async function stop(
  policy: StopPolicy,
): Promise<{ readonly instanceId: string; readonly done: Stopping } | null> {
  const home = resolveHome();
  const running = await reach(home);
  if (running === null) return null;
  const done = await running.client.stop({ body: policy });
  await gone(home);
  return { instanceId: running.status.instanceId, done };
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
  const running = await reach(home, (await tokenFor(home)) || null);
  const waiting = running === null ? await waitingGateway(home) : null;
  if (json) {
    const said =
      running === null
        ? { running: false, ...(waiting === null ? {} : { waiting }) }
        : { running: true, ...running.status };
    print(toJson(said));
  } else if (waiting !== null) say(waitingText(waiting), "yellow");
  else if (running === null) say("no gateway is running", "dim");
  else print(`${line(running.status)}\n`);
  return running === null ? exitCodes.notThere : 0;
}

function line({ instanceId, pid, home, runs, startedAt, version, listen, storeAway }: Status): string {
  const since = formatDuration(Math.max(0, Date.now() - startedAt));
  return `gateway ${instanceId} ${version}, pid ${pid}, up ${since}, ${runs} open ${runs === 1 ? "run" : "runs"}, state in ${home}${listen === null ? "" : `, listening on ${listen}`}${storeAway === null ? "" : `; ${sanitizeLine(storeAway)}`}`;
}

/** Until nobody answers any more. */
async function gone(home: string): Promise<void> {
  const until = performance.now() + 30_000;
  while ((await reach(home).catch(() => null)) !== null && performance.now() < until)
    await new Promise((resolve) => setTimeout(resolve, 20));
}
