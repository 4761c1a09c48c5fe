import type { ResponseOf } from "../api/contract.js";
import { attachmentOf } from "../acp/turn/prompt-content.js";
import { defaults } from "../defaults.js";
import type { Elicitation } from "../model/acp/elicitation.js";
import type { AcpSession, AcpTurn, AcpUpdate } from "../model/acp/session-and-turn.js";
import type { AcpPermissionRequest } from "../model/acp/permission-request.js";
import type { AgentReport } from "../model/acp/agent-reported-state.js";
import type { RunRecord } from "../model/run.js";
import type { SessionRecord } from "../model/session.js";
import { type ApprovalQuestion, questionHead } from "../sessions/approval-question.js";
import { leaseOf } from "./agent-runs.js";
import { displayCommand, redactText } from "../text/redact.js";
import { sanitizeText } from "../text/sanitize.js";
import { lastChars } from "../text/truncate.js";

/** `run`: the last run of its agent. */
export function acpSessionResponse(
  session: AcpSession,
  row: SessionRecord | null,
  run: RunRecord | null,
): ResponseOf<"acpClose">["session"] {
  const { argv: _argv, tmpdir: _tmpdir, capabilities: _capabilities, ...more } = session;
  const { agentState: _agentState, settings: _settings, ...rest } = more;
  const { end: _end, sending: _sending, pending: _pending, rules, mcpServers, ...shown } = rest;
  return {
    ...shown,
    rules: [...rules],
    mcpServers: mcpServers.map(mcpServerResponse),
    key: row?.key ?? "",
    agentId: row?.agentId ?? null,
    closedBy: row?.closedBy ?? null,
    closeReason: row?.closeReason ?? null,
    ...leaseOf(run),
  };
}

/** Sanitized: nothing in an agent's text may move a terminal's cursor. */
export function agentStateResponse(state: AgentReport | null): ResponseOf<"acpSet">["agentState"] {
  if (state === null) return null;
  const text = JSON.stringify(state);
  return JSON.parse(text, (_key, value: unknown) =>
    typeof value === "string" ? sanitizeText(value) : value,
  ) as ResponseOf<"acpSet">["agentState"];
}

function mcpServerResponse(
  server: AcpSession["mcpServers"][number],
): ResponseOf<"acpClose">["session"]["mcpServers"][number] {
  const { name } = server;
  if ("type" in server) {
    const given = server.headers.map((each) => each.name);
    return { name, transport: server.type, target: redactText(server.url), given };
  }
  const target = displayCommand([server.command, ...server.args]);
  return { name, transport: "stdio", target, given: server.env.map((each) => each.name) };
}

/** A turn with the newest part of its text. */
export function acpTurnResponse(turn: AcpTurn): ResponseOf<"acpPrompt">["turn"] {
  const text = lastChars(turn.text, defaults.acpTextChars);
  return wholeTurnResponse({
    ...turn,
    text,
    omittedChars: turn.omittedChars + turn.text.length - text.length,
  });
}

/** Sanitized: nothing in an agent's text may move a terminal's cursor. The raw frames are in the updates. */
export function wholeTurnResponse(turn: AcpTurn): ResponseOf<"acpPrompt">["turn"] {
  const { before: _before, requestId: _request, audit, content, ...rest } = turn;
  return {
    ...rest,
    attachments: (content ?? []).map(attachmentOf),
    text: sanitizeText(turn.text),
    toolCalls: turn.toolCalls.map((call) => ({ ...call, title: sanitizeText(call.title) })),
    audit: audit === null ? null : { ...audit, left: [...audit.left], survivors: [...audit.survivors] },
  };
}

export function acpUpdateResponse({
  seq,
  turnId,
  at,
  type,
  data,
}: AcpUpdate): ResponseOf<"acpWatch">["updates"][number] {
  return { seq, turnId, at, type, data };
}

/** `question`: the question, if it is pending at this gateway. `sessionKey`: the name of its session. */
export function acpPermissionResponse(
  permission: AcpPermissionRequest,
  question: ApprovalQuestion | null,
  sessionKey: string,
): ResponseOf<"acpAnswer">["permission"] {
  const { rpcId: _rpc, inputDigest: _digest, answered: _answered, ...rest } = permission;
  const title = question?.summary ?? rest.title;
  return {
    ...rest,
    sessionKey,
    title: title === null ? null : sanitizeText(title),
    question: question === null ? null : questionHead(question),
    options: rest.options.map((option) => ({ ...option, name: sanitizeText(option.name) })),
  };
}

/** Texts of an agent's: nothing in them may move a terminal's cursor. Names and values are what the agent is answered with. */
export function acpElicitationResponse(asked: Elicitation | null): ResponseOf<"acpQuestion">["form"] {
  if (asked === null) return null;
  const shown = (text: string | null): string | null => (text === null ? null : sanitizeText(text));
  const fields = asked.fields.map((field) => ({
    ...field,
    title: shown(field.title),
    description: shown(field.description),
    default: typeof field.default === "object" && field.default !== null ? [...field.default] : field.default,
    choices: field.choices?.map(({ value, title }) => ({ value, title: shown(title) })) ?? null,
  }));
  return { ...asked, message: sanitizeText(asked.message), fields };
}
