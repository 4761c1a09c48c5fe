import type { RequestedAgentCommand } from "../../../acp/agent-command.js";
import type { AcpController } from "../../../acp/controller.js";
import { DEFAULT_PERMISSION_RULES } from "../../../acp/permissions/rule-layers.js";
import type { ParsedRequestOf, RequestContext } from "../../../api/contract.js";
import type { PERMISSION_PRESETS } from "../../../api/routes/acp-sessions.js";
import { BadInput } from "../../../errors.js";
import type { PermissionRule } from "../../../model/acp/permission-rule.js";
import { newSessionId } from "../../../model/ids.js";
import { omitUndefined } from "../../../model/record-type.js";
import type { SessionRecord } from "../../../model/session.js";
import { authorizeCommand } from "../../auth/exec-authorization.js";
import type { HandlerDeps } from "../handler-deps.js";

const PRESETS: Readonly<Record<(typeof PERMISSION_PRESETS)[number], readonly PermissionRule[]>> = {
  "approve-all": [{ effect: "allow" }],
  "approve-reads": DEFAULT_PERMISSION_RULES,
  "deny-all": [{ effect: "reject" }],
};

/** Opens the requested session and starts its agent, or finds the open session. */
export async function ensureSession(
  deps: HandlerDeps,
  body: ParsedRequestOf<"acpSpawn">["body"],
  context: RequestContext,
): Promise<Awaited<ReturnType<AcpController["ensureSession"]>>> {
  const { agent, argv, agentId, cwd, mode, permissions, reap, parentSessionKey } = body;
  const { requester, environment, executable } = await authorizeSpawn(deps, body, context);
  const preset = permissions === undefined ? [] : PRESETS[permissions];
  const rules =
    body.rules === undefined && permissions === undefined ? undefined : [...(body.rules ?? []), ...preset];
  return deps.acp.ensureSession({
    key: body.key ?? `acp ${newSessionId().slice(4)}`,
    ...omitUndefined({ agent, argv, rules }),
    fetch: body.fetch,
    ...{ cwd, environment, executable, mode, reap, requester },
    client: body.client,
    ...(body.settings === undefined ? {} : { settings: omitUndefined(body.settings) }),
    mcpServers: body.mcpServers,
    ...omitUndefined({ resume: body.resume, directories: body.directories }),
    ...(body.timeoutMs === undefined ? {} : { startTimeoutMs: body.timeoutMs }),
    session: {
      ...omitUndefined({ agentId, execRules: body.execRules }),
      ...(parentSessionKey === undefined ? {} : { parentSessionKey, spawnedBy: parentSessionKey }),
    },
  });
}

/** An agent started by a session is its child, and is executed as its exec rules judged it. `requester` null: the operator starts it. */
async function authorizeSpawn(
  deps: HandlerDeps,
  body: ParsedRequestOf<"acpSpawn">["body"],
  context: RequestContext,
): Promise<
  { readonly requester: SessionRecord | null } & Pick<RequestedAgentCommand, "environment" | "executable">
> {
  const { requester } = context;
  if (requester.kind === "operator") return { requester: null, environment: body.environment };
  const { session: self } = requester;
  if (body.parentSessionKey !== undefined && body.parentSessionKey !== self.key)
    throw new BadInput(
      "parentSessionKey",
      "a session can only start children of its own; nothing was started",
    );
  if (body.client !== undefined)
    throw new BadInput("client", "only the operator may set client; nothing was started");
  // The agent starts them, so no exec rule would judge their commands.
  if (body.mcpServers !== undefined)
    throw new BadInput("mcpServers", "only the operator may set mcpServers; nothing was started");
  if (body.execRules !== undefined)
    throw new BadInput(
      "execRules",
      "only the operator may set exec rules: a child has those of its parent. Nothing was started",
    );
  const { argv, env: entrys, passEnv } = deps.acp.commands.resolve(body);
  const allowed = await authorizeCommand(deps, context, {
    argv,
    cwd: body.cwd,
    environment: body.environment,
    env: {},
    entry: { env: entrys, passEnv: [...passEnv] },
    stdin: { kind: "pipe" },
  });
  const [executable] = allowed.argv;
  return {
    requester: self,
    environment: allowed.environment,
    ...(executable === argv[0] ? {} : { executable }),
  };
}
