import type { Command } from "commander";
import { lazyAction, type SetExitCode } from "../options/command-definition.js";
import type { AnswerFlags } from "./list-and-answer.js";

const approvalExamples = `
A command that matches an "ask" rule waits for an answer. After five minutes without
one it is denied. Only the operator can answer.

A row of the list may show only a part of the command (column SHOWN). Such a command
can be allowed only with the digest that "approvals show" prints at its end, or in
"approvals list --follow", which shows the whole command.

Exit status of allow and deny: 0 done, 1 no such approval, 3 the answer is too late.

Examples:
  holdfast approvals
  holdfast approvals list --follow
  holdfast approvals show apr_4k2m8s1x9q0z
  holdfast approvals allow apr_4k2m8s1x9q0z --digest 3fa9…
`;

export function addApprovalsCommand(program: Command, setExitCode: SetExitCode): void {
  const approvals = program
    .command("approvals")
    .summary("commands that wait for approval: list, show, allow, deny")
    .description("Commands of sessions that wait for the operator's approval.")
    .addHelpText("after", approvalExamples);
  approvals
    .command("list", { isDefault: true })
    .summary("list commands that wait for approval, and when they expire")
    .description("List commands that wait for approval, and when each expires. Read-only, unless you answer.")
    .option("-f, --follow", "continue with new ones; on a terminal, ask about each")
    .option("--json", "print JSON; with --follow one object per line, with decisions")
    .action(lazyAction(setExitCode, () => import("./list-and-answer.js"), "listApprovals"));
  approvals
    .command("show")
    .summary("show a whole command: arguments, directory, variables, input")
    .description(
      "Show the whole command: each argument, the directory, the variables added to the clean environment of sessions, and the input. Secrets are masked within a word; control and invisible characters are shown as escapes.",
    )
    .argument("<approval>", "its id")
    .option("--reveal", "do not mask secrets")
    .option("--json", "print JSON")
    .action(lazyAction(setExitCode, () => import("./list-and-answer.js"), "printApproval"));
  for (const verdict of ["allow", "deny"] as const)
    approvals
      .command(verdict)
      .summary(verdict === "allow" ? "allow a command" : "deny a command")
      .description(verdict === "allow" ? "Allow a command, once." : "Deny a command.")
      .argument("<approval>", "its id")
      .option("--digest <digest>", "answer only the command with this digest, which `approvals show` prints")
      .option("--json", "print the approval and its decision as JSON")
      .action(async (id: string, flags: AnswerFlags) => {
        const { answerApproval } = await import("./list-and-answer.js");
        setExitCode(await answerApproval(id, verdict, flags));
      });
}
