import { CliStream } from "../../agents/cli-stream.js";
import type { CliOutput } from "../../agents/entry.js";
import { defaults } from "../../defaults.js";
import type { GatewayClient } from "../../gateway/client.js";
import type { AskedOf } from "../../gateway/contract/contract.js";
import { sanitizeText } from "../../output/sanitize.js";
import type { SpawnOptions } from "../../supervisor/api.js";
import { say } from "../complain.js";
import { runInForeground, type View } from "../foreground/foreground.js";
import { openThroughGateway, type AskFor } from "../foreground/through-gateway.js";
import { needGateway } from "../gateway/connect.js";
import { execBody } from "../gateway/exec-body.js";
import { toJson } from "../json.js";
import { startedCode } from "../process/detach.js";
import { printOnce } from "../runs/print.js";
import { sayIfUnheard } from "../tasks/telling.js";

export interface AgentRequest {
  readonly agent: string;
  readonly prompt: string;
  readonly resume: string | null;
  readonly options: Pick<SpawnOptions, "cwd" | "umask" | "labels" | "timeoutMs" | "graceMs" | "clearEnv">;
  readonly json: boolean;
}

type AgentBody = AskedOf<"runAgent">["body"];

/** Hand a prompt over and leave. Prints the run's id. */
export async function runAgentDetached(
  request: AgentRequest,
  tell: Pick<AgentBody, "notify" | "origin">,
): Promise<number> {
  const { client } = await needGateway();
  const body = bodyOf(request, execBody(commandOf(request), request.options));
  const answer = await client.runAgent({
    params: { id: request.agent },
    body: { ...body, ...tell, background: true },
  });
  const { run, session } = answer;
  printOnce(
    request.json ? toJson({ run, session }) : `${run.runId}\n`,
    `${run.runId} was started in session ${session.id}, but its id could not be written`,
  );
  if (!request.json) say(`its answer will be in session ${session.id}`, "dim");
  await sayIfUnheard(client, run.runId, tell);
  return startedCode(answer);
}

/** Show what the agent says while it works. Returns the exit code. */
export async function runAgentInForeground(request: AgentRequest): Promise<number> {
  const { options, json } = request;
  return runInForeground({
    inProcess: false,
    input: commandOf(request),
    options: { ...options, stdout: { boundBytes: defaults.agentSpoolBytes } },
    json,
    view: viewOf(request),
  });
}

function viewOf(request: AgentRequest): View {
  const errors = new TextDecoder();
  let stream: CliStream | null = null;
  let asked: GatewayClient | null = null;
  let spoke = false;
  const askFor: AskFor = async (client, common, its) => {
    stream = new CliStream(await outputOf(client, request.agent));
    const body = { ...bodyOf(request, common), ...its };
    const answer = await client.runAgent({ params: { id: request.agent }, body });
    asked = client;
    return answer;
  };
  return {
    open: (told) => openThroughGateway(told, askFor),
    stdout: (bytes) => {
      const text = sanitizeText(stream?.push(bytes) ?? "");
      spoke ||= text.trim() !== "";
      return text;
    },
    stderr: (bytes) => sanitizeText(errors.decode(bytes, { stream: true })),
    end: async (run) => {
      const client = asked ?? (await needGateway()).client;
      const { session, result } = await client.agentResult({ params: { runId: run.runId } });
      if (request.json) return { stdout: toJson({ run, session, result }), complaint: result?.error ?? null };
      const { text = "", error = null } = result ?? {};
      // Not every agent speaks while it works.
      return { stdout: !spoke && text !== "" ? `${sanitizeText(text)}\n` : "", complaint: error };
    },
  };
}

async function outputOf(client: GatewayClient, agent: string): Promise<CliOutput> {
  const { agents } = await client.listAgents();
  return (agents.find(({ id }) => id === agent)?.cli?.output ?? "text") as CliOutput;
}

/** What it would be called if it were a command of ours: only to be shown. */
function commandOf({ agent }: AgentRequest): { readonly io: "pipe"; readonly argv: readonly string[] } {
  return { io: "pipe", argv: [agent] };
}

function bodyOf(
  { prompt, resume, options: { clearEnv } }: AgentRequest,
  { environment, cwd, umask, labels, timeoutMs, graceMs }: AskedOf<"exec">["body"],
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
