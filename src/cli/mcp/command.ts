import { Argument, type Command } from "commander";
import { addExecRuleOptions } from "../options/exec-rule-options.js";
import { lazyAction, type SetExitCode } from "../options/command-definition.js";
import { collectValues } from "../options/parsers.js";
import { MCP_CLIENTS } from "./clients.js";
import { addInstallCommand } from "./install/command.js";

const wrapExamples = `
A wrapped server starts through \`holdfast run\`: it ends with its client however the
client dies, with everything that it has started. Its streams pass through unchanged,
and \`holdfast ps\` shows it. Without --apply, only the difference is printed.

Examples:
  holdfast mcp wrap                       # every client: what would be changed
  holdfast mcp wrap --apply
  holdfast mcp wrap cursor vscode --server github --apply
  holdfast mcp wrap --undo --apply
`;

const listExamples = `
A server that its client has started several times has a run for each start; --all
lists those that have ended, too. The stderr of a server is in \`holdfast logs\`.

Examples:
  holdfast mcp list
  holdfast mcp list --watch
`;

const serveExamples = `
An MCP client starts this command. Its calls act as a session of the client's name and
directory (or --session), with the exec rules given here or in the config; a command
that no rule matches waits for approval (holdfast approvals). Foreground commands end
with the client; tasks continue, and the next connection sees them.

Examples:
  holdfast mcp --allow "*"                # in the client's configuration: all commands
  holdfast mcp --session review --allow "git ..." --deny "*"
`;

export function addMcpCommand(program: Command, setExitCode: SetExitCode): void {
  const mcp = program
    .command("mcp")
    .summary("an MCP server for agents, over stdio: install; those of other programs: wrap, list")
    .description(
      "Serve MCP over stdin and stdout: tools that run commands, control them, and wait for tasks. See docs/guides/mcp.md.",
    )
    .option("--session <key>", "the session to act for, instead of one for the client and its directory")
    .addHelpText("after", serveExamples);
  const rules = addExecRuleOptions(mcp, "");
  mcp.action(async ({ session }: { readonly session?: string }) => {
    const { serveMcp } = await import("./serve.js");
    setExitCode(await serveMcp({ session, execRules: rules() }));
  });
  addInstallCommand(mcp, setExitCode);
  mcp
    .command("wrap")
    .summary("let the MCP servers of clients start through Holdfast")
    .description(
      "Change the configuration of MCP clients so that their stdio servers start through Holdfast, and restore it.",
    )
    .addArgument(new Argument("[client...]", "only these clients").choices(MCP_CLIENTS))
    .option("--server <name>", "only this server (repeatable)", collectValues, [])
    .option("--undo", "let wrapped servers start directly again")
    .option("--apply", "change the files")
    .option("--json", "print JSON")
    .addHelpText("after", wrapExamples)
    .action(lazyAction(setExitCode, () => import("./wrap.js"), "wrapServers"));
  mcp
    .command("list")
    .summary("list the wrapped servers that run, with their processes and memory")
    .description("List the MCP servers that their clients have started through Holdfast.")
    .option("--all", "also those that have ended")
    .option("--watch", "repeat every two seconds")
    .option("--json", "print JSON")
    .addHelpText("after", listExamples)
    .action(lazyAction(setExitCode, () => import("./list.js"), "listServers"));
}
