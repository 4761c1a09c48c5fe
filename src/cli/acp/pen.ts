import { printOn } from "../runs/print.js";

/** What is written on stdout, and where that stands. */
export class Pen {
  #atLineStart = true;

  get atLineStart(): boolean {
    return this.#atLineStart;
  }

  /** Goes on where the last left off. */
  text(text: string): void {
    if (text === "") return;
    printOn(text);
    this.#atLineStart = text.endsWith("\n");
  }

  line(text: string): void {
    this.fresh();
    printOn(`${text}\n`);
  }

  /** At the beginning of a line. */
  fresh(): void {
    if (!this.#atLineStart) printOn("\n");
    this.#atLineStart = true;
  }
}
