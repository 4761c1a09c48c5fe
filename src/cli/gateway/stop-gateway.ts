import { setTimeout } from "node:timers/promises";
import { findAnchorBinary } from "../../anchor/binary.js";
import { reapMarkedProcess } from "../../anchor/inspect/marked-processes.js";
import type { ShutdownPolicy, ShutdownSummary } from "../../api/routes/gateway.js";
import { defaults } from "../../defaults.js";
import { GatewayUnreachable } from "../../errors.js";
import { describeWaitingGateway, findLockedInstance, readGatewayId } from "../../gateway/gateway-files.js";
import {
  describeUnreachable,
  type GatewayLocation,
  locateGateway,
  reachGateway,
  type UnreachableGateway,
} from "../../gateway/locate-gateway.js";
import { openLocalState } from "../../queries/local-state-directory.js";
import { type DirectStop, stopFoundRun } from "../stop/stop-coordinator.js";
import { runsOfInstance } from "../stop/select-runs.js";

export type GatewayStopResult =
  | { readonly kind: "none" }
  /** `done` is null if it ended without an answer. */
  | { readonly kind: "down"; readonly instanceId: string; readonly done: ShutdownSummary | null }
  /** It did not answer, and its process was ended. */
  | { readonly kind: "signalled"; readonly instanceId: string; readonly pid: number }
  /** It is, or may be, still alive; `message` says what was done and what to do. */
  | { readonly kind: "left"; readonly message: string; readonly gateway: UnreachableGateway | null };

/** How often to check whether it is gone, or has its socket again. */
const POLL_MS = 50;

/** A gateway whose socket is missing gets this time to create it again. */
export async function locateAfterRebind(home: string): Promise<GatewayLocation> {
  const until = performance.now() + defaults.gatewayRebindMs;
  for (;;) {
    const found = await locateGateway(home);
    if (found.kind !== "unreachable" || found.gateway.listens || performance.now() > until) return found;
    await setTimeout(POLL_MS);
  }
}

/** When a command that begins now must have answered. */
function stopDeadline({ runs, waitMs }: ShutdownPolicy): number {
  const toldMs = runs === "drain" ? waitMs : 0;
  return performance.now() + toldMs + defaults.stopBoundMs - defaults.stopReportMs;
}

/**
 * Stops the gateway and waits until it is gone. A gateway that does not answer is ended through its verified process.
 */
export async function stopGateway(
  home: string,
  policy: ShutdownPolicy,
  found?: GatewayLocation,
  until = stopDeadline(policy),
): Promise<GatewayStopResult> {
  const gateway = found ?? (await locateAfterRebind(home));
  switch (gateway.kind) {
    case "none":
      return { kind: "none" };
    case "waiting": {
      const message = `${describeWaitingGateway(gateway.waiting)} To end it: kill ${gateway.waiting.pid}`;
      return { kind: "left", message, gateway: null };
    }
    case "unreachable":
      return endUnreachableGateway(home, policy, gateway.gateway, until);
    case "answers": {
      const { instanceId, pid } = gateway.status;
      const began = performance.now();
      const late = AbortSignal.timeout(remainingMs(until));
      const done = await gateway.client.stop({ body: policy }, late).catch((error: unknown) => {
        if (late.aborted || error instanceof GatewayUnreachable) return null;
        throw error;
      });
      if (await waitUntilGone(home, until)) return { kind: "down", instanceId, done };
      const passed = Math.round((performance.now() - began) / 1_000);
      const message = `gateway ${instanceId} (pid ${pid}) was requested to stop and is still running after ${passed} s; it may still stop`;
      return { kind: "left", message, gateway: null };
    }
  }
}

/** The result of stopping the gateway and each run that was stopped without the gateway. */
interface GatewayAndRunsStopResult {
  readonly stopped: GatewayStopResult;
  readonly runs: readonly DirectStop[];
}

/**
 * Stops the gateway and its runs: through the gateway if it answers in time, else directly. A gateway that does not
 * answer is ended after its runs: clients of foreground runs start another gateway if it is gone and their run is not.
 */
export async function stopGatewayWithRuns(home: string): Promise<GatewayAndRunsStopResult> {
  const policy: ShutdownPolicy = { runs: "terminate", waitMs: 0 };
  const until = stopDeadline(policy);
  const located = await locateAfterRebind(home);
  if (located.kind === "answers") {
    const stopped = await stopGateway(home, policy, located, until - defaults.stopDirectMs);
    if (stopped.kind === "down" && stopped.done?.left === 0) return { stopped, runs: [] };
    const runs = await stopOwnedRuns(home, until);
    if (stopped.kind !== "left" || !(await waitUntilGone(home, until))) return { stopped, runs };
    return { stopped: { kind: "down", instanceId: located.status.instanceId, done: null }, runs };
  }
  const runs = await stopOwnedRuns(home, until - defaults.gatewayEndMs);
  const now = located.kind === "none" ? await locateGateway(home) : located;
  const stopped = await stopGateway(home, policy, now, until);
  if (located.kind === "none") return { stopped, runs };
  // It may have been continued meanwhile, and have started more runs.
  const before = new Set(runs.map(({ runId }) => runId));
  return { stopped, runs: [...runs, ...(await stopOwnedRuns(home, until, before))] };
}

/** Stops the open runs of the gateway's instance directly, all at once. */
async function stopOwnedRuns(
  home: string,
  until: number,
  except: ReadonlySet<string> = new Set(),
): Promise<readonly DirectStop[]> {
  const instanceId = readGatewayId(home);
  await using localState = instanceId === null ? null : await openLocalState();
  if (instanceId === null || localState === null) return [];
  const found = (await runsOfInstance(localState, instanceId)).filter(({ runId }) => !except.has(runId));
  const boundMs = remainingMs(until);
  return await Promise.all(
    found.map(async (each): Promise<DirectStop> => {
      const { runId, record } = each;
      return { runId, record, outcome: await stopFoundRun(localState, each, null, { boundMs }) };
    }),
  );
}

async function endUnreachableGateway(
  home: string,
  { runs }: ShutdownPolicy,
  gateway: UnreachableGateway,
  until: number,
): Promise<GatewayStopResult> {
  const { instanceId, process } = gateway;
  const left = (what: string): GatewayStopResult => ({
    kind: "left",
    message: `${describeUnreachable(home, gateway, runs !== "terminate")}. ${what}`,
    gateway,
  });
  if (runs === "drain")
    return left(
      `Without an answer it cannot wait for its runs; nothing was done. \`holdfast gateway stop\` ends it and leaves them; with \`--runs terminate\` it ends both`,
    );
  if (process === null)
    return left("Its process is not known, so the gateway was not signalled; see gateway.log");
  const { verified, why, survivors } = await reapMarkedProcess(findAnchorBinary(), {
    identity: process,
    variable: "HOLDFAST_HOME",
    value: home,
    graceMs: Math.min(defaults.gatewaySignalGraceMs, remainingMs(until - defaults.killReportMs)),
  });
  if (!verified)
    return left(
      `It could not be verified (${why}), so the gateway was not signalled. To end it: kill ${process.pid}`,
    );
  if (survivors.length > 0 || !(await waitUntilGone(home, until)))
    return left(`It was sent SIGTERM and SIGKILL, and is still running`);
  return { kind: "signalled", instanceId, pid: process.pid };
}

/** Waits until the instance is unlocked and no gateway answers. */
async function waitUntilGone(home: string, until: number): Promise<boolean> {
  while ((await findLockedInstance(home)) !== null || (await reachGateway(home).catch(() => null)) !== null) {
    if (performance.now() > until) return false;
    await setTimeout(POLL_MS);
  }
  return true;
}

/** At least a second, also if the time is over. */
function remainingMs(until: number): number {
  return Math.max(1_000, Math.ceil(until - performance.now()));
}
