import { setTimeout } from "node:timers/promises";
import { findAnchor } from "../../anchor/find.js";
import { reapMarked } from "../../anchor/marked.js";
import { defaults } from "../../defaults.js";
import {
  locateGateway,
  unreachableText,
  type Located,
  type UnreachableGateway,
} from "../../gateway/locate.js";
import { reach } from "../../gateway/start.js";
import type { StopPolicy, Stopping } from "../../gateway/stop.js";
import { heldInstance, waitingText } from "../../gateway/waiting.js";

export type Stopped =
  | { readonly kind: "none" }
  | { readonly kind: "down"; readonly instanceId: string; readonly done: Stopping }
  /** It did not answer, and its process was ended. */
  | { readonly kind: "signalled"; readonly instanceId: string; readonly pid: number }
  /** It is still there, or may be; `message` says what was done and what can be. */
  | { readonly kind: "left"; readonly message: string; readonly gateway: UnreachableGateway | null };

/** How often to look whether it is gone, or has its socket again. */
const LOOK_MS = 50;

/** One whose socket is missing is given the time to make it again. */
export async function locatePatiently(home: string): Promise<Located> {
  const until = performance.now() + defaults.gatewayRebindMs;
  for (;;) {
    const found = await locateGateway(home);
    if (found.kind !== "unreachable" || found.gateway.listens || performance.now() > until) return found;
    await setTimeout(LOOK_MS);
  }
}

/** Tell the gateway to stop, and wait until it is gone. One that does not answer is ended through its verified process. */
export async function stopGateway(home: string, policy: StopPolicy, found?: Located): Promise<Stopped> {
  const gateway = found ?? (await locatePatiently(home));
  switch (gateway.kind) {
    case "none":
      return { kind: "none" };
    case "waiting": {
      const message = `${waitingText(gateway.waiting)} To end it: kill ${gateway.waiting.pid}`;
      return { kind: "left", message, gateway: null };
    }
    case "unreachable":
      return endUnreachable(home, policy, gateway.gateway);
    case "answers": {
      const { instanceId, pid } = gateway.status;
      const withinMs = (policy.runs === "drain" ? policy.waitMs : 0) + defaults.gatewayStopMs;
      const late = AbortSignal.timeout(withinMs);
      const done = await gateway.client.stop({ body: policy }, late).catch((error: unknown) => {
        if (late.aborted) return null;
        throw error;
      });
      if (done !== null && (await gone(home))) return { kind: "down", instanceId, done };
      const message = `gateway ${instanceId} (pid ${pid}) was told to stop and has not done so within ${Math.round(withinMs / 1_000)} s; it may still do so`;
      return { kind: "left", message, gateway: null };
    }
  }
}

async function endUnreachable(
  home: string,
  { runs }: StopPolicy,
  gateway: UnreachableGateway,
): Promise<Stopped> {
  const { instanceId, process } = gateway;
  const left = (what: string): Stopped => ({
    kind: "left",
    message: `${unreachableText(home, gateway)}. ${what}`,
    gateway,
  });
  if (runs !== "leave")
    return left(
      `Without an answer it cannot stop its runs; nothing was done. \`holdfast gateway stop\` ends it and leaves them; \`holdfast runs cancel\` stops each without it`,
    );
  if (process === null) return left("Its process is not known, so nothing was signalled; see gateway.log");
  const { verified, why, survivors } = await reapMarked(findAnchor(), {
    identity: process,
    variable: "HOLDFAST_HOME",
    value: home,
    graceMs: defaults.gatewaySignalGraceMs,
  });
  if (!verified)
    return left(
      `It could not be verified (${why}), so nothing was signalled. To end it: kill ${process.pid}`,
    );
  if (survivors.length > 0 || !(await gone(home)))
    return left(`It was sent SIGTERM and SIGKILL, and is still running`);
  return { kind: "signalled", instanceId, pid: process.pid };
}

/** Waits until the instance is unlocked and no gateway answers. */
async function gone(home: string): Promise<boolean> {
  const until = performance.now() + defaults.gatewayStopMs;
  while ((await heldInstance(home)) !== null || (await reach(home).catch(() => null)) !== null) {
    if (performance.now() > until) return false;
    await setTimeout(LOOK_MS);
  }
  return true;
}
