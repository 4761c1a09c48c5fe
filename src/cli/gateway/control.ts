import type { AnswerOf } from "../../gateway/contract/contract.js";
import { reach, startGateway } from "../../gateway/start.js";
import type { StopPolicy } from "../../gateway/stop.js";
import { openStateDirectory, resolveHome } from "../../store/state-directory.js";
import { say } from "../complain.js";
import { formatDuration } from "../duration.js";
import { exitCodes } from "../exit-code.js";
import { print } from "../runs/print.js";

type Status = AnswerOf<"status">;

export async function startInBackground(json: boolean): Promise<number> {
  const { home } = await openStateDirectory(resolveHome());
  const running = await reach(home);
  const status = running?.status ?? (await startGateway(home));
  if (json) print(`${JSON.stringify(status)}\n`);
  else print(`${running === null ? "started" : "already running"}: ${line(status)}\n`);
  return 0;
}

export async function stopInBackground(policy: StopPolicy, json: boolean): Promise<number> {
  const home = resolveHome();
  const running = await reach(home);
  if (running === null) {
    if (json) print(`${JSON.stringify({ running: false })}\n`);
    else say("no gateway is running", "dim");
    return 0;
  }
  const done = await running.client.stop({ body: policy });
  await gone(home);
  if (json) print(`${JSON.stringify({ running: false, ...done })}\n`);
  else
    print(
      `gateway ${running.status.instanceId} is down; runs ended: ${done.ended}, terminated: ${done.terminated}, left to their anchors: ${done.left}\n`,
    );
  return 0;
}

export async function restartInBackground(): Promise<number> {
  await stopInBackground({ runs: "leave", waitMs: 0 }, false);
  return startInBackground(false);
}

export async function showStatus(json: boolean): Promise<number> {
  const running = await reach(resolveHome());
  if (json)
    print(
      `${JSON.stringify(running === null ? { running: false } : { running: true, ...running.status })}\n`,
    );
  else if (running === null) say("no gateway is running", "dim");
  else print(`${line(running.status)}\n`);
  return running === null ? exitCodes.notThere : 0;
}

function line({ instanceId, pid, home, runs, startedAt, version }: Status): string {
  const since = formatDuration(Math.max(0, Date.now() - startedAt));
  return `gateway ${instanceId} ${version}, pid ${pid}, up ${since}, ${runs} open ${runs === 1 ? "run" : "runs"}, state in ${home}`;
}

/** Until nobody answers any more. */
async function gone(home: string): Promise<void> {
  const until = performance.now() + 30_000;
  while ((await reach(home).catch(() => null)) !== null && performance.now() < until)
    await new Promise((resolve) => setTimeout(resolve, 20));
}
