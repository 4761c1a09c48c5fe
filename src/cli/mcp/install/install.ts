import { existsSync, realpathSync } from "node:fs";
import { BadInput } from "../../../errors.js";
import type { JsonFlag } from "../../options/command-definition.js";
import { changeFiles, type FilePlan } from "../apply-file-plans.js";
import { CLIENT_NAMES, type McpClient } from "../clients.js";
import { backupPath, loadFile } from "../file/rewrite-file.js";
import { chooseFile, type FoundFile, planInstall } from "./plan.js";
import { findConfigFiles } from "../find-config-files.js";
import { holdfastWords } from "../wrapped-command.js";

export interface InstallFlags extends JsonFlag {
  readonly project?: boolean;
  readonly apply?: boolean;
  readonly undo?: boolean;
  /** Options of the command that is installed, in their order. */
  readonly own: readonly string[];
}

/** Adds Holdfast's own MCP server to the files of clients, or removes it. Without `apply`, only prints the difference. */
export async function installServer(
  clients: readonly McpClient[],
  { project = false, undo = false, apply = false, json = false, own }: InstallFlags,
): Promise<number> {
  // A file of a project is for others, too: their Holdfast is elsewhere.
  const words = [...(project ? ["holdfast"] : holdfastWords()), "mcp", ...own];
  const plans: FilePlan[] = [];
  for (const client of new Set(clients)) {
    const chosen = chooseFile(await findFiles(client, project ? "project" : "user"));
    if (chosen === undefined)
      throw new BadInput(
        "client",
        `${CLIENT_NAMES[client]} has no configuration file for a project; nothing was changed`,
      );
    plans.push(await planInstall(chosen, { undo, words }));
  }
  await changeFiles(plans, { undo, apply, json });
  return 0;
}

async function findFiles(client: McpClient, scope: "user" | "project"): Promise<FoundFile[]> {
  const files = findConfigFiles([client]).filter((file) => file.scope === scope);
  return Promise.all(
    files.map(async (file) => {
      const loaded = await loadFile(file.path, file.format);
      const hasBackup = loaded !== null && existsSync(backupPath(realpathSync(file.path)));
      return { file, loaded, hasBackup };
    }),
  );
}
