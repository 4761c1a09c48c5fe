import { text } from "node:stream/consumers";
import { CliOutputStream } from "../../agents/one-shot-output.js";
import type { GatewayClient } from "../../api/client.js";
import type { RequestOf, ResponseOf } from "../../api/contract.js";
import type { CliOutput } from "../../config/agents.js";
import { defaults } from "../../defaults.js";
import { BadInput } from "../../errors.js";
import { environmentOutsideRuns } from "../../gateway/start-in-background.js";
import type { SpawnOptions } from "../../supervisor/api.js";
import { sanitizeText } from "../../text/sanitize.js";
import { truncateStart } from "../../text/truncate.js";
import { connectOrStart } from "../client/connect.js";
import {
  channellessOption,
  misplacedNotifyOption,
  notifyBody,
  type NotifyFlags,
  targetlessNotifyOption,
  warnIfNobodyNotified,
} from "../client/notify-options.js";
import { tryConnectForReading } from "../client/read-client.js";
import { sessionToken } from "../client/requester.js";
import type { JsonFlag } from "../options/command-definition.js";
import { type DetachFlags, isDetached } from "../options/parsers.js";
import { exitCodes } from "../print/exit-code.js";
import { notice } from "../print/errors-and-notices.js";
import { print, printRequired, toJson } from "../print/write-output.js";
import { printTable, terminalWidth } from "../print/table.js";
import { execRequestBody, startExitCode } from "../run/detached.js";
import { openGatewayRunner, type RequestRun } from "../run/foreground-runner.js";
import { currentUmask } from "../run/command.js";
import { type OutputView, runInForeground } from "../run/run-in-foreground.js";

type ListedAgent = ResponseOf<"listAgents">["agents"][number];

/** The limit of a query parameter; the rest of PATH is not searched. */
const PATH_CHARS = 8_192;

function searchPath(): string {
  return (process.env["PATH"] ?? "").slice(0, PATH_CHARS);
}

/** A session's programs are found in the gateway's PATH. */
export function listAgents(client: GatewayClient): Promise<ResponseOf<"listAgents">> {
  return client.listAgents({ query: sessionToken() === null ? { path: searchPath() } : {} });
}

async function installedAgents(client: GatewayClient): Promise<string[]> {
  const { agents } = await listAgents(client);
  return agents.filter(({ acp, cli }) => isInstalled(acp) || isInstalled(cli)).map(({ id }) => id);
}

export async function printAgents({ json = false }: JsonFlag): Promise<number> {
  const running = await tryConnectForReading();
  const { agents } = await (running === null ? configuredAgents(searchPath()) : listAgents(running.client));
  if (json) print(toJson(agents, 2));
  else
    printTable(
      COLUMNS,
      agents.map((each) => agentRow(each, terminalWidth() !== null)),
    );
  return 0;
}

/** The catalogue that the next gateway would use. */
async function configuredAgents(path: string): Promise<ResponseOf<"listAgents">> {
  const [{ readSettings }, { agentsById, agentsFromConfig }, { describeAgents }] = await Promise.all([
    import("../../config/resolve-settings.js"),
    import("../../agents/catalogue.js"),
    import("../../queries/agents.js"),
  ]);
  const own = agentsFromConfig((await readSettings()).config.agents);
  return describeAgents({ all: agentsById(own), own: new Set(own.map(({ id }) => id)) }, path);
}

const COLUMNS = ["AGENT", "FROM", "ACP", "ONE-SHOT", "NAME, OR HOW TO INSTALL"];

/** `short`: only the ends of long paths are shown. */
export function agentRow({ id, name, from, acp, cli, install }: ListedAgent, short: boolean): string[] {
  const title = isInstalled(acp) || isInstalled(cli) ? name : (install ?? name);
  return [id, from, executablePath(acp, short), executablePath(cli, short), title];
}

function isInstalled(form: { readonly executable: string | null } | null): boolean {
  return form !== null && form.executable !== null;
}

/** Characters of a path on a terminal: its end is shown. */
const PATH_COLUMNS = 24;

function executablePath(form: { readonly executable: string | null } | null, short: boolean): string {
  const path = form === null ? "-" : (form.executable ?? "not found");
  return short ? truncateStart(path, PATH_COLUMNS) : path;
}

type AgentCheck = ResponseOf<"checkAgent">;

/** Checks the named agents, or all installed ones. 3: a command does not work. */
export async function checkAgents(names: readonly string[], { json = false }: JsonFlag): Promise<number> {
  const { client } = await connectOrStart();
  const environment = environmentOutsideRuns();
  const checked: AgentCheck[] = [];
  for (const id of names.length > 0 ? names : await installedAgents(client)) {
    const answer = await client.checkAgent({
      params: { id },
      body: sessionToken() === null ? { environment } : {},
    });
    checked.push(names.length > 0 ? answer : { ...answer, checks: answer.checks.filter(hasExecutable) });
  }
  if (json) print(toJson(checked, 2));
  else if (checked.length === 0)
    notice("no agent is installed; `holdfast agents list` shows how to install one", "dim");
  else printTable(["AGENT", "FOR", "VERSION", "CHECK", "PROGRAM"], checked.flatMap(checkRows));
  const well = checked.every(({ checks }) => checks.every(({ failure }) => failure === null));
  return well ? 0 : exitCodes.incomplete;
}

function checkRows({ agent: { id }, checks }: AgentCheck): string[][] {
  return checks.map(({ forms, executable, version, failure }) => [
    id,
    forms.join(", "),
    version ?? "-",
    failure ?? "works",
    executable ?? "-",
  ]);
}

function hasExecutable({ executable }: AgentCheck["checks"][number]): boolean {
  return executable !== null;
}

export interface RunAgentFlags extends NotifyFlags, DetachFlags {
  readonly resume?: string;
  readonly cwd?: string;
  readonly clearEnv?: true;
  readonly timeout: number;
  readonly grace: number;
  readonly label: Readonly<Record<string, string>>;
  readonly json?: boolean;
}

interface RunAgentRequest {
  readonly agent: string;
  readonly prompt: string;
  readonly resume: string | undefined;
  readonly options: Pick<SpawnOptions, "cwd" | "umask" | "labels" | "timeoutMs" | "graceMs" | "clearEnv">;
  readonly json: boolean;
}

/** Runs an agent's one-shot command with a prompt; `-` reads the prompt from stdin. */
export async function runAgent(agent: string, argument: string, flags: RunAgentFlags): Promise<number> {
  const { cwd, resume, json = false } = flags;
  const misplaced = misplacedNotifyOption(flags);
  if (!isDetached(flags) && misplaced !== null)
    throw new BadInput("option", `${misplaced}: add --detach; nothing was started`);
  // A resumed session may belong to another session, which is then the target.
  const targetless = resume === undefined ? await targetlessNotifyOption(flags) : channellessOption(flags);
  if (targetless !== null) throw new BadInput("option", `${targetless}; nothing was started`);
  const prompt = argument === "-" ? await text(process.stdin) : argument;
  const umask = currentUmask();
  const options = {
    ...(cwd === undefined ? {} : { cwd }),
    ...(umask === undefined ? {} : { umask }),
    clearEnv: flags.clearEnv === true,
    labels: flags.label,
    timeoutMs: flags.timeout,
    graceMs: flags.grace,
  };
  const request = { agent, prompt, resume, options, json };
  return isDetached(flags) ? runAgentDetached(request, notifyBody(flags)) : runAgentInForeground(request);
}

type AgentBody = RequestOf<"runAgent">["body"];

async function runAgentDetached(
  request: RunAgentRequest,
  notification: Pick<AgentBody, "notify" | "origin" | "deliver">,
): Promise<number> {
  const { client } = await connectOrStart();
  const body = agentBody(request, execRequestBody(displayedCommand(request), request.options));
  const answer = await client.runAgent({
    params: { id: request.agent },
    body: { ...body, ...notification, background: true },
  });
  const { run, session } = answer;
  printRequired(
    request.json ? toJson({ run, session }) : `${run.runId}\n`,
    `${run.runId} was started in session ${session.id}, but its id could not be written`,
  );
  if (!request.json) notice(`its answer will be in session ${session.id}`, "dim");
  await warnIfNobodyNotified(client, run.runId, notification);
  return startExitCode(answer);
}

/** Shows the agent's output while it works. Returns the exit code. */
async function runAgentInForeground(request: RunAgentRequest): Promise<number> {
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
  let used: GatewayClient | null = null;
  let printed = false;
  const requestRun: RequestRun = async (client, common, extra) => {
    stream = new CliOutputStream(await agentOutputFormat(client, request.agent));
    const body = { ...agentBody(request, common), ...extra };
    const answer = await client.runAgent({ params: { id: request.agent }, body });
    used = client;
    return answer;
  };
  return {
    open: (runRequest) => openGatewayRunner(runRequest, requestRun),
    stdout: (bytes) => {
      const shown = sanitizeText(stream?.push(bytes) ?? "");
      printed ||= shown.trim() !== "";
      return shown;
    },
    stderr: (bytes) => sanitizeText(errors.decode(bytes, { stream: true })),
    finish: async (run) => {
      const client = used ?? (await connectOrStart()).client;
      const { session, result } = await client.agentResult({ params: { runId: run.runId } });
      if (request.json) return { stdout: toJson({ run, session, result }), complaint: result?.error ?? null };
      const { text: answer = "", error = null } = result ?? {};
      // Some agents print their answer only at the end.
      return { stdout: !printed && answer !== "" ? `${sanitizeText(answer)}\n` : "", complaint: error };
    },
  };
}

async function agentOutputFormat(client: GatewayClient, agent: string): Promise<CliOutput> {
  const { agents } = await client.listAgents();
  return (agents.find(({ id }) => id === agent)?.cli?.output ?? "text") as CliOutput;
}

/** The command for display: the gateway builds the real one. */
function displayedCommand({ agent }: RunAgentRequest) {
  return { io: "pipe", argv: [agent] } as const;
}

function agentBody(
  { prompt, resume, options: { clearEnv } }: RunAgentRequest,
  { environment, cwd, umask, labels, timeoutMs, graceMs }: RequestOf<"exec">["body"],
): AgentBody {
  return {
    prompt,
    ...(resume === undefined ? {} : { resume }),
    ...(clearEnv === true ? {} : { environment }),
    cwd,
    umask,
    labels,
    timeoutMs,
    graceMs,
    maxChars: 0,
  };
}
