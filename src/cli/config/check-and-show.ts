import { describeChannels } from "../../channels/check-channel.js";
import { configPath } from "../../config/file.js";
import { BadConfig } from "../../config/config-problems.js";
import type { Config } from "../../config/schema.js";
import { readSettings, type Setting } from "../../config/resolve-settings.js";
import { BadInput } from "../../errors.js";
import type { JsonFlag } from "../options/command-definition.js";
import { print, toJson } from "../print/write-output.js";
import { printTable } from "../print/table.js";

/** A mistake is a usage error; with `--json` the problems are listed. */
export async function checkConfigFile({ json = false }: JsonFlag): Promise<number> {
  const { path, config, entries } = await readSettings().catch((error: unknown) => {
    if (json && error instanceof BadInput) printProblems(error);
    throw error;
  });
  const set = entries.filter(({ from }) => from !== "default").map(({ key }) => key);
  if (json) print(toJson({ path, usable: true, set }));
  else {
    const profiles = config.foreign.map(({ name }) => name).join(", ") || "none";
    print(`${path} can be used; it sets ${set.join(", ") || "nothing"}; foreign profiles: ${profiles}\n`);
  }
  return 0;
}

function printProblems(error: BadInput): void {
  const problems =
    error instanceof BadConfig ? error.problems : [{ line: null, key: "", message: error.message }];
  print(toJson({ path: configPath(), usable: false, problems }));
}

export async function showConfigFile({ json = false }: JsonFlag): Promise<number> {
  const { path, config, entries } = await readSettings();
  if (json) {
    const shown = { agents: withoutSecrets(config.agents), channels: describeChannels(config.channels) };
    print(toJson({ path, ...config, ...shown, settings: entries }, 2));
  } else {
    print(`${path}\n`);
    printTable(["SETTING", "FROM", "VALUE"], entries.map(settingRow));
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
  return [key, source, typeof value === "string" ? value : value === null ? "-" : JSON.stringify(value)];
}
