import type { Command } from "commander";
import type { SetExitCode } from "../options/parsers.js";

const examples = `
A store is a SQLite file, by its path, or the schema holdfast of a PostgreSQL
database, by its address: env:NAME takes that from a variable, url-file:PATH
from a file. postgres://… on the command line itself works, too, but whoever
lists processes sees it, and the shell remembers it.

Stop the gateways that use either store first: it is refused as long as one
is at work. Open runs go on under their anchors, and the gateway that is
started on the other store goes on with them; tasks are ended by their anchors
when none has come after two minutes. The source is not changed: move it away
afterwards, so that nobody goes on with it by mistake.

All or nothing: interrupted at any moment, the target has no records. Every
table is read back and compared before it counts.

Exit status: 0, 1 refused (somebody is at work, the target has records).

Examples:
  holdfast gateway stop
  holdfast store copy --from ~/.local/state/holdfast/store.sqlite \\
      --to env:HOLDFAST_DATABASE_URL
  holdfast store copy --from url-file:/etc/holdfast/database \\
      --to ~/.local/state/holdfast/store.sqlite
`;

const migrateHelp = `
Run it once, with the new version, before the gateways are upgraded one after
the other. Gateways of older versions continue to work if the output says so for
each migration. All pending migrations are applied in one transaction. With
database.migrate = "manual" gateways never migrate by themselves.

Exit status: 0 done, 1 with --check if migrations are pending.

Examples:
  holdfast store migrate --check
  holdfast store migrate
`;

export function addStoreCommand(program: Command, setExitCode: SetExitCode): void {
  const store = program
    .command("store")
    .summary("the records: check them, copy them, migrate their tables")
    .description("Where records are kept: a SQLite file in the state directory, or PostgreSQL.");
  store
    .command("check")
    .summary("whether it can be read, and what is in it")
    .description(
      "Open a store, look it over, and count what is in it. Only reads. Exit status 1 when it is damaged.",
    )
    .argument("[store]", "its path, env:NAME or url-file:PATH; else the one that is in use")
    .option("--json", "as JSON")
    .action(async (place: string | undefined, { json }: { readonly json?: true }) => {
      const { printStoreCheck } = await import("./check.js");
      setExitCode(await printStoreCheck(place ?? null, json === true));
    });
  store
    .command("migrate")
    .summary("apply pending migrations to the tables of a store")
    .description(
      "Apply the pending migrations of a store, and list them. A schema of a newer version is not changed.",
    )
    .argument("[store]", "its path, env:NAME or url-file:PATH; else the one that is in use")
    .option("--check", "only show which migrations are pending; changes nothing")
    .option("--json", "as JSON")
    .addHelpText("after", migrateHelp)
    .action(async (place: string | undefined, flags: { readonly check?: true; readonly json?: true }) => {
      const { migrateStore } = await import("./migrate.js");
      setExitCode(
        await migrateStore(place ?? null, { check: flags.check === true, json: flags.json === true }),
      );
    });
  store
    .command("copy")
    .summary("put all records into another store")
    .description("Put all records of one store into another that has none: SQLite to PostgreSQL, and back.")
    .requiredOption("--from <store>", "its path, env:NAME or url-file:PATH")
    .requiredOption("--to <store>", "the same; made if need be")
    .option("--json", "what was copied, as JSON")
    .addHelpText("after", examples)
    .action(async (flags: { readonly from: string; readonly to: string; readonly json?: true }) => {
      const { copyStoreRecords } = await import("./copy.js");
      setExitCode(await copyStoreRecords({ ...flags, json: flags.json === true }));
    });
}
