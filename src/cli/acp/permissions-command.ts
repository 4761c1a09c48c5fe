import type { Command } from "commander";
import type { SetExitCode } from "../options/parsers.js";

export function addPermissions(acp: Command, setExitCode: SetExitCode): void {
  const permissions = acp
    .command("permissions")
    .summary("permission requests of agents: list, show, allow, deny")
    .description("Permission requests of agents.")
    .addHelpText(
      "after",
      '\nA request that is not answered within five minutes is denied. Only the operator\ncan answer. If a row of the list does not show the whole request (column SHOWN),\n"allow" needs the digest that "permissions show" prints at its end.\n\nExit status of allow and deny: 0 done, 1 no such request, 3 the answer came too late.\n',
    );
  permissions
    .command("list", { isDefault: true })
    .summary("list open requests and when they expire")
    .description("List the requests that wait for an answer, and when each expires. Read-only.")
    .option("--session <session>", "only requests of this session")
    .option("-a, --all", "also list answered requests")
    .option("--json", "print a JSON array")
    .action(
      async ({
        session,
        all,
        json,
      }: {
        readonly session?: string;
        readonly all?: true;
        readonly json?: true;
      }) => {
        const { printPermissions } = await import("./permissions.js");
        setExitCode(
          await printPermissions({ session: session ?? null, all: all === true, json: json === true }),
        );
      },
    );
  permissions
    .command("show")
    .summary("show a whole request: command, directory, variables, input")
    .description(
      "Show everything that an agent asks for: each argument, the directory and the variables of a command, or everything that the agent says about its own tool. Secrets are masked inside one word; control and invisible characters are shown as escapes.",
    )
    .argument("<permission>", "its id")
    .option("--reveal", "do not mask secrets")
    .option("--json", "print JSON")
    .action(async (id: string, flags: { readonly reveal?: true; readonly json?: true }) => {
      const { showPermission } = await import("./permissions.js");
      setExitCode(await showPermission(id, flags));
    });
  for (const verdict of ["allow", "deny"] as const)
    permissions
      .command(verdict)
      .summary(verdict === "allow" ? "allow a request" : "deny a request")
      .description(verdict === "allow" ? "Allow a request, once." : "Deny a request.")
      .argument("<permission>", "its id")
      .option(
        "--digest <digest>",
        "answer only the request with this digest, which `permissions show` prints",
      )
      .option("--json", "print the request and its decision as JSON")
      .action(async (id: string, flags: { readonly json?: true; readonly digest?: string }) => {
        const { answerPermission } = await import("./permissions.js");
        setExitCode(await answerPermission(id, verdict, flags));
      });
}
