import type { Command } from "commander";
import { lazyAction, type SetExitCode } from "../options/command-definition.js";

const examples = `
A store is the path of a SQLite file, or the URL of a PostgreSQL database: env:NAME
reads the URL from a variable, url-file:PATH from a file. A postgres://… URL on the
command line works as well, but it is visible in process lists and in the shell
history.

Stop the gateways of both stores first: the copy is refused while one is running.
Open runs continue under their anchors, and the gateway that is started on the other
store takes them over; without one all but services end in two minutes. The source is
not changed: move it away afterwards, so that it is not used by mistake.

The copy is all or nothing: if it is interrupted, the target has no records. Every
table is read back and compared.

Exit status: 0 copied, 1 refused: a gateway is running, or the target has records.

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
    .summary("the store: check, copy, migrate")
    .description("The store of records: a SQLite file in the state directory, or PostgreSQL.");
  store
    .command("check")
    .summary("check a store and count its records")
    .description("Open a store, check it, and count its records. Read-only. Exit status 1: it is damaged.")
    .argument("[store]", "its path, env:NAME or url-file:PATH; default: the store in use")
    .option("--json", "print JSON")
    .action(lazyAction(setExitCode, () => import("./check-copy-migrate.js"), "printStoreCheck"));
  store
    .command("migrate")
    .summary("apply pending migrations to the tables of a store")
    .description(
      "Apply the pending migrations of a store, and list them. A schema of a newer version is not changed.",
    )
    .argument("[store]", "its path, env:NAME or url-file:PATH; default: the store in use")
    .option("--check", "only list pending migrations")
    .option("--json", "print JSON")
    .addHelpText("after", migrateHelp)
    .action(lazyAction(setExitCode, () => import("./check-copy-migrate.js"), "migrateStore"));
  store
    .command("copy")
    .summary("copy all records to another store")
    .description("Copy all records of a store to an empty store: SQLite to PostgreSQL, or back.")
    .requiredOption("--from <store>", "its path, env:NAME or url-file:PATH")
    .requiredOption("--to <store>", "its path, env:NAME or url-file:PATH; created if it does not exist")
    .option("--json", "print what was copied as JSON")
    .addHelpText("after", examples)
    .action(lazyAction(setExitCode, () => import("./check-copy-migrate.js"), "copyStoreRecords"));
}
