import { mkdir, writeFile } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { postgresUrlProblem } from "../../config/postgres-url.js";
import { BadInput } from "../../errors.js";
import { CLI_MAIN } from "../../gateway/start.js";
import { writeOwnFile } from "../../home/own-file.js";
import { renameFile } from "../../home/rename-file.js";
import { resolveHome } from "../../home/state-directory.js";
import { openStateDirectory } from "../../store/open.js";
import { assertOperator, connectOrStart } from "../client/connect.js";
import { resolveRunId } from "../client/resolve-run.js";
import type { JsonFlag } from "../options/parsers.js";
import { notice } from "../print/stderr.js";
import { print, toJson } from "../print/stdout.js";

interface AdoptFlags extends JsonFlag {
  readonly keepTimeouts?: boolean;
}

/** A number is a process id; anything else names a run. */
export function adoptService(wanted: string, flags: AdoptFlags): Promise<number> {
  return /^\d+$/.test(wanted) ? adoptProcess(wanted, flags) : convertRunToService(wanted, flags);
}

async function convertRunToService(
  wanted: string,
  { keepTimeouts = false, json = false }: AdoptFlags,
): Promise<number> {
  const connection = await connectOrStart();
  const runId = await resolveRunId(connection, wanted);
  const record = await connection.client.adoptRun({
    params: { runId },
    body: { keepTimeouts },
  });
  print(json ? toJson(record) : `${record.runId}\n`);
  if (!json) notice(`it is a service now; \`holdfast service stop ${record.runId}\` stops it`, "dim");
  return 0;
}

async function adoptProcess(
  wanted: string,
  { keepTimeouts = false, json = false }: AdoptFlags,
): Promise<number> {
  if (keepTimeouts)
    throw new BadInput("option", "a process has no timeouts of its own to keep; nothing was changed");
  assertOperator("take a process out of its run");
  const { client } = await connectOrStart();
  const answer = await client.adoptProcess({ params: { pid: wanted } });
  print(json ? toJson(answer) : `${answer.run.runId}\n`);
  for (const warning of answer.warnings) notice(warning, "yellow");
  if (!json) notice(`process ${wanted} and its descendants left ${answer.from} and are a service now`, "dim");
  return 0;
}

/**
 * `Delegate` gives each run its own cgroup; `DelegateSubgroup` keeps the unit's own cgroup without processes, so that
 * it can enable controllers for limits (an older systemd ignores it). `KillMode=process` and `OOMPolicy=continue`
 * leave the runs to their anchors when the gateway is stopped, restarted, or killed for lack of memory.
 */
export function systemdUnit({
  node,
  main,
  environment,
}: {
  readonly node: string;
  readonly main: string;
  /** Readable by other users: no secrets. */
  readonly environment: Readonly<Record<string, string>>;
}): string {
  const variables = Object.entries(environment).map(
    ([name, value]) => `Environment=${quoteForSystemd(`${name}=${value}`)}`,
  );
  return `[Unit]
Description=Holdfast gateway
StartLimitIntervalSec=60
StartLimitBurst=10

[Service]
Type=exec
ExecStart=${quoteForSystemd(node)} ${quoteForSystemd(main)} gateway run --quiet
${variables.join("\n")}
Restart=on-failure
RestartSec=1
Delegate=yes
DelegateSubgroup=holdfast-gateway
KillMode=process
OOMPolicy=continue
TimeoutStopSec=30

[Install]
WantedBy=default.target
`;
}

/** systemd.syntax(7): C-style quotes; `%` begins a specifier, `$` a variable. */
function quoteForSystemd(word: string): string {
  const safe = word
    .replaceAll("\\", "\\\\")
    .replaceAll('"', '\\"')
    .replaceAll("%", "%%")
    .replaceAll("$", "$$$$");
  return `"${safe}"`;
}

/** The database of the environment, for a unit that does not have that environment and that other users can read. */
interface UnitDatabase {
  readonly environment: Readonly<Record<string, string>>;
  /** The file for its URL; null: it is in a file already, or there is none. */
  readonly file: string | null;
  save(): Promise<void>;
}

/** The gateway reads the config file itself. */
function unitDatabase(env: Readonly<Record<string, string | undefined>>, home: string): UnitDatabase {
  const variable = "HOLDFAST_DATABASE_URL_FILE";
  const url = env["HOLDFAST_DATABASE_URL"] ?? "";
  const named = env[variable] ?? "";
  if (url === "") {
    const environment = named === "" ? {} : { [variable]: resolve(named) };
    return { environment, file: null, save: async () => {} };
  }
  const problem = postgresUrlProblem(url);
  if (problem !== null)
    throw new BadInput(
      "HOLDFAST_DATABASE_URL",
      `the database URL in HOLDFAST_DATABASE_URL ${problem}; nothing was written`,
    );
  const file = join(home, "database-url");
  return {
    environment: { [variable]: file },
    file,
    async save() {
      await openStateDirectory(home);
      const draft = `${file}.new`;
      writeOwnFile(draft, `${url}\n`);
      await renameFile(draft, file);
    },
  };
}

/** Writes the unit, or prints it. Starts nothing: the user decides that. */
export async function installService({
  print: onlyPrint = false,
  json = false,
}: JsonFlag & { readonly print?: boolean }): Promise<number> {
  // A unit outlives every session, and has none of a session's limits.
  assertOperator("install a service");
  if (process.platform !== "linux")
    throw new BadInput("platform", `there is no service for ${process.platform} yet; nothing was written`);
  const home = resolveHome();
  const database = unitDatabase(process.env, home);
  const environment = { HOLDFAST_HOME: home, ...unitConfig(process.env), ...database.environment };
  const unit = systemdUnit({ node: process.execPath, main: CLI_MAIN, environment });
  const path = unitPath(process.env);
  if (!onlyPrint) {
    await database.save();
    await mkdir(dirname(path), { recursive: true });
    await writeFile(path, unit, { mode: 0o644 });
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
  notice("start it: systemctl --user daemon-reload && systemctl --user enable --now holdfast", "dim");
  notice("a user's services end with the last login unless lingering is on: loginctl enable-linger", "dim");
  return 0;
}

function unitPath(env: Readonly<Record<string, string | undefined>>): string {
  const config = env["XDG_CONFIG_HOME"] || join(env["HOME"] ?? "", ".config");
  return join(config, "systemd", "user", "holdfast.service");
}

function unitConfig(env: Readonly<Record<string, string | undefined>>): Record<string, string> {
  const path = env["HOLDFAST_CONFIG"] ?? "";
  return path === "" ? {} : { HOLDFAST_CONFIG: resolve(path) };
}
