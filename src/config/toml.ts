import { parse, stringify, TomlError } from "smol-toml";
import { BadConfig } from "../store/bad-config.js";

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
