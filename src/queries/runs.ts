import { constants } from "node:os";
import type { ParsedRequestOf, ResponseOf } from "../api/contract.js";
import { BadInput, type FarGateway } from "../errors.js";
import type { PublicGateway } from "../model/gateway.js";
import { omitUndefined } from "../model/record-type.js";
import { looksLikeSessionId } from "../model/ids.js";
import { OPEN_RUN_STATES, type RunRecord } from "../model/run.js";
import type { SessionRecord } from "../model/session.js";
import type { Authorizer } from "../sessions/authorizer.js";
import type { Requester } from "../sessions/requester.js";
import type { GatewayStore } from "../store/gateways/contract.js";
import type { RunFilter } from "../store/runs/contract.js";
import { isStoreFailure } from "../store/open.js";
import type { RunEnding, Supervisor } from "../supervisor/api.js";

/** Reads runs: a supervisor, or an offline reader of store and spools. */
export type RunReader = Pick<Supervisor, "run" | "getRun" | "readOutput">;

/** The current record of a run. If the record of its end is pending: the future record, and why it is not written. */
export async function currentRun(reader: RunReader, record: RunRecord, waitMs?: number): Promise<RunEnding> {
  // A terminal record never changes.
  if (record.state === "exited") return { record, recordPending: null };
  const run = reader.run(record.runId);
  // This supervisor released the run meanwhile: use the record.
  const ending = run?.state === "exited" ? await run.end(waitMs).catch(() => null) : null;
  return ending ?? { record: (await reader.getRun(record.runId)) ?? record, recordPending: null };
}

/** The cursor of the page that begins after this run. */
export function runCursor({ createdAt, runId }: RunRecord): string {
  return `${createdAt}.${runId}`;
}

/** The store filter of a list request. */
export function runFilter({
  all,
  hidden,
  session,
  agent,
  label,
}: Omit<ParsedRequestOf<"listRuns">["query"], "limit" | "cursor">): RunFilter {
  return omitUndefined({
    states: all === true ? undefined : OPEN_RUN_STATES,
    hidden: hidden === true ? undefined : (false as const),
    ...(session === undefined ? {} : sessionFilter(session)),
    agentId: agent,
    labels: label === undefined ? undefined : parseLabels(label),
  });
}

/** Runs of a session: of one session by its id, of every session that had the key. */
export function sessionFilter(session: string): Pick<RunFilter, "sessionId" | "sessionKey"> {
  return looksLikeSessionId(session) ? { sessionId: session } : { sessionKey: session };
}

/** The session of a list request, by its whole key or by its id. A name that no session has stays as it is. */
export async function resolveSessionOfRuns<Query extends { readonly session?: string | undefined }>(
  query: Query,
  find: (wanted: string) => Promise<SessionRecord | null>,
): Promise<Query> {
  const { session } = query;
  if (session === undefined || session === "" || looksLikeSessionId(session)) return query;
  // Without a store, the runs of this host are listed by the key alone.
  const found = await find(session).catch((error: unknown) => {
    if (error instanceof Error && isStoreFailure(error)) return null;
    throw error;
  });
  return found === null || found.key === session ? query : { ...query, session: found.id };
}

function parseLabels(text: string): Record<string, string> {
  return Object.fromEntries(
    text.split(",").map((pair) => {
      const equals = pair.indexOf("=");
      if (equals < 1)
        throw new BadInput("label", `${JSON.stringify(pair)} is not key=value; nothing was done`);
      return [pair.slice(0, equals), pair.slice(equals + 1)] as const;
    }),
  );
}

export type Failure = ResponseOf<"exec">["failure"];

/** Why an ended run failed. Null: it succeeded. */
export function failureKindOf({ exit }: RunRecord): Failure {
  if (exit === null) return null;
  switch (exit.reason) {
    case "exit":
      return exit.code === 0 ? null : "exit-code";
    case "signal":
      return "signal";
    case "spawn-error":
      if (exit.errno === constants.errno.ENOENT) return "not-found";
      return exit.errno === constants.errno.EACCES ? "not-executable" : "spawn-error";
    case "overall-timeout":
    case "no-output-timeout":
      return exit.reason;
    case "manual-cancel":
    case "shutdown":
      return "cancelled";
    case "ownership-escape":
      return "escape";
    case "owner-lost":
    case "lost":
      return "lost";
  }
}

/** Restricts a list of runs to those that the requester may see. */
export function runsSeenBy(
  authorizer: Pick<Authorizer, "sessionScope">,
  requester: Requester,
): Pick<RunFilter, "seenBy"> {
  const scope = authorizer.sessionScope(requester);
  return scope === null ? {} : { seenBy: scope };
}

/** The gateway that owns a run of another state directory. It may never have registered. */
export async function findOwningGateway(
  store: Pick<GatewayStore, "listGateways" | "listHosts">,
  record: RunRecord,
): Promise<FarGateway> {
  const { hostId, ownerInstanceId, stateId } = record;
  const found = pickGateway(record, await store.listGateways(stateId === null ? {} : { stateId }));
  if (found !== undefined) return found;
  const hostName = (await store.listHosts()).find((each) => each.hostId === hostId)?.name ?? "";
  return { instanceId: ownerInstanceId, hostId, hostName, heartbeatAt: null };
}

/** The gateway of the run's state directory. For a run without a state id: its owner, its origin, or one of its host. */
function pickGateway(
  { stateId, originInstanceId, ownerInstanceId, hostId, state }: RunRecord,
  gateways: readonly PublicGateway[],
): PublicGateway | undefined {
  const latest = gateways.toSorted((one, other) => other.heartbeatAt - one.heartbeatAt);
  if (stateId !== null) return latest[0];
  return (
    latest.find((each) => each.instanceId === ownerInstanceId) ??
    latest.find((each) => each.instanceId === originInstanceId) ??
    (state === "exited" ? undefined : latest.find((each) => each.hostId === hostId))
  );
}
