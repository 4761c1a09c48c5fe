import { type Command, InvalidArgumentError } from "commander";
import type { SetExitCode } from "../options/parsers.js";

const whoExamples = `
Ancestry, cgroup and identity prove it; a marker in the environment alone only
claims it. Only reads. Exit status: 0, 1 when it is nobody of ours,
5 when the store cannot be read.

With --host of another host only the records can tell: a run's first process and
its anchor are there, by number, and nothing is verified here.

Examples:
  holdfast who 4711
  holdfast who 4711 --host build-7
  holdfast who $(pgrep -n chrome) --json | jq .runId
`;

export function addWhoCommand(program: Command, setExitCode: SetExitCode): void {
  program
    .command("who")
    .summary("which run a process belongs to, and what proves it")
    .description("Which run a process belongs to, who owns that, and what proves it.")
    .argument("<pid>", "a process", parsePid)
    .option("--host <host>", "a process of this host: its name, or the beginning of its id")
    .option("--json", "as JSON")
    .addHelpText("after", whoExamples)
    .action(async (pid: number, { host, json }: { readonly host?: string; readonly json?: true }) => {
      const { showProcessOwner } = await import("./who.js");
      setExitCode(await showProcessOwner(pid, host ?? null, json === true));
    });
}

function parsePid(text: string): number {
  const number = /^\d{1,10}$/.test(text) ? Number(text) : 0;
  if (number < 1 || number > 2 ** 31 - 1) throw new InvalidArgumentError("Write the number of a process.");
  return number;
}
