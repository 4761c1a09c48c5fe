import type { ResponseOf } from "../../api/contract.js";
import { environmentOutsideRuns } from "../../gateway/start.js";
import { sanitizeLine } from "../../text/sanitize.js";
import { truncateStart } from "../../text/truncate.js";
import { connectOrStart } from "../client/connect.js";
import { tryConnectForReading } from "../client/read-client.js";
import { sessionToken } from "../client/requester.js";
import { exitCodes } from "../print/exit-code.js";
import { paletteFor } from "../print/palette.js";
import { notice } from "../print/stderr.js";
import { print, toJson } from "../print/stdout.js";
import { formatTable, terminalWidth } from "../print/table.js";

type ListedAgent = ResponseOf<"listAgents">["agents"][number];

/** The limit of a query parameter; the rest of PATH is not searched. */
const PATH_CHARS = 8_192;

export async function printAgents(json: boolean): Promise<number> {
  const path = (process.env["PATH"] ?? "").slice(0, PATH_CHARS);
  const running = await tryConnectForReading();
  const { agents } = await (running?.client.listAgents({ query: sessionToken() === null ? { path } : {} }) ??
    configuredAgents(path));
  if (json) print(toJson(agents, 2));
  else print(`${agentTable(agents, terminalWidth()).join("\n")}\n`);
  return 0;
}

/** The catalogue that the next gateway would use. */
async function configuredAgents(path: string): Promise<ResponseOf<"listAgents">> {
  const [{ readSettings }, { agentsById: agentsOf, agentsFromConfig: ownAgents }, listing] =
    await Promise.all([
      import("../../config/settings.js"),
      import("../../agents/catalogue.js"),
      import("../../queries/agents.js"),
    ]);
  const own = ownAgents((await readSettings()).config.agents);
  return listing.describeAgents({ all: agentsOf(own), own: new Set(own.map(({ id }) => id)) }, path);
}

/** `width`: that of the terminal; null: stdout is no terminal. */
export function agentTable(agents: readonly ListedAgent[], width: number | null): string[] {
  const rows = agents.map(({ id, name, from, acp, cli, install }) => [
    id,
    from,
    executablePath(acp, width !== null),
    executablePath(cli, width !== null),
    sanitizeLine(isInstalled(acp) || isInstalled(cli) ? name : (install ?? name)),
  ]);
  const [head, ...rest] = formatTable(
    ["AGENT", "FROM", "ACP", "ONE-SHOT", "NAME, OR HOW TO GET IT"],
    rows,
    width,
  );
  return [paletteFor(1).bold(head ?? ""), ...rest];
}

function isInstalled(form: { readonly executable: string | null } | null): boolean {
  return form !== null && form.executable !== null;
}

/** Characters of a path on a terminal: its end is shown. */
const PATH_COLUMNS = 24;

function executablePath(form: { readonly executable: string | null } | null, short: boolean): string {
  const path = form === null ? "-" : sanitizeLine(form.executable ?? "not found");
  return short ? truncateStart(path, PATH_COLUMNS) : path;
}

type AgentCheck = ResponseOf<"checkAgent">;

/** Checks the named agents, or all installed ones. 3: a command does not work. */
export async function checkAgents(names: readonly string[], json: boolean): Promise<number> {
  const { client } = await connectOrStart();
  const environment = environmentOutsideRuns();
  const checked: AgentCheck[] = [];
  for (const id of names.length > 0 ? names : await found()) {
    const answer = await client.checkAgent({
      params: { id },
      body: sessionToken() === null ? { environment } : {},
    });
    checked.push(names.length > 0 ? answer : { ...answer, checks: answer.checks.filter(hasExecutable) });
  }
  if (json) print(toJson(checked, 2));
  else if (checked.length === 0)
    notice("no agent is there; `holdfast agents list` says how to get one", "dim");
  else print(`${checkTable(checked, terminalWidth()).join("\n")}\n`);
  const well = checked.every(({ checks }) => checks.every(({ failure }) => failure === null));
  return well ? 0 : exitCodes.incomplete;

  async function found(): Promise<string[]> {
    const path = (environment["PATH"] ?? "").slice(0, 8_192);
    const { agents } = await client.listAgents({ query: sessionToken() === null ? { path } : {} });
    return agents
      .filter(({ acp, cli }) => (acp?.executable ?? cli?.executable ?? null) !== null)
      .map(({ id }) => id);
  }
}

function hasExecutable({ executable }: AgentCheck["checks"][number]): boolean {
  return executable !== null;
}

function checkTable(checked: readonly AgentCheck[], width: number | null): string[] {
  const rows = checked.flatMap(({ agent: { id }, checks }) =>
    checks.map(({ forms, executable, version, failure }) => [
      id,
      forms.join(", "),
      sanitizeLine(version ?? "-"),
      failure ?? "works",
      sanitizeLine(executable ?? "-"),
    ]),
  );
  const [head, ...rest] = formatTable(["AGENT", "FOR", "VERSION", "CHECK", "PROGRAM"], rows, width);
  return [paletteFor(1).bold(head ?? ""), ...rest];
}
