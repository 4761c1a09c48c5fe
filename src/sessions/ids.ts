import { randomCharacters } from "../model/ids.js";

const SESSION_ID_CHARACTERS = 12;

export function newSessionId(): string {
  return `ses_${randomCharacters(SESSION_ID_CHARACTERS)}`;
}

/** A key of this shape would be taken for an id. */
export function looksLikeSessionId(text: string): boolean {
  return /^ses_[0-9a-z]{12}$/.test(text);
}

export function newApprovalId(): string {
  return `apr_${randomCharacters(SESSION_ID_CHARACTERS)}`;
}

export function newMessageId(): string {
  return `msg_${randomCharacters(SESSION_ID_CHARACTERS)}`;
}
