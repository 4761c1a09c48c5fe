import { type Command, Option } from "commander";
import { BadInput } from "../../errors.js";
import { misplacedNotifyOption, type NotifyFlags } from "../client/notify-options.js";
import { asOptionParser } from "../options/parsers.js";
import { parseDuration } from "../options/units.js";
import { OUTPUT_FORMATS, type OutputFormat } from "./view/formats.js";

export const answerHelp = `
Ctrl-C cancels the turn and waits for its end; a second Ctrl-C leaves the rest to the
gateway. On a terminal you are asked about the agent's permission requests.

Formats: text, for reading while it comes; json, the agent's frames, one object per
line; quiet, only the answer. --json prints the record of the turn when it has ended.

Exit status: 0 answered, 1 the agent failed or refused, 3 it stopped early, 121 its
process ended during the turn, 122 cancelled and not confirmed, 123 answered without
the context of earlier turns, 124 timeout, 125 Holdfast failed, 130 cancelled.
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

/** Options of commands that show an answer. */
export function addDisplayOptions(command: Command): Command {
  return command
    .option(
      "--timeout <duration>",
      "end the agent if it has not answered by then",
      asOptionParser(parseTurnTimeout),
    )
    .option("--thoughts", "print the agent's thoughts in full")
    .addOption(formatOption())
    .addOption(new Option("--json", "print the record when the turn has ended").conflicts("format"));
}

export function formatOption(): Option {
  return new Option("--format <format>", "the output format")
    .choices(OUTPUT_FORMATS)
    .default(undefined, "text");
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
