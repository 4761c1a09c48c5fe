import type { Verb } from "../../api/contract.js";
import { AcpNotHeld, type FarGateway, PeerUnreachable } from "../../errors.js";
import type { AcpSession } from "../../model/acp/session-and-turn.js";
import type { GatewayRecord } from "../../model/gateway.js";
import type { RunRecord } from "../../model/run.js";
import type { TaskRecord } from "../../model/task.js";
import { findOwningGateway } from "../../queries/runs.js";
import type { Authorizer } from "../../sessions/authorizer.js";
import type { Requester } from "../../sessions/requester.js";
import type { AcpStore } from "../../store/acp/contract.js";
import type { GatewayStore } from "../../store/gateways/contract.js";
import { Peer } from "./peer.js";

interface RunLocatorDeps {
  readonly store: Pick<GatewayStore, "listGateways" | "listHosts" | "getGateway"> & {
    readonly shared: boolean;
  };
  readonly instanceId: string;
  readonly hostId: string;
  readonly stateId: string;
}

/** Finds the gateway that has a run's directory: only that gateway can read the output and reach the anchor. */
export class RunLocator {
  readonly #deps: RunLocatorDeps;

  constructor(deps: RunLocatorDeps) {
    this.#deps = deps;
  }

  /** Null: the run belongs to this gateway. */
  async remoteGatewayOf(record: RunRecord): Promise<FarGateway | null> {
    const { store, instanceId, hostId, stateId } = this.#deps;
    const { originInstanceId, ownerInstanceId } = record;
    if (!store.shared || record.stateId === stateId) return null;
    if (originInstanceId === instanceId || ownerInstanceId === instanceId) return null;
    const remoteGateway = await findOwningGateway(store, record);
    if (remoteGateway.instanceId === instanceId) return null;
    // A record from before runs had a state id, and no other gateway of this host is known.
    return record.stateId === null && record.hostId === hostId && remoteGateway.heartbeatAt === null
      ? null
      : remoteGateway;
  }

  /** The peer that has the run. Null: this gateway. */
  async peerFor(record: RunRecord | null): Promise<Peer | null> {
    const remoteGateway = record === null ? null : await this.remoteGatewayOf(record);
    if (record === null || remoteGateway === null) return null;
    const { store, instanceId } = this.#deps;
    const gateway: GatewayRecord | null = await store.getGateway(remoteGateway.instanceId);
    if (gateway === null)
      throw new PeerUnreachable(record.runId, remoteGateway, "no gateway of its state directory is known", {
        missing: "gateway",
      });
    const { runId } = record;
    return new Peer(instanceId, gateway, (why, how) => new PeerUnreachable(runId, gateway, why, how));
  }

  /** Rejects instead of forwarding a peer's request again. */
  async assertLocal(record: RunRecord | null): Promise<null> {
    const remoteGateway = record === null ? null : await this.remoteGatewayOf(record);
    if (record === null || remoteGateway === null) return null;
    throw new PeerUnreachable(
      record.runId,
      remoteGateway,
      "the gateway that the request was forwarded to does not have it",
    );
  }
}

interface AcpSessionLocatorDeps {
  readonly store: Pick<AcpStore, "getAcpSession" | "getAcpPermissionRequest"> &
    Pick<GatewayStore, "getGateway"> & { readonly shared: boolean };
  readonly instanceId: string;
  readonly authorizer: Pick<Authorizer, "findSession">;
  /** True if the gateway of a session is gone, so that the session can be closed here. */
  readonly isLost: (session: AcpSession) => Promise<boolean>;
  readonly resolveTask: (requester: Requester, id: string) => Promise<TaskRecord>;
}

/** Verbs that need the gateway with the agent's connection. All others need only the store. */
const ACP_VERBS: ReadonlySet<Verb> = new Set([
  "acpShow",
  "acpPrompt",
  "acpCancel",
  "acpClose",
  "acpSet",
  "acpQuestion",
  "acpAnswer",
  "closeSession",
  "cancelTask",
]);
const CLOSING_VERBS: ReadonlySet<Verb> = new Set(["acpClose", "closeSession", "cancelTask"]);

export function isAcpVerb(verb: Verb): boolean {
  return ACP_VERBS.has(verb);
}

/** Finds the gateway of an ACP session. */
export class AcpSessionLocator {
  readonly #deps: AcpSessionLocatorDeps;

  constructor(deps: AcpSessionLocatorDeps) {
    this.#deps = deps;
  }

  /** The peer that has the session. Null: this gateway answers, also if the session is not visible. */
  async peerFor(requester: Requester, verb: Verb, id: string): Promise<Peer | null> {
    const session = await this.#remoteSession(requester, verb, id);
    if (session === null) return null;
    const { store, instanceId, isLost } = this.#deps;
    if (CLOSING_VERBS.has(verb) && (await isLost(session))) return null;
    const gateway = await store.getGateway(session.gatewayInstanceId);
    if (gateway === null) throw new AcpNotHeld(session, { why: "its gateway has no record in the store" });
    return new Peer(instanceId, gateway, (why, how) => new AcpNotHeld(session, { ...how, gateway, why }));
  }

  /** Rejects instead of forwarding a peer's request again. */
  async assertLocal(requester: Requester, verb: Verb, id: string): Promise<null> {
    const session = await this.#remoteSession(requester, verb, id);
    if (session === null) return null;
    throw new AcpNotHeld(session, { why: "the gateway that the request was forwarded to does not have it" });
  }

  async #remoteSession(requester: Requester, verb: Verb, id: string): Promise<AcpSession | null> {
    const { store, instanceId, authorizer } = this.#deps;
    if (!store.shared) return null;
    const wanted = await this.#sessionOf(requester, verb, id);
    const row = wanted === undefined ? null : await authorizer.findSession(requester, wanted);
    const session = row === null ? null : await store.getAcpSession(row.id);
    return session?.state === "closed" || session?.gatewayInstanceId === instanceId ? null : session;
  }

  async #sessionOf(requester: Requester, verb: Verb, id: string): Promise<string | undefined> {
    const { store, resolveTask } = this.#deps;
    if (verb === "acpAnswer" || verb === "acpQuestion")
      return (await store.getAcpPermissionRequest(id))?.sessionId;
    if (verb !== "cancelTask") return id;
    // The handler reports an id that cannot be resolved.
    const task = await resolveTask(requester, id).catch(() => null);
    return task?.runtime === "acp" ? (task.childSessionId ?? undefined) : undefined;
  }
}
