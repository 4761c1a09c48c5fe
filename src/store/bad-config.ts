import { BadInput } from "../errors.js";

export interface ConfigProblem {
  /** Of the file; null: it is not said there, or cannot be told. */
  readonly line: number | null;
  /** The setting, entries of lists counted from 1; empty: the file itself. */
  readonly key: string;
  readonly message: string;
}

/** Everything that is wrong with a config file, or with what is said over it. */
export class BadConfig extends BadInput {
  readonly problems: readonly ConfigProblem[];
  constructor(problems: readonly ConfigProblem[], message: string) {
    super("config", message);
    this.problems = problems;
  }
}
