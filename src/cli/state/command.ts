import type { Command } from "commander";
import type { SetExitCode } from "../options/command-definition.js";
import type { IdentityRequest } from "./identity.js";

const identityHelp = `
A state directory records its device, inode and birth time beside its ids. In a copy,
a snapshot or a restored backup they differ: every command refuses to use it, because
its runs belong to the original. A directory that was renamed, or is reached through
a bind mount, is no copy. A directory that was moved between file systems is used if
no run is open in it and its records are its own.

reset-identity makes a copy a state directory of its own: it gets new ids, and the
records of the original's open runs are ended as lost. No process is signalled, and
the original's records in a shared PostgreSQL database are not changed.

keep-identity is for a directory that replaces an original that no longer exists: ids
and open runs stay. It is refused while the original exists.

Exit status: 0 done, 1 refused, 3 not confirmed.

Examples:
  holdfast state
  holdfast state reset-identity
`;

export function addStateCommand(program: Command, setExitCode: SetExitCode): void {
  const state = program
    .command("state")
    .summary("the state directory: its identity, and whether it is a copy")
    .description("The identity of the state directory, and what to do when it is a copy of another.")
    .addHelpText("after", identityHelp);
  state
    .command("show", { isDefault: true })
    .summary("show its ids, and whether it is a copy")
    .description(
      "Show the ids of the state directory, and which directory it is a copy of, if any. Read-only.",
    )
    .option("--json", "print JSON")
    .action(async ({ json }: { readonly json?: true }) => {
      const { showState } = await import("./identity.js");
      setExitCode(await showState(json === true));
    });
  state
    .command("reset-identity")
    .summary("make a copy a state directory of its own")
    .description(
      "Give a copied state directory new ids, and end the records of the original's open runs in it. No process is signalled.",
    )
    .option("--yes", "do not ask for confirmation")
    .option("--json", "print JSON")
    .addHelpText("after", identityHelp)
    .action(async (flags: IdentityRequest) => {
      const { resetIdentity } = await import("./identity.js");
      setExitCode(await resetIdentity(flags));
    });
  state
    .command("keep-identity")
    .summary("keep the ids of a directory that replaces its original")
    .description(
      "Declare that this directory replaces its original, which no longer exists. Its ids and open runs are kept.",
    )
    .option("--yes", "do not ask for confirmation")
    .option("--json", "print JSON")
    .addHelpText("after", identityHelp)
    .action(async (flags: IdentityRequest) => {
      const { keepIdentity } = await import("./identity.js");
      setExitCode(await keepIdentity(flags));
    });
}
