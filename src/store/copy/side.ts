export type Value = string | number | null;
export type Row = Readonly<Record<string, Value>>;

/** The tables of one store, at one moment. What their rows mean is not known here. */
export interface Reader extends AsyncDisposable {
  /** The answer to a question without parameters, in words that every database knows. */
  ask(sql: string): Promise<readonly Row[]>;
  /** In portions. Not twice at the same time. */
  rows(table: string): AsyncIterable<readonly Row[]>;
  columns(table: string): Promise<readonly string[]>;
  /** The highest number that a table has given to a row, whether it still has that row; null: it numbers none. */
  highest(table: string): Promise<number | null>;
  /** Milliseconds on the store's clock. */
  now(): Promise<number>;
  /** Instances that are connected, where a store can tell. */
  connected(): Promise<readonly string[]>;
  /** Rejects when not all that was read may have been of one moment. */
  wasOneMoment(): Promise<void>;
}

/** The same for a store that is to be filled: all of it at the commit, or nothing. Nobody else writes meanwhile. */
export interface Writer extends Reader {
  /** As it will be read from there. */
  fit(value: Value): Value;
  insert(table: string, columns: readonly string[], rows: readonly Row[]): Promise<void>;
  /** Numbers go on after this one. */
  startAfter(table: string, highest: number): Promise<void>;
  commit(): Promise<void>;
}

/** Rows that are held in memory at a time. */
export const PORTION = 500;
