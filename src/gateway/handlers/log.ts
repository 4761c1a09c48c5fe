import type { ByteReader } from "../../output/byte-reader.js";
import { readBytePage } from "../../output/byte-page.js";
import { readLinePage } from "../../output/line-page.js";
import type { RunRecord } from "../../model/run.js";
import type { ResponseOf, ParsedRequestOf } from "../../api/contract.js";
import type { RunReader } from "../../queries/runs.js";

/** A page of a run's output: from a byte on, from a line on, or the last lines. */
export async function readLog(
  reader: RunReader,
  { runId, state }: RunRecord,
  { stream, offset, maxBytes, skip, lines, raw = false }: ParsedRequestOf<"log">["query"],
): Promise<ResponseOf<"log">> {
  const read: ByteReader = (from, most) => reader.readOutput(runId, stream, { offset: from, maxBytes: most });
  const ended = state === "exited";
  if (offset !== undefined) {
    const page = await readBytePage(read, { offset, bytes: maxBytes }, { raw, ended });
    const { text, firstOffset, nextOffset, more } = page;
    const missing = { skipped: page.droppedBytes, lost: page.lostBytes };
    return { stream, offset: firstOffset, nextOffset, text, ...missing, ended: ended && !more };
  }
  const page = await readLinePage(read, skip === undefined ? { last: lines } : { skip, lines }, {
    raw,
    ended,
  });
  const { firstOffset, nextOffset, unfinishedFrom, more } = page;
  const text = page.lines.join("\n") + (page.lines.length > 0 && unfinishedFrom === null ? "\n" : "");
  const missing = { skipped: page.droppedBytes, lost: page.lostBytes };
  return { stream, offset: firstOffset, nextOffset, text, ...missing, ended: ended && !more };
}
