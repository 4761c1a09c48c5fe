import { sanitizeText } from "../../text/sanitize.js";
import { questionHead, type ApprovalQuestion } from "../../sessions/approval-question.js";
import type { AcpPermissionRequest, AcpSession, AcpTurn, AcpUpdate } from "../../model/acp.js";
import type { SessionRecord } from "../../model/session.js";
import type { ResponseOf } from "../../api/contract.js";

export function acpSessionResponse(
  session: AcpSession,
  row: SessionRecord | null,
): ResponseOf<"acpClose">["session"] {
  const { argv: _argv, tmpdir: _tmpdir, capabilities: _capabilities, ...rest } = session;
  const { end: _end, sending: _sending, pending: _pending, rules, ...shown } = rest;
  return { ...shown, rules: [...rules], key: row?.key ?? "", agentId: row?.agentId ?? null };
}

/** Text of an agent's: nothing in it may move a terminal's cursor. The raw frames are in the updates. */
export function acpTurnResponse(turn: AcpTurn): ResponseOf<"acpPrompt">["turn"] {
  const { before: _before, requestId: _request, audit, ...rest } = turn;
  return {
    ...rest,
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

/** `question`: the whole question, while it waits at this gateway. */
export function acpPermissionResponse(
  permission: AcpPermissionRequest,
  question: ApprovalQuestion | null,
): ResponseOf<"acpAnswer">["permission"] {
  const { rpcId: _rpc, answered: _answered, ...rest } = permission;
  const title = question?.summary ?? rest.title;
  return {
    ...rest,
    title: title === null ? null : sanitizeText(title),
    question: question === null ? null : questionHead(question),
    options: rest.options.map((option) => ({ ...option, name: sanitizeText(option.name) })),
  };
}
