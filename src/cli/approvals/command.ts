import type { Command } from "commander";
import type { SetExitCode } from "../options/parsers.js";
import type { ShowApprovalFlags } from "./approvals.js";

const approvalExamples = `
A session whose rules say "ask" waits for an answer for five minutes; then its
command is not executed. Only the operator answers.

A row of the list may show only a part of what would run (column SHOWN). Such a
question can be allowed only with the digest that "approvals show" prints at its
end, or from "approvals list --follow", which shows the whole question.

Exit status of allow and deny: 0, 1 no such question, 3 it came too late.

Examples:
  holdfast approvals list
  holdfast approvals list --follow
  holdfast approvals show apr_4k2m8s1x9q0z
  holdfast approvals allow apr_4k2m8s1x9q0z --digest 3fa9…
`;

export function addApprovalsCommand(program: Command, setExitCode: SetExitCode): void {
  const approvals = program
    .command("approvals")
    .summary("what sessions ask leave for: list, allow, deny")
    .description("What sessions ask leave for.")
    .addHelpText("after", approvalExamples);
  approvals
    .command("list")
    .summary("questions that wait, with when they expire")
    .description(
      "Questions that wait for an answer, and when each expires. Only reads, until one is answered.",
    )
    .option("-f, --follow", "each as it comes; on a terminal, be asked")
    .option("--json", "as JSON; with --follow one object per line, decisions too")
    .action(async ({ follow, json }: { readonly follow?: true; readonly json?: true }) => {
      const { followApprovals, printApprovals } = await import("./approvals.js");
      setExitCode(await (follow === true ? followApprovals : printApprovals)(json === true));
    });
  approvals
    .command("show")
    .summary("show everything that would run: arguments, directory, variables, input")
    .description(
      "Show everything that would run if the question is allowed: each argument, the directory, the variables that are added to the clean environment of sessions, and the input. Secrets are masked inside one word; control and invisible characters are shown as escapes.",
    )
    .argument("<approval>", "its id")
    .option("--reveal", "mask no secrets")
    .option("--json", "as JSON")
    .action(async (id: string, flags: ShowApprovalFlags) => {
      const { printApproval } = await import("./approvals.js");
      setExitCode(await printApproval(id, flags));
    });
  for (const verdict of ["allow", "deny"] as const)
    approvals
      .command(verdict)
      .summary(verdict === "allow" ? "let it be executed" : "do not")
      .description(
        verdict === "allow"
          ? "Let the command be executed, this once."
          : "Do not let the command be executed.",
      )
      .argument("<approval>", "its id")
      .option("--digest <digest>", "answer only the question with this digest, which `approvals show` prints")
      .option("--json", "the question and its decision as JSON")
      .action(async (id: string, flags: { readonly json?: true; readonly digest?: string }) => {
        const { answerApproval } = await import("./approvals.js");
        setExitCode(await answerApproval(id, verdict, flags));
      });
}
