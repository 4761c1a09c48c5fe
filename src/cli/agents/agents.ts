import { CliOutputStream } from "../../agents/cli-output.js";
import type { GatewayClient } from "../../api/client.js";
import type { RequestOf, ResponseOf } from "../../api/contract.js";
import type { CliOutput } from "../../config/agents.js";
import { defaults } from "../../defaults.js";
import { environmentOutsideRuns } from "../../gateway/start.js";
import type { SpawnOptions } from "../../supervisor/api.js";
import { sanitizeLine, sanitizeText } from "../../text/sanitize.js";
import { truncateStart } from "../../text/truncate.js";
import { connectOrStart } from "../client/connect.js";
import { warnIfNobodyNotified } from "../client/notify-options.js";
import { tryConnectForReading } from "../client/read-client.js";
import { sessionToken } from "../client/requester.js";
import { exitCodes } from "../print/exit-code.js";
import { notice } from "../print/stderr.js";
import { print, printRequired, toJson } from "../print/stdout.js";
import { formatTable, terminalWidth } from "../print/table.js";
import { paletteFor } from "../print/terminal.js";
import { execRequestBody, startExitCode } from "../run/exec.js";
import { openGatewayRunner, type RequestRun } from "../run/foreground-runner.js";
import { type OutputView, runInForeground } from "../run/foreground.js";

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

export interface RunAgentRequest {
  readonly agent: string;
  readonly prompt: string;
  readonly resume: string | null;
  readonly options: Pick<SpawnOptions, "cwd" | "umask" | "labels" | "timeoutMs" | "graceMs" | "clearEnv">;
  readonly json: boolean;
}

type AgentBody = RequestOf<"runAgent">["body"];

/** Starts an agent in the background and prints the run id. */
export async function runAgentDetached(
  request: RunAgentRequest,
  tell: Pick<AgentBody, "notify" | "origin">,
): Promise<number> {
  const { client } = await connectOrStart();
  const body = agentBody(request, execRequestBody(displayedCommand(request), request.options));
  const answer = await client.runAgent({
    params: { id: request.agent },
    body: { ...body, ...tell, background: true },
  });
  const { run, session } = answer;
  printRequired(
    request.json ? toJson({ run, session }) : `${run.runId}\n`,
    `${run.runId} was started in session ${session.id}, but its id could not be written`,
  );
  if (!request.json) notice(`its answer will be in session ${session.id}`, "dim");
  await warnIfNobodyNotified(client, run.runId, tell);
  return startExitCode(answer);
}

/** Shows the agent's output while it works. Returns the exit code. */
export async function runAgentInForeground(request: RunAgentRequest): Promise<number> {
  const { options, json } = request;
  return runInForeground({
    inProcess: false,
    input: displayedCommand(request),
    options: { ...options, stdout: { boundBytes: defaults.agentSpoolBytes } },
    json,
    view: agentOutputView(request),
  });
}

function agentOutputView(request: RunAgentRequest): OutputView {
  const errors = new TextDecoder();
  let stream: CliOutputStream | null = null;
  let asked: GatewayClient | null = null;
  let spoke = false;
  const requestRun: RequestRun = async (client, common, its) => {
    stream = new CliOutputStream(await agentOutputFormat(client, request.agent));
    const body = { ...agentBody(request, common), ...its };
    const answer = await client.runAgent({ params: { id: request.agent }, body });
    asked = client;
    return answer;
  };
  return {
    open: (told) => openGatewayRunner(told, requestRun),
    stdout: (bytes) => {
      const text = sanitizeText(stream?.push(bytes) ?? "");
      spoke ||= text.trim() !== "";
      return text;
    },
    stderr: (bytes) => sanitizeText(errors.decode(bytes, { stream: true })),
    finish: async (run) => {
      const client = asked ?? (await connectOrStart()).client;
      const { session, result } = await client.agentResult({ params: { runId: run.runId } });
      if (request.json) return { stdout: toJson({ run, session, result }), complaint: result?.error ?? null };
      const { text = "", error = null } = result ?? {};
      // Some agents print their answer only at the end.
      return { stdout: !spoke && text !== "" ? `${sanitizeText(text)}\n` : "", complaint: error };
    },
  };
}

async function agentOutputFormat(client: GatewayClient, agent: string): Promise<CliOutput> {
  const { agents } = await client.listAgents();
  return (agents.find(({ id }) => id === agent)?.cli?.output ?? "text") as CliOutput;
}

/** The command for display: the gateway builds the real one. */
function displayedCommand({ agent }: RunAgentRequest): {
  readonly io: "pipe";
  readonly argv: readonly string[];
} {
  return { io: "pipe", argv: [agent] };
}

function agentBody(
  { prompt, resume, options: { clearEnv } }: RunAgentRequest,
  { environment, cwd, umask, labels, timeoutMs, graceMs }: RequestOf<"exec">["body"],
): AgentBody {
  return {
    prompt,
    ...(resume === null ? {} : { resume }),
    ...(clearEnv === true ? {} : { environment }),
    cwd,
    umask,
    labels,
    timeoutMs,
    graceMs,
    maxChars: 0,
  };
}
