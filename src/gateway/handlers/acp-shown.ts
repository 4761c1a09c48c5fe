import { sanitizeText } from "../../output/sanitize.js";
import { headOf, type Question } from "../../sessions/question.js";
import type { AcpPermission, AcpSession, AcpTurn, AcpUpdate } from "../../store/acp-record.js";
import type { SessionRow } from "../../store/session-record.js";
import type { AnswerOf } from "../contract/contract.js";

export function sessionOf(session: AcpSession, row: SessionRow | null): AnswerOf<"acpClose">["session"] {
  const { argv: _argv, tmpdir: _tmpdir, capabilities: _capabilities, ...rest } = session;
  const { end: _end, sending: _sending, pending: _pending, rules, ...shown } = rest;
  return { ...shown, rules: [...rules], key: row?.key ?? "", agentId: row?.agentId ?? null };
}

/** Text of an agent's: nothing in it may move a terminal's cursor. The raw frames are in the updates. */
export function turnOf(turn: AcpTurn): AnswerOf<"acpPrompt">["turn"] {
  const { before: _before, requestId: _request, audit, ...rest } = turn;
  return {
    ...rest,
    text: sanitizeText(turn.text),
    toolCalls: turn.toolCalls.map((call) => ({ ...call, title: sanitizeText(call.title) })),
    audit: audit === null ? null : { ...audit, left: [...audit.left], survivors: [...audit.survivors] },
  };
}

export function updateOf({
  seq,
  turnId,
  at,
  type,
  data,
}: AcpUpdate): AnswerOf<"acpWatch">["updates"][number] {
  return { seq, turnId, at, type, data };
}

/** `question`: the whole question, while it waits at this gateway. */
export function permissionOf(
  permission: AcpPermission,
  question: Question | null,
): AnswerOf<"acpAnswer">["permission"] {
  const { rpcId: _rpc, answered: _answered, ...rest } = permission;
  const title = question?.summary ?? rest.title;
  return {
    ...rest,
    title: title === null ? null : sanitizeText(title),
    question: question === null ? null : headOf(question),
    options: rest.options.map((option) => ({ ...option, name: sanitizeText(option.name) })),
  };
}
