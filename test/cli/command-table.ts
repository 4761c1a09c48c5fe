import type { Command } from "commander";
import { buildProgram } from "../../src/cli/program.js";

/** Every command without sub-commands, by its words. */
export function allCommands(): ReadonlyMap<string, Command> {
  const found = new Map<string, Command>();
  const visit = (command: Command, path: readonly string[]): void => {
    if (command.commands.length === 0) found.set(path.join(" "), command);
    for (const each of command.commands) visit(each, [...path, each.name()]);
  };
  visit(
    buildProgram(() => undefined),
    [],
  );
  return found;
}

/** Names for the arguments of commands. */
export interface SampleNames {
  /** The key of a session with messages. */
  readonly session: string;
  /** An ended run with a PTY. */
  readonly ended: string;
  /** An open run that continues without a gateway. */
  readonly open: string;
  readonly pid: number;
  /** A file of records for `runs import`. */
  readonly records: string;
  /** A closed ACP session. */
  readonly closed: string;
}

/**
 * `acts`, or the arguments with which the command only reads, each also with `--json` if it has that option. A
 * command that is missing here fails the tests.
 */
export const COMMAND_USES: Readonly<
  Record<string, "acts" | ((samples: SampleNames) => readonly (readonly string[])[])>
> = {
  run: "acts",
  dashboard: "acts",
  ps: () => [[], ["--all"]],
  inspect: ({ ended, open }) => [[ended], [open, ended]],
  wait: ({ ended }) => [[ended]],
  stop: "acts",
  kill: "acts",
  rm: "acts",
  "runs list": () => [["--all"], ["--state", "running"]],
  "runs show": ({ ended, open }) => [[ended], [open]],
  "runs stop": "acts",
  "runs abandon": "acts",
  "runs forget": "acts",
  "runs cleanup": () => [["--all-orphans", "--dry-run"]],
  "runs import": ({ records }) => [[records, "--dry-run"]],
  "state show": () => [[]],
  "state reset-identity": "acts",
  "state keep-identity": "acts",
  logs: ({ ended, open }) => [
    [ended],
    [ended, "--follow"],
    [open],
    [ended, "--since", "1h"],
    [ended, "-n", "all"],
  ],
  screen: ({ ended, open }) => [[ended], [open]],
  events: ({ ended }) => [[], ["--all"], ["--run", ended]],
  who: ({ pid }) => [[String(pid)]],
  attach: "acts",
  "process list": () => [[], ["--all"]],
  "process log": ({ ended, open }) => [[ended], [ended, "--offset", "3"], [open, "--skip", "1"]],
  "process poll": ({ ended, open }) => [[ended], [open, "--wait", "20ms"]],
  "process write": "acts",
  "process send-keys": "acts",
  "process paste": "acts",
  "process submit": "acts",
  "process resize": "acts",
  "process stop": "acts",
  "process remove": "acts",
  "process clear": "acts",
  "unmanaged list": () => [[]],
  "unmanaged cleanup": () => [["tool", "--dry-run"]],
  "agent run": "acts",
  "agents list": () => [[]],
  "agents check": "acts",
  "tasks list": ({ session }) => [[], ["--status", "running,succeeded"], ["--session", session]],
  "tasks show": ({ ended, open }) => [[ended], [open]],
  "tasks wait": "acts",
  "tasks notify": "acts",
  "tasks cancel": "acts",
  "tasks retry": "acts",
  "tasks dismiss": "acts",
  "tasks audit": () => [[]],
  "tasks maintenance": () => [[]],
  "mcp wrap": () => [[]],
  "mcp install": () => [["codex"]],
  "mcp list": () => [[], ["--all"]],
  "notify channels": () => [[]],
  "notify test": "acts",
  "acp with": "acts",
  "acp spawn": "acts",
  "acp prompt": "acts",
  "acp set": "acts",
  "acp agent-sessions": "acts",
  "acp login": "acts",
  "acp cancel": "acts",
  "acp close": "acts",
  "acp list": () => [[], ["--all"]],
  "acp show": ({ closed }) => [[closed]],
  "acp history": ({ closed }) => [[closed]],
  "acp watch": ({ closed }) => [[closed], [closed, "--format", "quiet"]],
  "acp permissions list": ({ closed }) => [[], ["--all", "--session", closed]],
  "acp permissions show": "acts",
  "acp permissions allow": "acts",
  "acp permissions cancel": "acts",
  "acp permissions deny": "acts",
  "acp permissions rules": ({ closed }) => [[], ["--all", "--session", closed], ["--agent", "codex"]],
  "acp permissions add": "acts",
  "acp permissions revoke": "acts",
  "sessions create": "acts",
  "sessions list": () => [["--all"]],
  "sessions status": ({ session }) => [[session]],
  "sessions history": ({ session }) => [[session], [session, "--limit", "1"]],
  "sessions inbox": ({ session }) => [[session], [session, "--limit", "1"]],
  "sessions send": "acts",
  "sessions rotate-token": "acts",
  "sessions close": "acts",
  "approvals list": () => [[]],
  "approvals show": "acts",
  "approvals allow": "acts",
  "approvals deny": "acts",
  "gateway run": "acts",
  "gateway start": "acts",
  "gateway stop": "acts",
  "gateway restart": "acts",
  "gateway status": () => [[]],
  "gateways list": () => [[]],
  "service install": () => [["--print"]],
  "service uninstall": "acts",
  "service list": () => [[]],
  "service adopt": "acts",
  "service stop": "acts",
  "config check": () => [[]],
  "config show": () => [[]],
  "store check": () => [[]],
  "store copy": "acts",
  "store migrate": "acts",
  doctor: () => [[]],
  shellenv: "acts",
  completion: () => [["bash"]],
  __complete: () => [["run"], ["session"], ["task"], ["agent"], ["channel"]],
  help: () => [[], ["service", "adopt"]],
};
