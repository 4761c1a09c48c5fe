import { BadInput } from "../../errors.js";
import type { JsonFlag } from "../options/command-definition.js";
import { notice } from "../print/errors-and-notices.js";
import { changeFiles, type FilePlan } from "./apply-file-plans.js";
import { MCP_CLIENTS, type McpClient } from "./clients.js";
import { loadFile } from "./file/rewrite-file.js";
import { findConfigFiles } from "./find-config-files.js";
import { planFile, type WrapRequest } from "./wrap-plan.js";
import { holdfastWords } from "./wrapped-command.js";

interface WrapFlags extends JsonFlag {
  readonly server: readonly string[];
  readonly apply?: boolean;
  readonly undo?: boolean;
}

/** Lets the MCP servers of clients start through Holdfast, or directly again. Without `apply`, only prints the difference. */
export async function wrapServers(
  clients: readonly McpClient[],
  { server: servers, undo = false, apply = false, json = false }: WrapFlags,
): Promise<number> {
  const request = { undo, servers, holdfast: holdfastWords() };
  const plans = await planFiles(clients.length === 0 ? MCP_CLIENTS : clients, request);
  const found = new Set(plans.flatMap((plan) => plan.servers.map(({ name }) => name)));
  const missing = servers.filter((name) => !found.has(name));
  if (missing.length > 0)
    throw new BadInput(
      "server",
      `no configuration file has a server ${missing.join(", ")}; nothing was changed`,
    );
  await changeFiles(plans, { undo, apply, json });
  if (plans.length === 0 && !json) notice("no configuration file of these clients has MCP servers", "dim");
  return 0;
}

/** The files that exist and have servers. Every one is checked before one is changed. */
async function planFiles(clients: readonly McpClient[], request: WrapRequest): Promise<FilePlan[]> {
  const plans: FilePlan[] = [];
  const problems: BadInput[] = [];
  for (const file of findConfigFiles(clients))
    try {
      const loaded = await loadFile(file.path, file.format);
      const plan = loaded === null ? null : await planFile(file, loaded, request);
      if (plan !== null && plan.servers.length > 0) plans.push(plan);
    } catch (error) {
      if (!(error instanceof BadInput)) throw error;
      problems.push(error);
    }
  const last = problems.pop();
  for (const { message } of problems) notice(message, "red");
  if (last !== undefined) throw last;
  return plans;
}
