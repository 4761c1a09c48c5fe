import { readFileSync } from "node:fs";
import { InvalidArgumentError } from "commander";
import { BadInput } from "../../errors.js";

/** `-e KEY=value`, or `-e KEY` for the value that the variable has here. The last value of a name wins. */
export function collectVariable(
  text: string,
  before: Readonly<Record<string, string>> = {},
): Record<string, string> {
  const variable = parseVariable(text);
  if (variable === null) throw new InvalidArgumentError("Write NAME=value, or NAME.");
  return { ...before, ...variable };
}

/** A line of `NAME=value` or `NAME`; null: it is neither. A name that is not set here sets nothing. */
function parseVariable(text: string): Record<string, string> | null {
  const equals = text.indexOf("=");
  if (equals === 0 || text === "") return null;
  if (equals > 0) return { [text.slice(0, equals)]: text.slice(equals + 1) };
  const value = process.env[text];
  return value === undefined ? {} : { [text]: value };
}

/** The variables of files in the format of `docker run --env-file`: one per line, `#` begins a comment line. */
export function readEnvironmentFiles(paths: readonly string[]): Record<string, string> {
  let variables: Record<string, string> = {};
  for (const path of paths) {
    for (const [at, line] of readText(path).split(/\r?\n/).entries()) {
      const text = line.trimStart();
      if (text === "" || text.startsWith("#")) continue;
      const variable = /\s/.test(text.split("=", 1)[0] ?? "") ? null : parseVariable(text);
      if (variable === null)
        throw new BadInput("env-file", `${path}:${at + 1}: not NAME=value; nothing was started`);
      variables = { ...variables, ...variable };
    }
  }
  return variables;
}

function readText(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch (error) {
    throw new BadInput("env-file", `cannot read ${path}: ${(error as Error).message}; nothing was started`);
  }
}
