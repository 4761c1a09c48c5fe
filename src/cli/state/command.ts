import type { Command } from "commander";
import type { SetExitCode } from "../options/parsers.js";

const identityHelp = `
A state directory records its device, inode and time of birth beside its ids.
A copy, a snapshot and a restored backup have others: every command refuses to
work there, because the runs in it are the original's. A directory that was
renamed, or is reached through a bind mount, is no copy. One that was moved
between file systems is used as it is when no run is open in it and its
records are its own.

reset-identity makes a copy a state directory of its own: new ids; the
original's open runs are ended on record as lost; no process is signalled. In
a shared PostgreSQL nothing of the original's is changed.

keep-identity is for a directory that takes the place of the original, which
is gone: ids and open runs stay. It is refused while the original is there.

Exit status: 0, 1 refused, 3 not confirmed.

Examples:
  holdfast state show
  holdfast state reset-identity
`;

interface Flags {
  readonly yes?: true;
  readonly json?: true;
}

export function addStateCommand(program: Command, setExitCode: SetExitCode): void {
  const state = program
    .command("state")
    .summary("the state directory: its identity, and whether it is a copy")
    .description("The identity of the state directory, and what to do when it is a copy of another.")
    .addHelpText("after", identityHelp);
  state
    .command("show")
    .summary("its ids, and what it is a copy of")
    .description("The ids of the state directory, and which directory it is a copy of, if any. Only reads.")
    .option("--json", "as JSON")
    .action(async ({ json }: Flags) => {
      const { showState } = await import("./identity.js");
      setExitCode(await showState(json === true));
    });
  state
    .command("reset-identity")
    .summary("make a copy a state directory of its own")
    .description(
      "Give a copied state directory new ids, and end the original's open runs in it on record. No process is signalled.",
    )
    .option("--yes", "do not ask")
    .option("--json", "as JSON")
    .addHelpText("after", identityHelp)
    .action(async ({ yes, json }: Flags) => {
      const { resetIdentity } = await import("./identity.js");
      setExitCode(await resetIdentity({ yes: yes === true, json: json === true }));
    });
  state
    .command("keep-identity")
    .summary("keep the ids of a directory that replaces its original")
    .description(
      "Declare that this directory replaces its original, which no longer exists. Its ids and open runs are kept.",
    )
    .option("--yes", "do not ask")
    .option("--json", "as JSON")
    .addHelpText("after", identityHelp)
    .action(async ({ yes, json }: Flags) => {
      const { keepIdentity } = await import("./identity.js");
      setExitCode(await keepIdentity({ yes: yes === true, json: json === true }));
    });
}
