import { type Command, InvalidArgumentError } from "commander";
import type { SetExitCode } from "../options/parsers.js";

const whoExamples = `
Ancestry, cgroup and identity are proof; an environment marker alone is only a claim.

With --host of another host, only records are searched: they have the pids of the
leader and of the anchor of each run, which cannot be verified from here.

Exit status: 0 found, 1 the process belongs to no run, 5 the store cannot be read.

Examples:
  holdfast who 4711
  holdfast who 4711 --host build-7
  holdfast who $(pgrep -n chrome) --json | jq .runId
`;

export function addWhoCommand(program: Command, setExitCode: SetExitCode): void {
  program
    .command("who")
    .summary("find the run that a process belongs to, with proof")
    .description("Find the run that a process belongs to, its owner, and the proof. Read-only.")
    .argument("<pid>", "a process id", parsePid)
    .option("--host <host>", "the host of the process: its name, or the beginning of its id")
    .option("--json", "print JSON")
    .addHelpText("after", whoExamples)
    .action(async (pid: number, { host, json }: { readonly host?: string; readonly json?: true }) => {
      const { showProcessOwner } = await import("./who.js");
      setExitCode(await showProcessOwner(pid, host ?? null, json === true));
    });
}

function parsePid(text: string): number {
  const number = /^\d{1,10}$/.test(text) ? Number(text) : 0;
  if (number < 1 || number > 2 ** 31 - 1) throw new InvalidArgumentError("Write a process id.");
  return number;
}
