import { readLogPage, type Stream } from "../../../api/log-pages.js";

const COARSE_BYTES = 1024 * 1024;
const FINE_BYTES = 16 * 1024;

interface Search {
  readonly runId: string;
  readonly stream: Stream;
  readonly text: string;
  /** From this offset up to that one. */
  readonly from: number;
  readonly end: number;
}

/**
 * The offset of a short page that begins at or shortly before the first match, ignoring case. Null: none. Reads the log
 * in large pages, then the page with the match in short ones, because the text of a page has other offsets than its bytes.
 */
export async function findInLog(search: Search, signal: AbortSignal): Promise<number | null> {
  const coarse = await firstPageWith(search, COARSE_BYTES, signal);
  if (coarse === null) return null;
  const fine = await firstPageWith({ ...search, from: coarse }, FINE_BYTES, signal);
  return fine ?? coarse;
}

/** The offset of the first page with a match, or of the page before it if the match begins there. */
async function firstPageWith(
  { runId, stream, text, from, end }: Search,
  maxBytes: number,
  signal: AbortSignal,
): Promise<number | null> {
  const wanted = text.toLowerCase();
  let before = { offset: from, text: "" };
  for (let offset = from; offset < end;) {
    const page = await readLogPage(runId, { stream, offset, maxBytes }, signal);
    if (page.nextOffset <= offset) return null;
    const tail = before.text.slice(-wanted.length + 1);
    const at = (wanted.length > 1 ? tail + page.text : page.text).toLowerCase().indexOf(wanted);
    if (at >= 0) return wanted.length > 1 && at < tail.length ? before.offset : page.offset;
    before = page;
    offset = page.nextOffset;
  }
  return null;
}
