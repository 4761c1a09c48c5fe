import type { CreateElicitationResponse } from "@agentclientprotocol/sdk";
import { defaults } from "../../defaults.js";
import { firstChars } from "../../text/truncate.js";
import type { AcpUpdate, NewAcpUpdate } from "../../model/acp/session-and-turn.js";
import type { AcpPermissionRequest, PermissionDecision } from "../../model/acp/permission-request.js";
import type { Elicitation, ElicitationContent } from "../../model/acp/elicitation.js";
import { type ApprovalQuestion, questionAboutText } from "../../sessions/approval-question.js";
import { isObject } from "../wire/message.js";
import { elicitationDetails } from "./elicitation-form.js";
import type { ParsedPermissionRequest } from "./parse-permission-request.js";

/** The kind of the permission request of a question to the user. */
export const ELICITATION_KIND = "elicitation";

/** The answer to a question that cannot be shown or answered. */
export const DECLINED_ELICITATION = { action: "decline" } as const;

/** The update with a question that was declined at once. */
export function declinedUpdate(params: unknown, turnId: string | null, at: number): NewAcpUpdate {
  const { message, mode, url } = isObject(params) ? params : {};
  const data = {
    message: typeof message === "string" ? firstChars(message, defaults.acpAskedChars) : "",
    mode: typeof mode === "string" ? firstChars(mode, defaults.titleChars) : null,
    url: typeof url === "string" ? firstChars(url, defaults.titleChars) : null,
    ...DECLINED_ELICITATION,
  };
  return { turnId, at, type: "elicitation", data };
}

const ACCEPT = "accept";
const OPTIONS = [
  { optionId: ACCEPT, name: "Answer", kind: "allow_once" },
  { optionId: "decline", name: "Decline", kind: "reject_once" },
];

/** The question as a permission request. */
export function toPermissionRequest({ message, url }: Elicitation): ParsedPermissionRequest {
  const title = url === null ? message : `${message} ${url}`;
  const tool = { toolCallId: "elicitation/create", kind: ELICITATION_KIND, title, inputDigest: null };
  return { ...tool, options: OPTIONS, details: [] };
}

/** A rule can deny a question but not answer it: an allowed one waits for a person. */
export function waitUnlessDenied(permission: AcpPermissionRequest): AcpPermissionRequest {
  return permission.decision?.verdict === "allow" ? { ...permission, decision: null } : permission;
}

/** Stored as the data of an update, so that the next gateway process has the form and the answer. */
interface LogEntry {
  readonly permissionId?: string;
  readonly asked?: Elicitation;
  readonly content?: ElicitationContent;
}

/** The questions of one agent process to its user that it waits for, by the id of their permission request. */
export class Elicitations {
  readonly #asked = new Map<string, Elicitation>();
  readonly #contents = new Map<string, ElicitationContent>();

  /** Null: the permission request is not a question to the user, or is answered. */
  get(id: string): Elicitation | null {
    return this.#asked.get(id) ?? null;
  }

  add(id: string, asked: Elicitation): ApprovalQuestion {
    this.#asked.set(id, asked);
    return questionAboutElicitation(asked);
  }

  questionOf(id: string): ApprovalQuestion | null {
    const asked = this.get(id);
    return asked === null ? null : questionAboutElicitation(asked);
  }

  setContent(id: string, content: ElicitationContent): void {
    this.#contents.set(id, content);
  }

  delete(id: string): void {
    this.#asked.delete(id);
    this.#contents.delete(id);
  }

  /** Takes over the unanswered questions of an earlier gateway process from the log of their session. */
  restore(log: readonly AcpUpdate[], isOpen: (id: string) => boolean): void {
    for (const { data } of log) {
      const { permissionId: id, asked, content } = data as LogEntry;
      if (id === undefined || !isOpen(id)) continue;
      if (asked !== undefined) this.add(id, asked);
      if (content !== undefined) this.setContent(id, content);
    }
  }

  /** The answer for the agent. Null: the permission request is not a question to the user. */
  resultOf(id: string, { optionId }: PermissionDecision): CreateElicitationResponse | null {
    const asked = this.get(id);
    if (asked === null) return null;
    if (optionId === null) return { action: "cancel" };
    if (optionId !== ACCEPT) return DECLINED_ELICITATION;
    const content = asked.mode === "form" ? { content: mutableContent(this.#contents.get(id) ?? {}) } : {};
    return { action: "accept", ...content };
  }
}

function mutableContent(content: ElicitationContent) {
  return Object.fromEntries(
    Object.entries(content).map(([name, value]) => [name, typeof value === "object" ? [...value] : value]),
  );
}

export function askedUpdate(permission: AcpPermissionRequest, asked: Elicitation): NewAcpUpdate {
  const data: LogEntry = { permissionId: permission.id, asked };
  return { turnId: permission.turnId, at: permission.askedAt, type: "elicitation", data };
}

export function contentUpdate(
  { id, turnId }: AcpPermissionRequest,
  content: ElicitationContent,
  at: number,
): NewAcpUpdate {
  const data: LogEntry = { permissionId: id, content };
  return { turnId, at, type: "elicitation", data };
}

function questionAboutElicitation(asked: Elicitation): ApprovalQuestion {
  return questionAboutText(["question", asked.message], elicitationDetails(asked));
}
