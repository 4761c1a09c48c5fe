import type { Verb } from "../../api/contract.js";
import { AcpNotHeld, type FarGateway, PeerUnreachable } from "../../errors.js";
import type { AcpSession } from "../../model/acp.js";
import type { GatewayRecord } from "../../model/gateway.js";
import type { RunRecord } from "../../model/run.js";
import type { TaskRecord } from "../../model/task.js";
import type { Authorizer } from "../../sessions/authorizer.js";
import type { Requester } from "../../sessions/requester.js";
import type { AcpStore } from "../../store/acp/store.js";
import type { GatewayStore } from "../../store/gateways/store.js";
import { Peer } from "./peer.js";
import { findOwningGateway } from "../../queries/owning-gateway.js";

export interface RunLocatorDeps {
  readonly store: Pick<GatewayStore, "listGateways" | "listHosts" | "getGateway"> & {
    readonly shared: boolean;
  };
  readonly instanceId: string;
  readonly hostId: string;
  readonly stateId: string;
}

/** Which gateway a run's directory is with: only that one can read its output and reach its anchor. */
export class RunLocator {
  readonly #deps: RunLocatorDeps;

  constructor(deps: RunLocatorDeps) {
    this.#deps = deps;
  }

  /** Null: it is this gateway's. */
  async remoteGatewayOf(record: RunRecord): Promise<FarGateway | null> {
    const { store, instanceId, hostId, stateId } = this.#deps;
    const { originInstanceId, ownerInstanceId } = record;
    if (!store.shared || record.stateId === stateId) return null;
    if (originInstanceId === instanceId || ownerInstanceId === instanceId) return null;
    const remoteGateway = await findOwningGateway(store, record);
    if (remoteGateway.instanceId === instanceId) return null;
    // From before runs said where they are, and nobody else is there to ask.
    return record.stateId === null && record.hostId === hostId && remoteGateway.heartbeatAt === null
      ? null
      : remoteGateway;
  }

  /** The way to it. */
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

  /** Whoever has passed it on was mistaken, and is not sent round in a circle. */
  async assertLocal(record: RunRecord | null): Promise<null> {
    const remoteGateway = record === null ? null : await this.remoteGatewayOf(record);
    if (record === null || remoteGateway === null) return null;
    throw new PeerUnreachable(
      record.runId,
      remoteGateway,
      "the gateway that was asked for it does not have it either",
    );
  }
}

export interface AcpSessionLocatorDeps {
  readonly store: Pick<AcpStore, "getAcpSession" | "getAcpPermissionRequest"> &
    Pick<GatewayStore, "getGateway"> & { readonly shared: boolean };
  readonly instanceId: string;
  readonly authorizer: Pick<Authorizer, "findSession">;
  /** Whether a session of another gateway can be closed here: nobody is there to be asked. */
  readonly isLost: (session: AcpSession) => Promise<boolean>;
  readonly resolveTask: (requester: Requester, id: string) => Promise<TaskRecord>;
}

/** What only the gateway can do that speaks with the agent; anything else of a session is in the store. */
const ACP_VERBS: ReadonlySet<Verb> = new Set([
  "acpShow",
  "acpPrompt",
  "acpCancel",
  "acpClose",
  "acpQuestion",
  "acpAnswer",
  "closeSession",
  "cancelTask",
]);
const CLOSING_VERBS: ReadonlySet<Verb> = new Set(["acpClose", "closeSession", "cancelTask"]);

export function isAcpVerb(verb: Verb): boolean {
  return ACP_VERBS.has(verb);
}

/** Which gateway an ACP session is with. */
export class AcpSessionLocator {
  readonly #deps: AcpSessionLocatorDeps;

  constructor(deps: AcpSessionLocatorDeps) {
    this.#deps = deps;
  }

  /** The way to it. Null: it is answered here, also that it may not be seen. */
  async peerFor(requester: Requester, verb: Verb, id: string): Promise<Peer | null> {
    const session = await this.#remoteSession(requester, verb, id);
    if (session === null) return null;
    const { store, instanceId, isLost } = this.#deps;
    if (CLOSING_VERBS.has(verb) && (await isLost(session))) return null;
    const gateway = await store.getGateway(session.gatewayInstanceId);
    if (gateway === null) throw new AcpNotHeld(session, { why: "no such gateway is known any more" });
    return new Peer(instanceId, gateway, (why, how) => new AcpNotHeld(session, { ...how, gateway, why }));
  }

  /** Whoever has passed it on was mistaken, and is not sent round in a circle. */
  async assertLocal(requester: Requester, verb: Verb, id: string): Promise<null> {
    const session = await this.#remoteSession(requester, verb, id);
    if (session === null) return null;
    throw new AcpNotHeld(session, { why: "the gateway that was asked for it does not have it either" });
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
    // What it cannot mean is said where it is asked for.
    const task = await resolveTask(requester, id).catch(() => null);
    return task?.runtime === "acp" ? (task.childSessionId ?? undefined) : undefined;
  }
}
