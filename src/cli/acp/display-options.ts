import { type Command, Option } from "commander";
import { BadInput } from "../../errors.js";
import { misplacedNotifyOption, type NotifyFlags } from "../client/notify-options.js";
import { asOptionParser } from "../options/parsers.js";
import { parseDuration } from "../options/units.js";
import { OUTPUT_FORMATS, type OutputFormat } from "./view/formats.js";

export const answerHelp = `
Ctrl-C cancels the turn and waits for its end; again, it leaves that to the
gateway. On a terminal you are asked there what the agent asks leave for.

Formats: text, to be read as it comes; json, the agent's frames as they came,
one object per line; quiet, the answer alone when there is one. --json instead
prints the record of the turn when it has ended.

Exit status: 0 answered; 1 the agent failed or refused; 3 it stopped early;
121 interrupted, its process ended; 122 told to stop, and it did not say that
it has; 123 answered, but it knew nothing of what was said before; 124 timeout;
125 holdfast failed; 130 cancelled.
`;

export interface DisplayFlags {
  readonly format?: OutputFormat;
  readonly thoughts?: true;
  readonly json?: true;
  readonly timeout?: number;
}

export function rejectNotifyOptions(flags: NotifyFlags, instead: string): void {
  const misplaced = misplacedNotifyOption(flags);
  if (misplaced !== null) throw new BadInput("option", `${misplaced}: add ${instead}; nothing was sent`);
}

/** What every command has that shows an answer. */
export function addDisplayOptions(command: Command): Command {
  return command
    .option(
      "--timeout <duration>",
      "end the agent when it has not answered by then",
      asOptionParser(parseTurnTimeout),
    )
    .option("--thoughts", "all of the agent's thoughts, not only how they begin")
    .addOption(formatOption())
    .addOption(new Option("--json", "instead, the record when the turn has ended").conflicts("format"));
}

export function formatOption(): Option {
  return new Option("--format <format>", "how the answer is shown (default: text)").choices(OUTPUT_FORMATS);
}

const DAY_MS = 86_400_000;

function parseTurnTimeout(text: string): number {
  const timeoutMs = parseDuration(text);
  if (timeoutMs < 1_000 || timeoutMs > DAY_MS)
    throw new BadInput("timeout", "Write a duration from 1s to 24h.");
  return timeoutMs;
}

export function displayOptions({ format, thoughts, json, timeout }: DisplayFlags) {
  return {
    format: format ?? "text",
    thoughts: thoughts === true,
    json: json === true,
    timeoutMs: timeout ?? null,
  };
}
