import { mkdir, writeFile } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { BadInput } from "../../errors.js";
import { MAIN } from "../../gateway/start.js";
import { resolveHome } from "../../store/state-directory.js";
import { say } from "../complain.js";
import { mustBeOperator } from "../gateway/connect.js";
import { toJson } from "../json.js";
import { print } from "../runs/print.js";
import { givenDatabase } from "./given-database.js";
import { systemdUnit } from "./unit.js";

/** Write the unit that keeps a gateway running, or only show it. Nothing is started: that is the user's word. */
export async function installService(onlyPrint: boolean, json: boolean): Promise<number> {
  // The unit starts a gateway at every login: the gateway outlives each session and has none of a session's limits.
  mustBeOperator("install a service");
  if (process.platform !== "linux")
    throw new BadInput("platform", `there is no service for ${process.platform} yet; nothing was written`);
  const home = resolveHome();
  const database = givenDatabase(process.env, home);
  const environment = { HOLDFAST_HOME: home, ...givenConfig(process.env), ...database.environment };
  const unit = systemdUnit({ node: process.execPath, main: MAIN, environment });
  const path = unitPath(process.env);
  const told = (written: boolean): void =>
    print(toJson({ path, written, unit, databaseFile: database.file }));
  if (onlyPrint) {
    if (json) told(false);
    else print(unit);
    return 0;
  }
  await database.keep();
  await mkdir(dirname(path), { recursive: true });
  await writeFile(path, unit, { mode: 0o644 });
  if (json) {
    told(true);
    return 0;
  }
  print(`wrote ${path}\n`);
  if (database.file !== null)
    say(
      `the database's address is in ${database.file}, for you alone; for commands, too: database.url-file = ${JSON.stringify(database.file)} in the config file`,
      "dim",
    );
  say("start it: systemctl --user daemon-reload && systemctl --user enable --now holdfast", "dim");
  say("a user's services end with the last login unless lingering is on: loginctl enable-linger", "dim");
  return 0;
}

export function unitPath(env: Readonly<Record<string, string | undefined>>): string {
  const config = env["XDG_CONFIG_HOME"] || join(env["HOME"] ?? "", ".config");
  return join(config, "systemd", "user", "holdfast.service");
}

function givenConfig(env: Readonly<Record<string, string | undefined>>): Record<string, string> {
  const path = env["HOLDFAST_CONFIG"] ?? "";
  return path === "" ? {} : { HOLDFAST_CONFIG: resolve(path) };
}
