import { isatty } from "node:tty";
import { resolveHome } from "../../home/state-directory.js";
import { copyStore } from "../../store/copy/copy.js";
import { storeLocationName } from "../../store/location.js";
import { sanitizeLine } from "../../text/sanitize.js";
import { assertOperator } from "../client/connect.js";
import { paletteFor } from "../print/palette.js";
import { notice } from "../print/stderr.js";
import { print, toJson } from "../print/stdout.js";
import { formatTable } from "../print/table.js";
import { parseNamedStore } from "./location.js";

export interface CopyFlags {
  readonly from: string;
  readonly to: string;
  readonly json: boolean;
}

export async function copyStoreRecords(flags: CopyFlags): Promise<number> {
  assertOperator("copy a store");
  const [from, to] = await Promise.all([parseNamedStore(flags.from), parseNamedStore(flags.to)]);
  const progress = isatty(2) ? new CopyProgress() : null;
  const tables = await copyStore({
    from,
    to,
    home: resolveHome(),
    onProgress: (name, rows) => progress?.show(name, rows),
    onIncomplete: (what) => notice(what, "yellow"),
  }).finally(() => progress?.end());
  const names = { from: storeLocationName(from), to: storeLocationName(to) };
  if (flags.json) {
    print(toJson({ ...names, tables }, 2));
    return 0;
  }
  const [head = "", ...lines] = formatTable(
    ["TABLE", "ROWS", "CHECKSUM"],
    tables.map((each) => [each.table, String(each.rows), each.checksum]),
    null,
  );
  print(
    `${[paletteFor(1).bold(head), ...lines].map((line) => line.trimEnd()).join("\n")}\ncopied from ${sanitizeLine(names.from)} to ${sanitizeLine(names.to)}; every table has the same rows and checksum on both sides\n`,
  );
  return 0;
}

/** One line of a terminal, rewritten with each update. */
class CopyProgress {
  #shown = false;

  show(name: string, rows: number): void {
    this.#shown = true;
    process.stderr.write(`\r\u001b[K${name}: ${rows}`);
  }

  end(): void {
    if (this.#shown) process.stderr.write("\r\u001b[K");
  }
}
