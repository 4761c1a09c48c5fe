import { parse, stringify, TomlError } from "smol-toml";
import { BadConfig } from "./config-problems.js";

export function parseToml(text: string, path: string): Record<string, unknown> {
  try {
    return parse(text);
  } catch (error) {
    const line = error instanceof TomlError ? error.line : null;
    const message = error instanceof TomlError ? (error.message.split("\n", 1)[0] ?? "") : String(error);
    throw new BadConfig(
      [{ line, key: "", message }],
      `${path} is not valid TOML, ${line === null ? "" : `line ${line}: `}${message}; nothing was changed`,
    );
  }
}

export function stringifyToml(table: Readonly<Record<string, unknown>>): string {
  return `${stringify(table)}\n`;
}

/** The line of a setting, or else of its table, in a TOML file; null: unknown. */
export function lineOfSetting(text: string, path: readonly PropertyKey[]): number | null {
  const wanted = path.map(String);
  const seen = new Map<string, number>();
  let table: readonly string[] = [];
  let best: { readonly line: number; readonly depth: number } | null = null;
  const meets = (found: readonly string[], line: number): void => {
    const leads = found.length <= wanted.length && found.every((part, at) => part === wanted[at]);
    if (leads && found.length > (best?.depth ?? 0)) best = { line, depth: found.length };
  };
  for (const [at, line] of text.split("\n").entries()) {
    const [, double, header] = /^\s*\[(\[)?\s*([\w.\s"-]+?)\s*\]/.exec(line) ?? [];
    const [, key] = /^\s*"?([\w-]+)"?\s*(?:\.|=)/.exec(line) ?? [];
    if (header !== undefined) {
      table = header.split(".").map((part) => part.trim().replaceAll('"', ""));
      if (double !== undefined) {
        const count = seen.get(header) ?? 0;
        seen.set(header, count + 1);
        table = [...table, String(count)];
      }
      meets(table, at + 1);
    } else if (key !== undefined) meets([...table, key], at + 1);
  }
  return (best as { readonly line: number } | null)?.line ?? null;
}
