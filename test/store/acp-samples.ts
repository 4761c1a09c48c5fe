import type { AcpPermissionRequest, AcpSession, NewAcpTurn } from "../../src/model/acp.js";
import { AT } from "../support/store/session-samples.js";

/** Every field filled in, so that a column that gets lost is noticed. */
export function newAcpSession(sessionId: string, change: Partial<AcpSession> = {}): AcpSession {
  return {
    sessionId,
    gatewayInstanceId: "in_1",
    agent: "codex",
    argv: ["codex-acp", "--x"],
    command: "codex-acp --x",
    cwd: "/work",
    mode: "session",
    rules: [
      { effect: "allow", kind: "read" },
      { effect: "ask", title: "rm *" },
    ],
    reap: "cancel",
    state: "ready",
    runId: "run_1",
    tmpdir: "/tmp/hf-acp-1",
    agentSessionId: "theirs",
    capabilities: { protocolVersion: 1 },
    end: 17,
    sending: { at: 3, text: "{}\n" },
    pending: [{ id: 9, method: "session/prompt", sentAt: 1, deadline: null, fatal: false }],
    seq: 0,
    version: 0,
    problem: { code: "ACP_CLOSED", message: "it left" },
    createdAt: AT,
    updatedAt: AT,
    closedAt: null,
    ...change,
  };
}

export const newAcpTurn = (turnId: string): NewAcpTurn => ({
  turnId,
  prompt: "do it\0",
  askedBy: "operator",
  timeoutMs: 5_000,
  createdAt: AT,
});

export function newAcpPermission(sessionId: string, id: string): AcpPermissionRequest {
  return {
    id,
    sessionId,
    turnId: "turn_1",
    rpcId: "ask-1",
    toolCallId: "call-1",
    kind: "execute",
    title: "rm -rf /",
    options: [{ optionId: "no", name: "No", kind: "reject_once" }],
    rule: 1,
    askedAt: AT,
    expiresAt: AT + 1_000,
    decision: null,
    answered: false,
  };
}
