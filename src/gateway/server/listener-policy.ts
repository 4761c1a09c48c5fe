import type { IncomingMessage } from "node:http";
import type { Verb } from "../../api/contract.js";
import type { RunRecord } from "../../model/run.js";
import type { Authorizer } from "../../sessions/authorizer.js";
import type { Requester } from "../../sessions/requester.js";
import type { Sessions } from "../../sessions/sessions.js";
import type { Store } from "../../store/store.js";
import type { Supervisor } from "../../supervisor/api.js";
import { authenticateRequest, authenticateToken, findTokenHash } from "../auth/authentication.js";
import type { FindTokenHash } from "../auth/challenge.js";
import type { AcpSessionLocator, RunLocator } from "../peers/locators.js";
import { parseOnBehalfOf } from "../peers/on-behalf-of.js";
import type { PeerDirectory } from "../peers/peer-directory.js";
import type { Peer } from "../peers/peer.js";
import { ConnectionLimiter } from "./limits.js";
import type { AllowedHosts } from "./loopback-listener.js";

/** How a listener authenticates requests and forwards them to peers. */
export interface ListenerPolicy {
  /** Accepted values of the Host header. Null: any, on a local socket. */
  readonly allowedHosts: AllowedHosts | null;
  /** Null: the listener limits its connections in another way. */
  readonly connectionLimiter: ConnectionLimiter | null;
  /** Rejects with Unauthorized. */
  readonly authenticate: (request: IncomingMessage) => Promise<Requester>;
  /** Finds the token that a client names before it proves that it knows it. Null: this listener uses no tokens. */
  readonly findTokenHash: FindTokenHash | null;
  /** Only peers connect; they may request only what concerns runs and ACP sessions. */
  readonly peersOnly: boolean;
  /** The peer that owns a visible run. Null: this gateway handles the request. Rejects if a peer's request would be forwarded again. */
  readonly locateRun: (requester: Requester, runId: string) => Promise<Peer | null>;
  /** The same for an ACP session or a permission request of its agent. */
  readonly locateAcpSession: (requester: Requester, verb: Verb, id: string) => Promise<Peer | null>;
}

export interface ListenerPolicyDeps {
  readonly store: Store;
  readonly supervisor: Supervisor;
  readonly authorizer: Authorizer;
  readonly sessions: Sessions;
  readonly operator: string;
  readonly runLocator: RunLocator;
  readonly acpSessionLocator: AcpSessionLocator;
  readonly peerDirectory: PeerDirectory;
}

/** The policies of the listeners for clients with tokens, which share one connection limiter, and of the listener for peers. */
export function createListenerPolicies({
  store,
  supervisor,
  authorizer,
  sessions,
  operator,
  runLocator,
  acpSessionLocator,
  peerDirectory,
}: ListenerPolicyDeps): {
  readonly tokenPolicy: (allowedHosts: AllowedHosts | null) => ListenerPolicy;
  readonly peerPolicy: ListenerPolicy;
} {
  /** Null: this gateway owns the run, or the requester may not see it, which this gateway answers. */
  const findRemoteRun = async (requester: Requester, runId: string): Promise<RunRecord | null> => {
    if (!store.shared || supervisor.run(runId) !== null) return null;
    const record = await supervisor.getRun(runId);
    return record !== null && (await authorizer.canSeeRunsOf(requester)(record.sessionId)) ? record : null;
  };
  const connectionLimiter = new ConnectionLimiter();
  return {
    tokenPolicy: (allowedHosts) => ({
      allowedHosts,
      connectionLimiter,
      authenticate: (request) =>
        authenticateRequest((token) => authenticateToken(sessions, operator, token), request),
      findTokenHash: (tokenId) => findTokenHash(sessions, operator, tokenId),
      peersOnly: false,
      locateRun: async (requester, runId) => runLocator.peerFor(await findRemoteRun(requester, runId)),
      locateAcpSession: (requester, verb, id) => acpSessionLocator.peerFor(requester, verb, id),
    }),
    peerPolicy: {
      allowedHosts: null,
      connectionLimiter: null,
      authenticate: (request) => parseOnBehalfOf(store, peerDirectory, sessions, request),
      findTokenHash: null,
      peersOnly: true,
      locateRun: async (requester, runId) => runLocator.assertLocal(await findRemoteRun(requester, runId)),
      locateAcpSession: (requester, verb, id) => acpSessionLocator.assertLocal(requester, verb, id),
    },
  };
}
