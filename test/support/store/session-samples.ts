import { randomBytes } from "node:crypto";
import type { AcpSession, NewAcpTurn } from "../../../src/model/acp/session-and-turn.js";
import type { AcpPermissionRequest } from "../../../src/model/acp/permission-request.js";
import type { RememberedRule } from "../../../src/model/acp/permission-rule.js";
import type { NewApproval } from "../../../src/model/exec/approval.js";
import type { NewSession } from "../../../src/model/session.js";
import type { NewMessage } from "../../../src/model/session-message.js";

export const AT = 1_700_000_000_000;

/** The fields of an open session that `newSession` does not have. */
export const OPEN_SESSION = { closedAt: null, closedBy: null, closeReason: null, agentSessionId: null };

/** A session with every field filled in, so that a column that gets lost is noticed. */
export function newSession(change: Partial<NewSession> = {}): NewSession {
  const id = `ses_${randomBytes(6).toString("hex")}`;
  return {
    id,
    key: `key of ${id}`,
    agentId: "codex",
    ownerSessionKey: "owner",
    spawnedBy: "spawner",
    parentSessionKey: "parent",
    lineage: ["ses_a", "ses_b"],
    backend: "acp",
    gatewayInstanceId: "in_1",
    interactionMode: "interactive",
    sandboxed: true,
    visibility: "agent",
    execRules: [{ effect: "deny", executable: "/bin/rm", args: ["-rf", "..."] }, { effect: "allow" }],
    createdAt: AT,
    ...change,
  };
}

export function newApproval(sessionId: string, change: Partial<NewApproval> = {}): NewApproval {
  return {
    id: `apr_${randomBytes(6).toString("hex")}`,
    sessionId,
    gatewayInstanceId: "in_1",
    executable: "/usr/bin/git",
    command: "git push",
    cwd: "/work",
    rule: 3,
    askedAt: AT,
    expiresAt: AT + 1_000,
    ...change,
  };
}

export function newMessage(sessionId: string, change: Partial<NewMessage> = {}): NewMessage {
  return {
    id: `msg_${randomBytes(6).toString("hex")}`,
    sessionId,
    role: "user",
    fromSessionId: "ses_a",
    actor: "session:a",
    text: "hello",
    runId: "run_1",
    cause: null,
    at: AT,
    deliver: "wake",
    turnId: null,
    inVain: 0,
    deliveredAt: null,
    ...change,
  };
}

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
    mcpServers: [
      { name: "files", command: "files-server", args: ["."], env: [{ name: "KEY", value: "value" }] },
      { type: "http", name: "docs", url: "https://docs.example/mcp", headers: [] },
    ],
    reap: "cancel",
    state: "ready",
    runId: "run_1",
    tmpdir: "/tmp/hf-acp-1",
    agentSessionId: "theirs",
    capabilities: { protocolVersion: 1 },
    agentState: {
      modes: { current: "ask", available: [{ id: "ask", name: "Ask", description: null }] },
      models: null,
      options: [],
      commands: [{ name: "plan", description: "makes a plan", hint: "what" }],
      usage: { used: 1, size: 2, cost: { amount: 0.5, currency: "USD" } },
      title: "a title",
    },
    settings: { mode: "ask", options: { effort: "high" } },
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
  content: [{ type: "resource_link", uri: "file:///srv/a.txt", name: "a.txt" }],
  askedBy: "operator",
  timeoutMs: 5_000,
  noOutputTimeoutMs: 60_000,
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
    inputDigest: "ab12",
    options: [{ optionId: "no", name: "No", kind: "reject_once" }],
    rule: 1,
    askedAt: AT,
    expiresAt: AT + 1_000,
    decision: null,
    answered: false,
  };
}

export function newRememberedRule(more: Partial<RememberedRule>): RememberedRule {
  return {
    id: "prl_1",
    scope: "session",
    sessionId: null,
    agent: null,
    effect: "allow",
    kind: "execute",
    title: "ls *",
    exact: true,
    inputDigest: null,
    permissionId: null,
    actor: "ada",
    createdAt: AT,
    revokedAt: null,
    revokedBy: null,
    ...more,
  };
}
