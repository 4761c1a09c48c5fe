import { createHash } from "node:crypto";

export type ColumnValue = string | number | null;
export type TableRow = Readonly<Record<string, ColumnValue>>;

/** Reads the tables of one store in one snapshot, without knowing the meaning of the rows. */
export interface TableReader extends AsyncDisposable {
  /** Executes a query without parameters, in SQL that every database understands. */
  query(sql: string): Promise<readonly TableRow[]>;
  /** In batches. At most one iteration at a time. */
  rows(table: string): AsyncIterable<readonly TableRow[]>;
  columns(table: string): Promise<readonly string[]>;
  /** The highest number given to a row, also of a deleted row; null: the table does not number its rows. */
  lastNumber(table: string): Promise<number | null>;
  /** Milliseconds on the store's clock. */
  now(): Promise<number>;
  /** Connected instances, if the store shows them. */
  connectedInstances(): Promise<readonly string[]>;
  /** Rejects if the store changed while it was read. */
  requireConsistentRead(): Promise<void>;
}

/** Also writes the tables of one store, in one transaction that excludes other writers. */
export interface TableWriter extends TableReader {
  /** The value as the store will return it. */
  toStorable(value: ColumnValue): ColumnValue;
  insert(table: string, columns: readonly string[], rows: readonly TableRow[]): Promise<void>;
  /** The next row gets the number after this one. */
  setLastNumber(table: string, highest: number): Promise<void>;
  commit(): Promise<void>;
}

/** Rows held in memory at a time. */
export const BATCH_ROWS = 500;

const BITS = 128n;

/** Checksum of a table, independent of the order of its rows: the sum of their hashes. */
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
