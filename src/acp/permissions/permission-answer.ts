import { BadInput } from "../../errors.js";
import type { AcpSession } from "../../model/acp/session-and-turn.js";
import type { AcpPermissionRequest } from "../../model/acp/permission-request.js";
import type { Elicitation, ElicitationContent } from "../../model/acp/elicitation.js";
import { type ApprovalQuestion, assertAnswersQuestion } from "../../sessions/approval-question.js";
import { parseContent } from "./elicitation-form.js";
import { assertOffersOption } from "./decide-permission.js";
import type { DecideOptions } from "./permission-requests-contract.js";
import { type RememberRequest, ruleFromAnswer } from "./remembered-rules.js";

/** `cancelled`: a question to the user is dismissed without an answer. */
export type GivenVerdict = "allow" | "deny" | "cancelled";

export interface PermissionAnswer {
  /** The digest of the question that was shown. */
  readonly digest?: string | undefined;
  /** One of the options that the agent offers. Default: the first that answers once. */
  readonly optionId?: string | null | undefined;
  /** Answer later requests likewise. */
  readonly remember?: RememberRequest | undefined;
  /** The values for the form of a question to the user. */
  readonly content?: ElicitationContent | undefined;
}

interface AnsweredRequest {
  /** Null: it is a request for permission. */
  readonly form: Elicitation | null;
  readonly question: ApprovalQuestion | null;
  readonly session: Pick<AcpSession, "sessionId" | "agent">;
  readonly made: { readonly actor: string; readonly at: number };
}

/** Throws if the answer does not fit the request. */
export function toDecideOptions(
  asked: AcpPermissionRequest,
  verdict: GivenVerdict,
  { digest, optionId = null, remember, content }: PermissionAnswer,
  { form, question, session, made }: AnsweredRequest,
): DecideOptions {
  const { id } = asked;
  if (form !== null) {
    if (optionId !== null || remember !== undefined)
      throw new BadInput(
        optionId === null ? "remember" : "optionId",
        `${id} is a question to the user: its answer is the values of its fields, and is not remembered. It is not answered`,
      );
    if (verdict !== "allow") return {};
    const values = parseContent(form.fields, content ?? {});
    return form.mode === "form" ? { content: values } : {};
  }
  if (verdict === "cancelled" || content !== undefined)
    throw new BadInput(
      verdict === "cancelled" ? "verdict" : "content",
      `${id} is not a question to the user: allow or deny it. It is not answered`,
    );
  if (question !== null)
    assertAnswersQuestion(question, verdict, digest, `holdfast acp permissions show ${id}`);
  if (optionId !== null) assertOffersOption(asked, verdict, optionId);
  const rule = remember === undefined ? null : ruleFromAnswer(asked, verdict, remember, session, made);
  return { optionId, rule };
}
