import { createHash } from "node:crypto";

export type ColumnValue = string | number | null;
export type TableRow = Readonly<Record<string, ColumnValue>>;

/** The tables of one store, at one moment. What their rows mean is not known here. */
export interface TableReader extends AsyncDisposable {
  /** The answer to a question without parameters, in words that every database knows. */
  query(sql: string): Promise<readonly TableRow[]>;
  /** In portions. Not twice at the same time. */
  rows(table: string): AsyncIterable<readonly TableRow[]>;
  columns(table: string): Promise<readonly string[]>;
  /** The highest number that a table has given to a row, whether it still has that row; null: it numbers none. */
  lastNumber(table: string): Promise<number | null>;
  /** Milliseconds on the store's clock. */
  now(): Promise<number>;
  /** Instances that are connected, where a store can tell. */
  connectedInstances(): Promise<readonly string[]>;
  /** Rejects when not all that was read may have been of one moment. */
  requireConsistentRead(): Promise<void>;
}

/** The same for a store that is to be filled: all of it at the commit, or nothing. Nobody else writes meanwhile. */
export interface TableWriter extends TableReader {
  /** As it will be read from there. */
  toStorable(value: ColumnValue): ColumnValue;
  insert(table: string, columns: readonly string[], rows: readonly TableRow[]): Promise<void>;
  /** Numbers go on after this one. */
  setLastNumber(table: string, highest: number): Promise<void>;
  commit(): Promise<void>;
}

/** Rows that are held in memory at a time. */
export const BATCH_ROWS = 500;

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
