import type { AnchorLink } from "../anchor/host.js";
import { defaults } from "../defaults.js";
import type { NewRunEvent } from "../store/run-event.js";
import type { RunRecord } from "../store/run-record.js";
import type { NewRun } from "../store/store.js";
import { adopt, boundaryOf } from "./adopt.js";
import { concludeAftermath } from "./conclude.js";
import type { Context } from "./context.js";
import { eventFacts, type LiveRun } from "./live-run.js";
import { refuseGate } from "./regain.js";
import { resume } from "./resume.js";

/**
 * A directory of this instance's of which the store knows nothing (it was replaced or restored): give it a record, then
 * treat it like any other. What cannot be read off it is said to be unknown, and nothing is signalled on its word.
 */
export async function importRun(context: Context, runId: string): Promise<LiveRun | null> {
  const { store, host } = context;
  const observer = await host.attach(runId, 0).catch(() => null);
  observer?.close();
  const epoch = (observer?.welcome.highestEpoch ?? 0) + 1;
  const lease = await store.insertRun(unknownRun(context, runId, epoch), defaults.leaseMs);
  const link = observer === null ? null : await host.attach(runId, epoch).catch(() => null);
  if (link !== null) await store.saveRun(lease, gated(link));
  const record = await store.getRun(runId);
  if (record === null) return null;
  const live = resume(context, record, lease, link?.welcome ?? null);
  if (link !== null) return goOn(live, link);

  const remains = await host.remains(runId);
  const after =
    remains.exit !== null
      ? ({ kind: "exit", exit: remains.exit } as const)
      : ({
          kind: "lost",
          remains,
          emptiness: remains.swept?.emptiness ?? "unproven",
          mode: "none",
          killed: 0,
          survivors: 0,
          note: "it was found without a record, so nothing was signalled",
        } as const);
  concludeAftermath(live, after, [imported(live, "import: its directory had no record; it is over")]);
  await live.ended.promise;
  return null;
}

function goOn(live: LiveRun, link: AnchorLink): LiveRun {
  live.journal.note(null, [imported(live, "import: its directory had no record; its anchor lives")]);
  adopt(live, link, true);
  refuseGate(live, link);
  return live;
}

function gated({ welcome: { anchor, root, boundary } }: AnchorLink) {
  const { tier } = boundary;
  return {
    to: "gated",
    anchor,
    root,
    processGroupId: root.pid,
    boundary: boundaryOf(boundary),
    tier,
  } as const;
}

function imported(live: LiveRun, decision: string): NewRunEvent {
  return {
    ...eventFacts(live, Date.now()),
    type: "attach",
    data: { epoch: live.journal.lease.epoch, decision },
  };
}

function unknownRun({ host, instanceId }: Context, runId: string, leaseEpoch: number): NewRun {
  const { graceMs, settleMs, drainMs, killReportMs, ownerLossMs } = defaults;
  const policy: RunRecord["policy"] = {
    graceMs,
    settleMs,
    drainMs,
    killReportMs,
    ownerLossMs,
    onEscape: "fail",
  };
  return {
    runId,
    leaseId: "",
    sessionKey: null,
    backendId: null,
    agentId: null,
    labels: {},
    kind: "task",
    io: "pipe",
    command: "(unknown: found without a record)",
    commandHash: "",
    cwd: "",
    ...host.machine,
    anchorPath: host.anchorPath,
    ownerInstanceId: instanceId,
    leaseEpoch,
    deadlines: { overallMs: null, noOutputMs: null },
    policy,
    createdAt: Date.now(),
  };
}
