import { execFile } from "node:child_process";
import { mkdir, rm, writeFile } from "node:fs/promises";
import { dirname, resolve } from "node:path";
import { setTimeout } from "node:timers/promises";
import { promisify } from "node:util";
import { defaults } from "../../defaults.js";
import { BadInput, StateUnusable } from "../../errors.js";
import { CLI_MAIN } from "../../gateway/start-in-background.js";
import { errnoCode, errorMessage } from "../../home/errno.js";
import { resolveHome } from "../../home/state-directory.js";
import { assertOperator } from "../client/connect.js";
import type { JsonFlag } from "../options/command-definition.js";
import { notice } from "../print/errors-and-notices.js";
import { print, toJson } from "../print/write-output.js";
import { unitDatabase } from "./gateway-service.js";
import { type ServiceManager, serviceManager } from "./service-manager.js";

/** Describes the gateway to the service manager of this system, or prints the description. */
export async function installService({
  print: onlyPrint = false,
  json = false,
}: JsonFlag & { readonly print?: boolean }): Promise<number> {
  // A unit outlives every session, and has none of a session's limits.
  assertOperator("install a service");
  const home = resolveHome();
  const manager = requireManager(home, "nothing was written");
  const database = unitDatabase(process.env, home);
  const environment = { HOLDFAST_HOME: home, ...unitConfig(process.env), ...database.environment };
  const unit = manager.describe({ node: process.execPath, main: CLI_MAIN, environment });
  const { path } = manager;
  if (!onlyPrint) {
    await database.save();
    await mkdir(dirname(path), { recursive: true });
    await writeFile(path, manager.encoding === "utf8" ? unit : `\ufeff${unit}`, {
      encoding: manager.encoding,
      mode: 0o644,
    });
    await runAll(
      manager.register,
      `${path} was written, but the service was not registered`,
      manager.isThere,
    );
  }
  if (json) print(toJson({ path, written: !onlyPrint, unit, databaseFile: database.file }));
  else if (onlyPrint) print(unit);
  if (json || onlyPrint) return 0;
  print(`wrote ${path}\n`);
  if (database.file !== null)
    notice(
      `the database URL is in ${database.file}, readable only by you; to use it for commands too, set database.url-file = ${JSON.stringify(database.file)} in the config file`,
      "dim",
    );
  for (const hint of manager.installed) notice(hint, "dim");
  return 0;
}

/** Removes what `installService` has written. Runs are not touched. */
export async function uninstallService({ json = false }: JsonFlag): Promise<number> {
  assertOperator("remove a service");
  const manager = requireManager(resolveHome(), "nothing was removed");
  const { path } = manager;
  // The service may not be registered any more.
  const problem = await runAll(manager.unregister, "the service may still be registered").then(
    () => null,
    errorMessage,
  );
  for (const link of manager.links) await rm(link, { force: true });
  const removed = await rm(path).then(
    () => true,
    (error: unknown) => {
      if (errnoCode(error) === "ENOENT") return false;
      throw error;
    },
  );
  if (json) print(toJson({ path, removed, problem }));
  else if (removed) print(`removed ${path}\n`);
  else notice(`no service is installed: there is no ${path}`, "dim");
  if (removed && !json)
    for (const hint of problem === null ? manager.removed : [problem]) notice(hint, "dim");
  return 0;
}

function requireManager(home: string, consequence: string): ServiceManager {
  const manager = serviceManager(process.platform, process.env, home);
  if (manager !== null) return manager;
  throw new BadInput("platform", `there is no service for ${process.platform}; ${consequence}`);
}

const run = promisify(execFile);

/** Runs commands in order. Only a failure of the last one is thrown; before it, waits until the command `isThere` fails. */
async function runAll(
  commands: readonly (readonly string[])[],
  otherwise: string,
  isThere: readonly string[] = [],
): Promise<void> {
  for (const [at, [program = "", ...args]] of commands.entries())
    try {
      if (at === commands.length - 1 && isThere.length > 0) await waitUntilGone(isThere);
      await run(program, args, { windowsHide: true, timeout: defaults.serviceManagerMs });
    } catch (error) {
      if (at < commands.length - 1) continue;
      const { stderr = "" } = error as { readonly stderr?: string };
      const why = stderr.trim() || (error as Error).message;
      throw new StateUnusable(program, `${otherwise}: ${[program, ...args].join(" ")}: ${why}`, {
        cause: error,
      });
    }
}

/** Resolves when the command fails, or the time is over. */
async function waitUntilGone([program = "", ...args]: readonly string[]): Promise<void> {
  const until = performance.now() + defaults.serviceManagerMs;
  while (performance.now() < until) {
    const there = await run(program, args, { timeout: defaults.serviceManagerMs }).then(
      () => true,
      () => false,
    );
    if (!there) return;
    await setTimeout(defaults.serviceGonePollMs);
  }
}

function unitConfig(env: Readonly<Record<string, string | undefined>>): Record<string, string> {
  const path = env["HOLDFAST_CONFIG"] ?? "";
  return path === "" ? {} : { HOLDFAST_CONFIG: resolve(path) };
}
