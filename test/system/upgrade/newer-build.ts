import { spawnSync } from "node:child_process";
import { cp, mkdir, mkdtemp, rm, symlink } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";

/** The migration that the later build adds. */
export interface NewerMigration {
  readonly id: number;
  readonly name: string;
  readonly sql: string;
  readonly minCompatible?: number;
}

export interface NewerBuild extends AsyncDisposable {
  /** The path of its command line program. */
  readonly main: string;
}

/** This source tree with one more migration, bundled as `npm run build` does. */
export async function buildNewerVersion(migration: NewerMigration): Promise<NewerBuild> {
  const root = await mkdtemp(join(tmpdir(), "hf-later-"));
  await mkdir(join(root, "dist"));
  for (const name of ["build", "scripts", "node_modules"]) await symlink(resolve(name), join(root, name));
  await cp("package.json", join(root, "package.json"));
  // In another process, because the bundler keeps threads.
  const script = `
    import { bundle } from ${JSON.stringify(pathToFileURL(resolve("scripts/bundle.mjs")).href)};
    const [dir, migration] = process.argv.slice(1);
    let changed = false;
    const transform = (code, id) => {
      if (!id.endsWith("/src/store/sql/migrations.ts")) return null;
      changed = true;
      return code.replace(/(export const migrations[^=]*= \\[[^]*?)\\n\\];/, "$1\\n  " + migration + ",\\n];");
    };
    await bundle(dir, [{ name: "later migration", transform }]);
    process.exit(changed ? 0 : 1);`;
  const { status, stderr } = spawnSync(
    process.execPath,
    ["--input-type=module", "-e", script, join(root, "dist"), JSON.stringify(migration)],
    { encoding: "utf8" },
  );
  if (status !== 0) throw new Error(`the later build could not be made:\n${stderr}`);
  return {
    main: join(root, "dist/cli/main.js"),
    [Symbol.asyncDispose]: () => rm(root, { recursive: true, force: true }),
  };
}
