import { execFile } from "node:child_process";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

const root = fileURLToPath(new URL("../..", import.meta.url));

/** The store as JavaScript, fresh from its source, for child processes. Inside the project, where its packages are found. */
export async function buildStore(): Promise<{ readonly path: string } & AsyncDisposable> {
  await mkdir(join(root, "build"), { recursive: true });
  const path = await mkdtemp(join(root, "build", "store-"));
  const config = join(path, "tsconfig.json");
  await writeFile(
    config,
    JSON.stringify({
      extends: join(root, "tsconfig.json"),
      compilerOptions: { noEmit: false, outDir: path, rootDir: join(root, "src") },
      include: [join(root, "src/store")],
    }),
  );
  await promisify(execFile)(process.execPath, [join(root, "node_modules/typescript/bin/tsc"), "-p", config]);
  return {
    path: join(path, "store"),
    [Symbol.asyncDispose]: () => rm(path, { recursive: true, force: true }),
  };
}
