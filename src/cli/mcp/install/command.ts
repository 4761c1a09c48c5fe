import { Argument, type Command } from "commander";
import type { ExecEffect } from "../../../model/exec/exec-rule.js";
import type { SetExitCode } from "../../options/command-definition.js";
import { asOptionParser, parseExecRule } from "../../options/parsers.js";
import { MCP_CLIENTS, type McpClient } from "../clients.js";
import type { InstallFlags } from "./install.js";

const installExamples = `
The entry is added to the user's file of the client, which is made if it is missing, or
with --project to that of the project in the current directory. Without --apply, only
the difference is printed.

Examples:
  holdfast mcp install claude --allow "*" --apply
  holdfast mcp install codex gemini --project --apply
  holdfast mcp install claude --undo --apply
`;

export function addInstallCommand(mcp: Command, setExitCode: SetExitCode): void {
  const own: string[] = [];
  const pass = (option: string, check: (text: string) => unknown) => (text: string) => {
    check(text);
    own.push(option, text);
    return text;
  };
  const rule = (effect: ExecEffect): ((text: string) => string) =>
    pass(
      `--${effect}`,
      asOptionParser((text) => parseExecRule(effect, text)),
    );
  mcp
    .command("install")
    .summary("add Holdfast's own MCP server to the configuration of clients")
    .description("Add the MCP server of Holdfast to the configuration of MCP clients, and remove it.")
    .addArgument(new Argument("<client...>", "the clients").choices(MCP_CLIENTS))
    .option("--project", "in the files of the project in the current directory")
    .option("--session <key>", "the session for which the server acts", pass("--session", String))
    .option("--allow <rule>", "allow commands that match (repeatable)", rule("allow"))
    .option("--ask <rule>", "ask the operator about commands that match (repeatable)", rule("ask"))
    .option("--deny <rule>", "deny commands that match (repeatable)", rule("deny"))
    .option("--undo", "remove the server")
    .option("--apply", "change the files")
    .option("--json", "print JSON")
    .addHelpText("after", installExamples)
    .action(async (clients: McpClient[], flags: Omit<InstallFlags, "own">) => {
      const { installServer } = await import("./install.js");
      setExitCode(await installServer(clients, { ...flags, own }));
    });
}
