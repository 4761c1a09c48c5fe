import type { IncomingMessage } from "node:http";
import type { Peer } from "../peers/peer.js";
import type { Verb } from "../../api/contract.js";
import type { FindTokenHash } from "../auth/challenge.js";
import type { ConnectionLimiter } from "./limits.js";
import type { AllowedHosts } from "./loopback-listener.js";
import type { Requester } from "../../sessions/requester.js";

/** A way in: by which names it may be asked, who is believed to ask, and where that is answered. */
export interface ListenerPolicy {
  /** Names by which it may be asked; null: any (a local socket has none). */
  readonly allowedHosts: AllowedHosts | null;
  /** Null: the listener limits its connections in another way. */
  readonly connectionLimiter: ConnectionLimiter | null;
  /** Rejects with Unauthorized. */
  readonly authenticate: (request: IncomingMessage) => Promise<Requester>;
  /** Finds the token that a client names before it proves that it knows it; null: this listener uses no tokens. */
  readonly findTokenHash: FindTokenHash | null;
  /** Other gateways come in here: they ask about runs and agents' sessions, and for nothing else. */
  readonly peersOnly: boolean;
  /** Who has the run, if it may be seen; null: it is answered here. Rejects where nothing is passed on a second time. */
  readonly locateRun: (requester: Requester, runId: string) => Promise<Peer | null>;
  /** The same of an ACP session, or of a question of its agent. */
  readonly locateAcpSession: (requester: Requester, verb: Verb, id: string) => Promise<Peer | null>;
}
