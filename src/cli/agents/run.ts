import { CliOutputStream } from "../../agents/cli-output.js";
import type { GatewayClient } from "../../api/client.js";
import type { RequestOf } from "../../api/contract.js";
import type { CliOutput } from "../../config/agents.js";
import { defaults } from "../../defaults.js";
import type { SpawnOptions } from "../../supervisor/api.js";
import { sanitizeText } from "../../text/sanitize.js";
import { connectOrStart } from "../client/connect.js";
import { warnIfNobodyNotified } from "../client/notify-options.js";
import { notice } from "../print/stderr.js";
import { printRequired, toJson } from "../print/stdout.js";
import { execRequestBody, startExitCode } from "../run/exec.js";
import { openGatewayRunner, type RequestRun } from "../run/foreground-runner.js";
import { type OutputView, runInForeground } from "../run/foreground.js";

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
