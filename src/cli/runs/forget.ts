import { stat } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { defaults } from "../../defaults.js";
import { BadInput, NotForgotten, NotFound, RunNotFound } from "../../errors.js";
import { observeMachineIdentity } from "../../home/machine-identity.js";
import { resolveHome } from "../../home/state-directory.js";
import { readStateId } from "../../home/state-id.js";
import type { PublicGateway } from "../../model/gateway.js";
import { OPEN_RUN_STATES, type RunRecord } from "../../model/run.js";
import { findOwningGateway } from "../../queries/runs.js";
import { openStore } from "../../store/open.js";
import type { Store } from "../../store/store.js";
import { forgetRun } from "../../supervisor/end/terminal-record.js";
import { sanitizeLine } from "../../text/sanitize.js";
import { assertOperator } from "../client/connect.js";
import { cliActor } from "../client/requester.js";
import { resolveRunRecord } from "../client/resolve-run.js";
import { isStoreShared } from "../../queries/local-state-directory.js";
import { openStoreRunView } from "../client/read-runs.js";
import { formatDuration } from "../../text/format-units.js";
import { exitCodes } from "../print/exit-code.js";
import { runStatusText } from "../print/run-status.js";
import { notice } from "../print/errors-and-notices.js";
import { print, toJson } from "../print/write-output.js";
import { confirm } from "../print/terminal-prompt.js";

export interface ForgetOptions {
  readonly host?: string;
  readonly yes?: true;
  readonly json?: true;
}

/** The records to end: open runs, and with a host its gateways. */
interface ForgetTargets {
  readonly what: string;
  readonly runs: readonly RunRecord[];
  readonly gateways: readonly PublicGateway[];
}

/** Ends the record of a run, or of all open runs of a host that will not come back. No process is signalled. */
export async function forgetRuns(run: string | null, options: ForgetOptions): Promise<number> {
  const { host = null, yes = false, json = false } = options;
  assertOperator("forget a host's runs");
  if ((run === null) === (host === null))
    throw new BadInput("run", "give a run, or --host. Nothing was changed");
  if (!(await isStoreShared())) return rejectLocal(run, host);
  await using store = await openStore("", "forget");
  const targets = run === null ? await targetHost(store, host ?? "") : await targetRun(store, run);
  await assertSilent(store, targets);
  const count = targets.runs.length === 1 ? "1 open run" : `${targets.runs.length} open runs`;
  if (!(await confirm(`Forget ${targets.what} (${count})? No process is signalled.`, yes))) {
    notice("nothing was changed", "dim");
    return exitCodes.incomplete;
  }
  const results = await Promise.all(
    targets.runs.map(async (record) => ({
      runId: record.runId,
      forgotten: await forgetRun(store, record, cliActor()),
    })),
  );
  const all = results.every(({ forgotten }) => forgotten);
  // Its record stays while a gateway there may still own a run.
  const gateways: string[] = [];
  if (all)
    for (const { instanceId } of targets.gateways)
      if (await store.deleteGateway(instanceId, defaults.leaseMs)) gateways.push(instanceId);
  if (json) print(toJson({ runs: results, gateways }));
  else {
    for (const { runId, forgotten } of results)
      print(`${runId} ${forgotten ? "is recorded as lost" : "was not forgotten: it has an owner again"}\n`);
    for (const { instanceId } of targets.gateways)
      print(
        `gateway ${instanceId} ${gateways.includes(instanceId) ? "is forgotten" : "was not forgotten: it may be running again"}\n`,
      );
  }
  return all && gateways.length === targets.gateways.length ? 0 : exitCodes.incomplete;
}

/** Without a shared database there is no other host. */
async function rejectLocal(run: string | null, host: string | null): Promise<never> {
  await using store = await openStoreRunView();
  if (run === null) throw new NotFound(`host ${host ?? ""}: no other host uses this store`);
  if (store === null) throw new RunNotFound(run);
  const { runId } = await resolveRunRecord(store, run);
  throw new NotForgotten(runId, LOCAL_RUN_HINT);
}

const LOCAL_RUN_HINT =
  "it belongs to this host; `holdfast runs stop` stops it, and `holdfast runs cleanup --run` ends what is left of it";

async function targetRun(store: Store, wanted: string): Promise<ForgetTargets> {
  const record = await resolveRunRecord(store, wanted);
  const { runId } = record;
  if (record.state === "exited") throw new NotForgotten(runId, `it has ended: ${runStatusText(record)}`);
  if (record.hostId === (await thisHostId())) await assertNotLocal(record);
  const far = await findOwningGateway(store, record);
  const gateways = (await store.listGateways()).filter(({ instanceId }) => instanceId === far.instanceId);
  // Only whether the gateway is alive: it may own other runs.
  await assertSilent(store, { what: runId, runs: [], gateways });
  return { what: runId, runs: [record], gateways: [] };
}

/** A run that can be reached from here must be stopped, not forgotten. */
async function assertNotLocal({ runId, stateId, originInstanceId, anchorPath }: RunRecord): Promise<void> {
  // A run is started by the copy of the anchor in its state directory.
  const home = dirname(dirname(anchorPath));
  const ours =
    stateId === null ? home === resolve(resolveHome()) : stateId === (await readStateId(resolveHome()));
  if (ours) throw new NotForgotten(runId, LOCAL_RUN_HINT);
  const lock = await stat(join(home, "instances", originInstanceId, "instance.lock")).catch(() => null);
  if (lock !== null)
    throw new NotForgotten(
      runId,
      `it belongs to this host, in the state directory ${sanitizeLine(home)}; with HOLDFAST_HOME set to that, \`holdfast runs stop\` stops it, and \`holdfast runs cleanup --run\` ends what is left of it`,
    );
}

/** By name or id, or by the instance of one of its gateways. */
async function targetHost(store: Store, wanted: string): Promise<ForgetTargets> {
  const [gateways, hosts] = [await store.listGateways(), await store.listHosts()];
  const ids = new Set([
    ...hosts.filter(({ hostId, name }) => wanted === hostId || wanted === name).map(({ hostId }) => hostId),
    ...gateways.filter(({ instanceId }) => instanceId === wanted).map(({ hostId }) => hostId),
  ]);
  const [hostId] = ids;
  if (hostId === undefined)
    throw new NotFound(`host ${wanted}; \`holdfast gateways list\` shows those that are known`);
  if (ids.size > 1)
    throw new BadInput(
      "host",
      `${wanted} is the name of ${ids.size} hosts: use an id (${[...ids].join(", ")})`,
    );
  if (hostId === (await thisHostId()))
    throw new NotForgotten(
      `host ${wanted}`,
      "it is this host; `holdfast runs cleanup` ends what is left here",
    );
  return {
    what: `host ${wanted}`,
    runs: await store.listRuns({ hostIds: [hostId], states: OPEN_RUN_STATES }),
    gateways: gateways.filter((each) => each.hostId === hostId),
  };
}

/** A host that was seen within the lease time is not forgotten. */
async function assertSilent(store: Store, { what, runs, gateways }: ForgetTargets): Promise<void> {
  const now = await store.now();
  for (const { instanceId, heartbeatAt, stoppedAt } of gateways)
    if (stoppedAt === null && now - heartbeatAt < defaults.leaseMs)
      throw new NotForgotten(
        what,
        `its gateway ${instanceId} was seen ${formatDuration(now - heartbeatAt)} ago; \`holdfast runs stop\` stops a run there`,
      );
  for (const { runId, ownerInstanceId, leaseExpiresAt } of runs)
    if (leaseExpiresAt > now)
      throw new NotForgotten(
        what,
        `${ownerInstanceId} holds the lease of ${runId} for ${formatDuration(leaseExpiresAt - now)} more`,
      );
}

async function thisHostId(): Promise<string> {
  return (await observeMachineIdentity(resolveHome())).hostId;
}
