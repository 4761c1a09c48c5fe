import { describeChannels } from "../../channels/check-channel.js";
import { configPath } from "../../config/file.js";
import { BadConfig } from "../../config/parse.js";
import type { Config } from "../../config/schema.js";
import { readSettings, type Setting } from "../../config/settings.js";
import { BadInput } from "../../errors.js";
import { sanitizeLine } from "../../text/sanitize.js";
import { print, toJson } from "../print/stdout.js";
import { formatTable, terminalWidth } from "../print/table.js";
import { paletteFor } from "../print/terminal.js";

/** A mistake is a usage error; with `--json` the problems are listed. */
export async function checkConfigFile(json: boolean): Promise<number> {
  const {
    path,
    config,
    entries: each,
  } = await readSettings().catch((error: unknown) => {
    if (json && error instanceof BadInput) printProblems(error);
    throw error;
  });
  const said = each.filter(({ from }) => from !== "default").map(({ key }) => key);
  if (json) print(toJson({ path, usable: true, set: said }));
  else {
    const profiles = config.foreign.map(({ name }) => name).join(", ") || "none";
    print(`${path} can be used; it sets ${said.join(", ") || "nothing"}; foreign profiles: ${profiles}\n`);
  }
  return 0;
}

function printProblems(error: BadInput): void {
  const problems =
    error instanceof BadConfig ? error.problems : [{ line: null, key: "", message: error.message }];
  print(toJson({ path: configPath(), usable: false, problems }));
}

export async function showConfigFile(json: boolean): Promise<number> {
  const { path, config, entries: each } = await readSettings();
  if (json) {
    const shown = { agents: withoutSecrets(config.agents), channels: describeChannels(config.channels) };
    print(toJson({ path, ...config, ...shown, settings: each }, 2));
  } else {
    const [head, ...lines] = formatTable(["SETTING", "FROM", "VALUE"], each.map(settingRow), terminalWidth());
    print(`${[path, paletteFor(1).bold(head ?? ""), ...lines].map((line) => line.trimEnd()).join("\n")}\n`);
  }
  return 0;
}

/** Their values may be secrets. */
function withoutSecrets(agents: Config["agents"]): object {
  return Object.fromEntries(
    Object.entries(agents).map(([id, { env, ...fields }]) => [id, { ...fields, env: Object.keys(env) }]),
  );
}

function settingRow({ key, value, from, variable }: Setting): string[] {
  const source = from === "environment" ? (variable ?? from) : from;
  return [
    key,
    source,
    sanitizeLine(typeof value === "string" ? value : value === null ? "-" : JSON.stringify(value)),
  ];
}
