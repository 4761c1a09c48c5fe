import type { Command } from "commander";

/** Where one is meant without its name, a name that no other has is none of its arguments. */
export function rejectUnknownSubcommand(group: Command): void {
  group.hook("preSubcommand", ({ args: [first = "-"] }, meant) => {
    if (!first.startsWith("-") && first !== meant.name()) group.error(`error: unknown command '${first}'`);
  });
}
