import { printOrThrow } from "../../print/stdout.js";

/** What is written on stdout, and where that stands. */
export class StdoutWriter {
  #atLineStart = true;

  get atLineStart(): boolean {
    return this.#atLineStart;
  }

  /** Goes on where the last left off. */
  write(text: string): void {
    if (text === "") return;
    printOrThrow(text);
    this.#atLineStart = text.endsWith("\n");
  }

  writeLine(text: string): void {
    this.startLine();
    printOrThrow(`${text}\n`);
  }

  /** At the beginning of a line. */
  startLine(): void {
    if (!this.#atLineStart) printOrThrow("\n");
    this.#atLineStart = true;
  }
}
