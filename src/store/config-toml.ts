import { parse, TomlError } from "smol-toml";
import { BadInput } from "../errors.js";

export function parseToml(text: string, path: string): Record<string, unknown> {
  try {
    return parse(text);
  } catch (error) {
    const why =
      error instanceof TomlError ? `line ${error.line}: ${error.message.split("\n", 1)[0]}` : String(error);
    throw new BadInput("config", `${path} is not valid TOML, ${why}; nothing was changed`);
  }
}
