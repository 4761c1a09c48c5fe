import { buildWithChange, type ChangedBuild } from "../../support/changed-build.js";

/** The migration that the later build adds. */
interface NewerMigration {
  readonly id: number;
  readonly name: string;
  readonly sql: string;
  readonly minCompatible?: number;
}

/** This source tree with one more migration. */
export async function buildNewerVersion(migration: NewerMigration): Promise<ChangedBuild> {
  return buildWithChange({
    file: "src/store/sql/migrations.ts",
    find: /(export const migrations[^=]*= \[[^]*?)\n\];/,
    replace: `$1\n  ${JSON.stringify(migration)},\n];`,
  });
}
