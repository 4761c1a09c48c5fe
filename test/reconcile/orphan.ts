import type { SpawnOptions } from "../../src/supervisor/api.js";
import { until } from "../tree/living.js";
import type { House } from "./house.js";

/** Started the runs, and is gone. */
export const FIRST = "in_first";
/** Comes after it. */
export const NEXT = "in_next";
export const graceMs = 200;

/** The whole scenario, whose owner was killed and whose lease has expired. */
export async function orphan(house: House, options: SpawnOptions = {}): Promise<string> {
  const keeper = await house.keeper(FIRST);
  const { runId } = await keeper.spawn(house.scenario, { graceMs, ...options });
  await house.crowd.complete();
  await keeper.kill();
  house.expireLeases();
  return runId;
}

/** Three who go when they are asked: what has no record has the usual grace, which is long. */
export async function docile(house: House): Promise<string> {
  const { token } = house.crowd;
  const keeper = await house.keeper(FIRST);
  const script = `setsid sleep 100003.${token} & sleep 100001.${token}; :`;
  const { runId } = await keeper.spawn(house.script(script));
  await until("all three are there", () => house.crowd.others().length === 3);
  await keeper.kill();
  return runId;
}
