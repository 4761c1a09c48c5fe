import { parseDocument, agentTextIn } from "./cli-output.js";
import type { CliOutput } from "../config/agents.js";

/** A line that is longer is passed over: what it would have said comes with the result. */
const MAX_LINE_CHARS = 8 * 1024 * 1024;

/** What an agent says, out of its command's output as it comes. As it came: who shows it sanitizes it. */
export class CliOutputStream {
  readonly #output: CliOutput;
  readonly #decoder = new TextDecoder();
  #line = "";
  #tooLong = false;

  constructor(output: CliOutput) {
    this.#output = output;
  }

  push(bytes: Uint8Array): string {
    const text = this.#decoder.decode(bytes, { stream: true });
    if (this.#output === "text") return text;
    const [first = "", ...more] = text.split("\n");
    let said = "";
    this.#add(first);
    for (const next of more) {
      said += this.#endLine();
      this.#add(next);
    }
    return said;
  }

  #add(piece: string): void {
    this.#tooLong ||= this.#line.length + piece.length > MAX_LINE_CHARS;
    this.#line = this.#tooLong ? "" : this.#line + piece;
  }

  #endLine(): string {
    const said = this.#tooLong ? null : agentTextIn(this.#output, parseDocument(this.#line));
    this.#line = "";
    this.#tooLong = false;
    return said === null || said === "" ? "" : `${said.trimEnd()}\n`;
  }
}
