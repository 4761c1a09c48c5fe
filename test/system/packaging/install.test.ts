import { mkdir, readdir, readFile, rename, symlink, writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { publint } from "publint";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { plantBystander } from "../../support/bystander.js";
import { fromPage, logIn, portOf } from "../../support/gateway/dashboard-client.js";
import { execFileAsync, installTarballs, packTarballs, temporaryDirectoryForFile } from "./packages.js";

const hasPackage = process.platform === "linux" && process.arch === "x64";

interface Output {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Resolves with the output also if the command fails. */
async function runProgram(file: string, args: readonly string[], options: object): Promise<Output> {
  return execFileAsync(file, args, options).then(
    ({ stdout, stderr }) => ({ code: 0, stdout, stderr }),
    (error: unknown) => {
      const { code, stdout, stderr } = error as Output;
      return { code, stdout, stderr };
    },
  );
}

describe.skipIf(!hasPackage)("installed from its packages, without scripts, into an empty project", () => {
  let project: string;
  let env: NodeJS.ProcessEnv;
  const holdfast = (...args: string[]): Promise<Output> =>
    runProgram(join(project, "node_modules/.bin/holdfast"), args, { cwd: project, env });

  beforeAll(async () => {
    const directory = await temporaryDirectoryForFile();
    const packed = await packTarballs(["linux-x64"], join(directory, "packages"));
    project = join(directory, "project");
    // A PATH without a compiler.
    const bin = join(directory, "bin");
    await mkdir(bin);
    await mkdir(project);
    await symlink(process.execPath, join(bin, "node"));
    await symlink("/bin/sh", join(bin, "sh"));
    await symlink("/bin/sleep", join(bin, "sleep"));
    env = { PATH: bin, HOME: directory, HOLDFAST_HOME: join(directory, "h") };
    await installTarballs(project, packed, { env });
  }, 600_000);

  afterAll(() => holdfast("gateway", "stop", "--runs", "terminate"));

  test("runs a command, and its exit code is the command's", async () => {
    expect(await holdfast("run", "--in-process", "--", "sh", "-c", "echo hi; exit 7")).toEqual({
      code: 7,
      stdout: "hi\n",
      stderr: "",
    });
  });

  test("starts a gateway for background runs", async () => {
    plantBystander("sleep", ["1000"]);
    const started = await holdfast("run", "--detach", "--", "sleep", "1000");
    expect(started).toMatchObject({ code: 0, stderr: expect.stringContaining("started a gateway") });
    const runId = started.stdout.trim();
    expect(JSON.parse((await holdfast("ps", "--json")).stdout)).toMatchObject([
      { runId, state: "running", processes: [{ command: "sleep" }] },
    ]);
    expect((await holdfast("process", "kill", runId)).stdout).toContain(`${runId} is gone`);
  });

  test("finds its anchor in the package, as doctor reports", async () => {
    const { checks } = JSON.parse((await holdfast("doctor", "--json")).stdout) as {
      checks: { name: string; detail: string }[];
    };
    expect(checks.find(({ name }) => name === "anchor")?.detail).toContain(
      `${project}/node_modules/@holdfast/anchor-linux-x64/bin/anchor runs`,
    );
  });

  test("is a library", async () => {
    const script = `
      import { openSupervisor } from "holdfast";
      const supervisor = await openSupervisor();
      const run = await supervisor.spawn({ io: "pipe", argv: ["sh", "-c", "exit 3"] });
      const { exit, emptiness } = await run.wait();
      console.log(exit.code, emptiness);
      await supervisor.close();`;
    const output = await runProgram(process.execPath, ["--input-type=module", "-e", script], {
      cwd: project,
      env,
    });
    expect(output).toEqual({ code: 0, stdout: "3 proven\n", stderr: "" });
  });

  test("serves the dashboard at the link of --json, and installs no package for it", async () => {
    const { code, stdout } = await holdfast("dashboard", "--json");
    expect(code).toBe(0);
    const { url } = JSON.parse(stdout) as { url: string };
    const page = await (await fetch(url)).text();
    const [, script = ""] = /<script[^>]* src="([^"]+)"/.exec(page) ?? [];
    const [, icon = ""] = /<link rel="icon"[^>]* href="([^"]+)"/.exec(page) ?? [];
    const types = await Promise.all(
      [script, icon].map(async (path) => (await fetch(new URL(path, url))).headers.get("content-type")),
    );
    expect(types).toEqual(["text/javascript; charset=utf-8", "image/svg+xml"]);
    const asPage = { headers: fromPage(portOf(url)) };
    expect((await fetch(new URL("/v1/runs", url), asPage)).status).toBe(401);
    const { token, cookie } = await logIn(url);
    const headers = { ...asPage.headers, cookie, "holdfast-page-token": token };
    expect((await fetch(new URL("/v1/runs", url), { headers })).status).toBe(200);
    const installed = await readdir(join(project, "node_modules"));
    const licenses = await readFile(join(project, "node_modules/holdfast/THIRD-PARTY-LICENSES"), "utf8");
    const inPage = JSON.parse(await readFile("dist/web-packages.json", "utf8")) as string[];
    expect(inPage).toEqual(expect.arrayContaining(["@preact/signals", "@preact/signals-core", "preact"]));
    for (const name of inPage) {
      expect(licenses.split("\n")).toContain(name);
      expect(installed).not.toContain(name);
    }
  });

  test("has types that compile, also where declarations are checked", async () => {
    const program = `
      import { createClient, openSupervisor, type RunRecord } from "holdfast";
      await using supervisor = await openSupervisor();
      const run = await supervisor.spawn({ io: "pipe", argv: ["true"] }, { timeoutMs: 1_000 });
      const record: RunRecord = await run.wait();
      const { runs } = await createClient({ socketPath: "x", token: "y" }).listRuns({ query: { limit: 1 } });
      export const ids: string[] = [record.runId, ...runs.map(({ runId }) => runId)];
      // @ts-expect-error -- a state is one of four
      export const wrong: RunRecord["state"] = "gone";
    `;
    await writeFile(join(project, "use.ts"), program);
    const flags = "--noEmit --strict --module nodenext --target es2023 --lib es2023,esnext.disposable";
    const types = ["--types", "node", "--typeRoots", resolve("node_modules/@types")];
    const tsc = resolve("node_modules/typescript/bin/tsc");
    const args = [tsc, ...flags.split(" "), ...types, "use.ts"];
    expect(await runProgram(process.execPath, args, { cwd: project })).toEqual({
      code: 0,
      stdout: "",
      stderr: "",
    });
  });

  test.each(["holdfast", "@holdfast/anchor-linux-x64"])("as %s passes publint", async (name) => {
    const pkgDir = join(project, "node_modules", name);
    expect((await publint({ pkgDir, pack: false, strict: true })).messages).toEqual([]);
  });

  describe("whose anchor package", () => {
    const anchorPackage = (): string => join(project, "node_modules/@holdfast/anchor-linux-x64");
    const expectClear = async (sentence: RegExp): Promise<void> => {
      const output = await holdfast("run", "--in-process", "--", "echo", "hi");
      expect(output).toEqual({ code: 125, stdout: "", stderr: expect.stringMatching(sentence) });
      const { stdout } = await holdfast("doctor", "--json");
      const { checks } = JSON.parse(stdout) as { checks: { name: string; state: string; detail: string }[] };
      expect(checks.find(({ name }) => name === "anchor")).toMatchObject({
        state: "bad",
        detail: expect.stringMatching(sentence),
      });
    };

    test("has another version is refused", async () => {
      const manifest = join(anchorPackage(), "package.json");
      const text = await readFile(manifest, "utf8");
      await writeFile(manifest, text.replace(/"version": "[^"]+"/, '"version": "99.0.0"'));
      await expectClear(/@holdfast\/anchor-linux-x64 is version 99\.0\.0, but holdfast is \d/);
      await writeFile(manifest, text);
    });

    test("is missing is named with the command to install it", async () => {
      await rename(anchorPackage(), join(project, "away"));
      await expectClear(/npm install @holdfast\/anchor-linux-x64@\d/);
      await rename(join(project, "away"), anchorPackage());
    });
  });
});
