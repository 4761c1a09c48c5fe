import type { Clock } from "../../async/clock.js";
import type { AcpPermissionRequest, PermissionDecision } from "../../model/acp/permission-request.js";
import type { ElicitationContent } from "../../model/acp/elicitation.js";
import type { RememberedRule } from "../../model/acp/permission-rule.js";
import type { SessionWriter } from "../session-writer.js";
import type { AcpConnection } from "../wire/connection.js";
import type { JudgedTurn } from "./decide-permission.js";
import type { RuleLayers } from "./rule-layers.js";

export interface PermissionRequestsDeps {
  readonly writer: SessionWriter;
  readonly clock: Clock;
  readonly waitMs: number;
  readonly maxPerTurn: number;
  /** Rules beside those of the session. */
  readonly ruleLayers: () => Promise<RuleLayers>;
  readonly connection: () => AcpConnection;
  /** Null: no turn is running. */
  readonly turn: () => JudgedTurn | null;
  /** Carries out and answers a request that was for an operation of the client itself. Null: it was not. */
  readonly executeDecided: (
    permission: AcpPermissionRequest,
    decision: PermissionDecision,
  ) => Promise<void> | null;
  /** Called once for each request that waits for an operator. */
  readonly onWaiting: (permission: AcpPermissionRequest) => void;
}

export interface DecideOptions {
  /** Null: the first option that answers once. */
  readonly optionId?: string | null;
  /** Stored with the decision: it answers later requests. */
  readonly rule?: RememberedRule | null;
  /** The answer to a question of the agent to its user. */
  readonly content?: ElicitationContent | null;
}
