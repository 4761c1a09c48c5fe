import { mkdir, writeFile } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { BadInput } from "../../errors.js";
import { CLI_MAIN } from "../../gateway/start.js";
import { resolveHome } from "../../home/state-directory.js";
import { notice } from "../print/stderr.js";
import { assertOperator } from "../client/connect.js";
import { toJson } from "../json.js";
import { print } from "../print/stdout.js";
import { unitDatabase } from "./given-database.js";
import { systemdUnit } from "./unit.js";

/** Write the unit that keeps a gateway running, or only show it. Nothing is started: that is the user's word. */
export async function installService(onlyPrint: boolean, json: boolean): Promise<number> {
  // The unit starts a gateway at every login: the gateway outlives each session and has none of a session's limits.
  assertOperator("install a service");
  if (process.platform !== "linux")
    throw new BadInput("platform", `there is no service for ${process.platform} yet; nothing was written`);
  const home = resolveHome();
  const database = unitDatabase(process.env, home);
  const environment = { HOLDFAST_HOME: home, ...unitConfig(process.env), ...database.environment };
  const unit = systemdUnit({ node: process.execPath, main: CLI_MAIN, environment });
  const path = unitPath(process.env);
  const told = (written: boolean): void =>
    print(toJson({ path, written, unit, databaseFile: database.file }));
  if (onlyPrint) {
    if (json) told(false);
    else print(unit);
    return 0;
  }
  await database.save();
  await mkdir(dirname(path), { recursive: true });
  await writeFile(path, unit, { mode: 0o644 });
  if (json) {
    told(true);
    return 0;
  }
  print(`wrote ${path}\n`);
  if (database.file !== null)
    notice(
      `the database's address is in ${database.file}, for you alone; for commands, too: database.url-file = ${JSON.stringify(database.file)} in the config file`,
      "dim",
    );
  notice("start it: systemctl --user daemon-reload && systemctl --user enable --now holdfast", "dim");
  notice("a user's services end with the last login unless lingering is on: loginctl enable-linger", "dim");
  return 0;
}

export function unitPath(env: Readonly<Record<string, string | undefined>>): string {
  const config = env["XDG_CONFIG_HOME"] || join(env["HOME"] ?? "", ".config");
  return join(config, "systemd", "user", "holdfast.service");
}

function unitConfig(env: Readonly<Record<string, string | undefined>>): Record<string, string> {
  const path = env["HOLDFAST_CONFIG"] ?? "";
  return path === "" ? {} : { HOLDFAST_CONFIG: resolve(path) };
}
