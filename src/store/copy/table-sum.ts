import { createHash } from "node:crypto";
import type { TableRow } from "./table-io.js";

const BITS = 128n;

/** Of a table's rows in whatever order: each is hashed, and the hashes are added up. */
export class TableChecksum {
  rows = 0;
  readonly #columns: readonly string[];
  #sum = 0n;

  constructor(columns: readonly string[]) {
    this.#columns = columns.toSorted();
  }

  add(rows: readonly TableRow[]): void {
    for (const row of rows) {
      const text = JSON.stringify(this.#columns.map((column) => row[column]));
      const hash = createHash("sha256")
        .update(text)
        .digest("hex")
        .slice(0, Number(BITS) / 4);
      this.#sum = BigInt.asUintN(Number(BITS), this.#sum + BigInt(`0x${hash}`));
      this.rows += 1;
    }
  }

  get checksum(): string {
    return this.#sum.toString(16).padStart(Number(BITS) / 4, "0");
  }
}
