import { type Command, InvalidArgumentError, Option } from "commander";
import { BadInput } from "../../errors.js";
import type { RunLimits } from "../../model/run.js";
import type { ExecEffect, ExecRule } from "../../model/exec/exec-rule.js";
import { checkLimits } from "../../supervisor/check-options.js";
import { splitShellWords } from "../../text/shell-words.js";
import { formatSize } from "../../text/format-units.js";

/** The option `--no-output-timeout`. `negate = false`: to commander, `--no-…` is the negation of `--output-timeout`. */
export function noOutputOption(description: string, parse: (text: string) => number): Option {
  const option = new Option("--no-output-timeout <duration>", description);
  option.negate = false;
  return option.argParser(asOptionParser(parse));
}

/** Makes a parser that throws BadInput usable for commander, which puts the option before the message. */
export function asOptionParser<Value>(parse: (text: string) => Value): (text: string) => Value {
  return (text) => {
    try {
      return parse(text);
    } catch (error) {
      throw error instanceof BadInput ? new InvalidArgumentError(error.message) : error;
    }
  };
}

/** Collects `key=value` options; the last value of a key wins. */
export function collectPairs(
  text: string,
  before: Readonly<Record<string, string>> = {},
): Record<string, string> {
  const equals = text.indexOf("=");
  if (equals < 1) throw new InvalidArgumentError("Write key=value.");
  return { ...before, [text.slice(0, equals)]: text.slice(equals + 1) };
}

/** Collects `name=value` options; a name that is repeated gets a list. */
export function collectNamedValues(
  text: string,
  before: Readonly<Record<string, string | string[]>> = {},
): Record<string, string | string[]> {
  const equals = text.indexOf("=");
  if (equals < 1) throw new InvalidArgumentError("Write name=value.");
  const [name, value] = [text.slice(0, equals), text.slice(equals + 1)];
  if (!Object.hasOwn(before, name)) return { ...before, [name]: value };
  return { ...before, [name]: [...[before[name] ?? []].flat(), value] };
}

export function collectValues(text: string, before: readonly string[] = []): string[] {
  return [...before, text];
}

export function parsePositiveInteger(text: string): number {
  const number = /^\d{1,9}$/.test(text) ? Number(text) : 0;
  if (number < 1) throw new InvalidArgumentError("Write a number from 1.");
  return number;
}

/** A number from 1 to `limit`, which is the limit of the API. */
export function positiveIntegerUpTo(limit: number): (text: string) => number {
  return (text) => {
    const number = parsePositiveInteger(text);
    if (number > limit) throw new InvalidArgumentError(`Write a number from 1 to ${limit}.`);
    return number;
  };
}

/** `ls`, `/usr/bin/wc -l ...`, or `*` for every program: the words after the first are the arguments. */
export function parseExecRule(effect: ExecEffect, text: string): ExecRule {
  const [executable, ...args] = splitShellWords(text) ?? [];
  if (executable === undefined)
    throw new BadInput(effect, `${JSON.stringify(text)} names no program; write one, or * for every program`);
  return {
    effect,
    ...(executable === "*" ? {} : { executable }),
    ...(args.length === 0 ? {} : { args }),
  };
}

/** Lines to print, or `all`. */
export function parseLineCount(text: string): number | "all" {
  return text === "all" ? text : positiveIntegerUpTo(100_000)(text);
}

export function parseOffset(text: string): number {
  if (!/^\d{1,15}$/.test(text)) throw new InvalidArgumentError("Write a whole number, 0 or more.");
  return Number(text);
}

export interface DetachFlags {
  readonly detach?: true;
  /** The former spelling of `--detach`. */
  readonly background?: true;
}

/** `-d, --detach`, the one option for work in the background; `-b, --background` is its former spelling. */
export function addDetachOption(command: Command, description: string): Command {
  return command
    .option("-d, --detach", description)
    .addOption(new Option("-b, --background", "the former name of --detach").hideHelp());
}

export function isDetached({ detach, background }: DetachFlags): boolean {
  return detach === true || background === true;
}

/** `1.5`, `100`. */
export function parseCount(text: string): number {
  if (/^\d+(?:\.\d+)?$/.test(text)) return Number(text);
  throw new BadInput("limits", `${JSON.stringify(text)} is not a number`);
}

/** Rejects limits that no machine can set. */
export function validateLimit(name: keyof RunLimits, value: number): number {
  checkLimits({ [name]: value });
  return value;
}

/** `memory 64 MiB, 100 pids, 1.5 cpus`; null: none. */
export function limitsText({ memoryBytes, pids, cpus }: RunLimits): string | null {
  const parts = [
    memoryBytes === null ? null : `memory ${formatSize(memoryBytes)}`,
    pids === null ? null : `${pids} pids`,
    cpus === null ? null : `${cpus} cpus`,
  ].filter((part) => part !== null);
  return parts.length === 0 ? null : parts.join(", ");
}

/** As for containers. A name must not look like a run id, which would be resolved first. */
const NAME = /^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$/;
const RUN_ID = /^(?:run_.*|[0-9a-z]{12})$/;

export function parseRunName(text: string): string {
  if (!NAME.test(text))
    throw new InvalidArgumentError(
      "Write up to 63 letters, digits, _ . or -, beginning with a letter or digit.",
    );
  if (RUN_ID.test(text)) throw new InvalidArgumentError("It looks like a run id.");
  return text;
}

export function parseTcpPort(text: string): number {
  const port = /^\d{1,5}$/.test(text) ? Number(text) : 0;
  if (port < 1 || port > 65_535) throw new InvalidArgumentError("Write a TCP port from 1 to 65535.");
  return port;
}
