import { spawnSync } from "node:child_process";
import { cp, mkdir, mkdtemp, rm, symlink } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";

/** A change of one source file: what matches is replaced. */
export interface SourceChange {
  readonly file: string;
  readonly find: RegExp;
  /** As for `String.replace`. */
  readonly replace: string;
}

export interface ChangedBuild extends AsyncDisposable {
  /** The path of its command line program. */
  readonly main: string;
}

/** This source tree with a change, bundled as `npm run build` does. */
export async function buildWithChange({ file, find, replace }: SourceChange): Promise<ChangedBuild> {
  const root = await mkdtemp(join(tmpdir(), "hf-later-"));
  await mkdir(join(root, "dist"));
  for (const name of ["build", "scripts", "node_modules"]) await symlink(resolve(name), join(root, name));
  await cp("package.json", join(root, "package.json"));
  // In another process, because the bundler keeps threads.
  const script = `
    import { bundle } from ${JSON.stringify(pathToFileURL(resolve("scripts/bundle.mjs")).href)};
    const [dir, file, find, flags, replace] = process.argv.slice(1);
    let changed = false;
    const transform = (code, id) => {
      if (!id.endsWith(file)) return null;
      const other = code.replace(new RegExp(find, flags), replace);
      changed = other !== code;
      return other;
    };
    await bundle(dir, [{ name: "a change", transform }]);
    process.exit(changed ? 0 : 1);`;
  const { status, stderr } = spawnSync(
    process.execPath,
    ["--input-type=module", "-e", script, join(root, "dist"), `/${file}`, find.source, find.flags, replace],
    { encoding: "utf8" },
  );
  if (status !== 0) throw new Error(`the changed build could not be made:\n${stderr}`);
  return {
    main: join(root, "dist/cli/main.js"),
    [Symbol.asyncDispose]: () => rm(root, { recursive: true, force: true }),
  };
}
