import { spawn, type ChildProcessWithoutNullStreams } from "node:child_process";

/** One command of a console block and its output. */
export interface TranscriptEntry {
  readonly command: string;
  readonly output: string;
}

/** A line after `$ ` is a command, lines after `> ` continue it, and all other lines are output. */
export function parseTranscript(text: string): TranscriptEntry[] {
  const entries: { command: string; output: string }[] = [];
  for (const line of text.split("\n").slice(0, -1)) {
    const last = entries.at(-1);
    if (line.startsWith("$ ")) entries.push({ command: line.slice(2), output: "" });
    else if (last === undefined) throw new Error(`the console block does not begin with a command: ${line}`);
    else if (line.startsWith("> ") && last.output === "") last.command += `\n${line.slice(2)}`;
    else last.output += `${line}\n`;
  }
  return entries;
}

export function formatTranscript(entries: readonly TranscriptEntry[]): string {
  return entries.map(({ command, output }) => `$ ${command.replaceAll("\n", "\n> ")}\n${output}`).join("");
}

const ID = /\b(?:run|in|ses|ask|turn|prm|task)_[a-z0-9]{4,}\b/g;

/** Texts that differ from run to run: ids, pids, times, sizes, and the column widths they cause. */
const VOLATILE: readonly (readonly [RegExp, string])[] = [
  [ID, "ID"],
  [/\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?Z?/g, "TIME"],
  [/\b\d\d:\d\d:\d\d(?:\.\d+)?\b/g, "TIME"],
  [/\bpid \d+/g, "pid N"],
  [/\b\d+(?:\.\d+)? ?(?:ms|s|m|min|h|d)\b/g, "DURATION"],
  [/\b\d+(?:\.\d+)? ?(?:B|kB|KB|MB|GB|KiB|MiB|GiB)\b/g, "SIZE"],
  [/\b\d+(?:\.\d+)?%/g, "PERCENT"],
  [/(?<=[ │├└─])\d{1,7}(?= )/g, "N"],
  [/ {2,}|─{2,}/g, " "],
  [/ +$/gm, ""],
];

function maskVolatile(text: string): string {
  return VOLATILE.reduce((masked, [pattern, word]) => masked.replaceAll(pattern, word), text);
}

export function findIds(text: string): string[] {
  return text.match(ID) ?? [];
}

/** True if the printed text equals the page's, volatile texts aside. A line `…` on the page matches any lines. */
export function matchesPage(page: string, printed: string): boolean {
  const parts = maskVolatile(page).split(/^…\n/m);
  const source = parts
    .map((part) => part.replaceAll(/[.*+?^${}()|[\]\\]/g, String.raw`\$&`))
    .join("(?:.*\n)*?");
  return new RegExp(`^${source}$`).test(maskVolatile(printed));
}

/** A shell that runs one command after the other and keeps variables, directory and exit status in between. */
export class TranscriptShell {
  readonly #bash: ChildProcessWithoutNullStreams;
  #printed = "";
  #onOutput: () => void = () => {};

  constructor(env: NodeJS.ProcessEnv, cwd: string) {
    this.#bash = spawn("bash", ["--norc", "--noprofile"], { env, cwd, stdio: ["pipe", "pipe", "pipe"] });
    for (const stream of [this.#bash.stdout, this.#bash.stderr])
      stream.on("data", (data: Buffer) => {
        this.#printed += data.toString();
        this.#onOutput();
      });
  }

  /** Returns what the command printed on stdout and stderr. */
  async run(command: string): Promise<string> {
    const end = `\u0001end\u0001`;
    this.#printed = "";
    // The exit status is kept for a `$?` in the next command.
    this.#bash.stdin.write(`{ ${command}\n} 2>&1 < /dev/null; status=$?; printf '${end}'; (exit $status)\n`);
    while (!this.#printed.endsWith(end)) await new Promise<void>((resolve) => (this.#onOutput = resolve));
    return this.#printed.slice(0, -end.length);
  }

  end(): void {
    this.#bash.stdin.end();
  }
}
