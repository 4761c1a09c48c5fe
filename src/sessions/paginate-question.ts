import { setImmediate } from "node:timers/promises";
import type { ApprovalQuestion, QuestionPart } from "./approval-question.js";
import { defaults } from "../defaults.js";

export interface QuestionPage {
  /** Digest of the question, on its last page; null on other pages. */
  readonly digest: string | null;
  readonly page: number;
  readonly pages: number;
  readonly parts: readonly QuestionPart[];
}

/** The page of a question that does not wait at this gateway. */
export const NO_PAGE: QuestionPage = { page: 0, pages: 0, parts: [], digest: null };

/** Field names and punctuation of a part in JSON. */
const PART_CHARS = 80;

/** Pages of the question that was read last: its pages are usually read one after another. */
let cachedParts: {
  readonly of: ApprovalQuestion;
  readonly reveal: boolean;
  readonly parts: readonly QuestionPart[];
} | null = null;

/** Yields to the event loop, because there may be a hundred thousand parts. */
async function collectParts(question: ApprovalQuestion, reveal: boolean): Promise<readonly QuestionPart[]> {
  if (cachedParts?.of === question && cachedParts.reveal === reveal) return cachedParts.parts;
  const parts: QuestionPart[] = [];
  for (const part of question.parts({ reveal })) if (parts.push(part) % 1_000 === 0) await setImmediate();
  cachedParts = { of: question, reveal, parts };
  return parts;
}

/** One page, counted from 1; a number beyond the last page means the last page. */
export async function pageOfQuestion(
  question: ApprovalQuestion,
  wanted: number,
  reveal: boolean,
): Promise<QuestionPage> {
  let parts: QuestionPart[] = [];
  let kept: QuestionPart[] = [];
  let page = 1;
  let chars = 0;
  for (const part of await collectParts(question, reveal)) {
    const size = part.label.length + part.text.length + PART_CHARS;
    if (parts.length > 0 && chars + size > defaults.questionPageChars) {
      if (page <= wanted) kept = parts;
      parts = [];
      chars = 0;
      page++;
    }
    parts.push(part);
    chars += size;
  }
  if (page <= wanted) cachedParts = null;
  return page <= wanted
    ? { digest: question.digest, page, pages: page, parts }
    : { digest: null, page: wanted, pages: page, parts: kept };
}

/** A question as lines of text: one part after another, and a new line after each line end that is inside a text. */
export function questionLines(parts: Iterable<QuestionPart>): string[] {
  const lines: string[] = [];
  let whole = "";
  let note: string | null = null;
  for (const part of parts) {
    whole += part.text;
    note ??= part.note;
    if (part.continues) continue;
    const hint = note === null ? "" : ` (${note})`;
    lines.push(...`${part.label}: ${breakLines(whole)}${hint}`.split("\n"));
    whole = "";
    note = null;
  }
  return lines;
}

/** In `$'…'` every backslash begins an escape, so the escapes that are line ends can be found. */
function breakLines(quoted: string): string {
  if (!quoted.startsWith("$'")) return quoted;
  return quoted.replaceAll(/\\[\s\S]/g, (escape) => (escape === String.raw`\n` ? `${escape}\n    ` : escape));
}
