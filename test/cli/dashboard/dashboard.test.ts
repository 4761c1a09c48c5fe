import { once } from "node:events";
import { chmod, readFile, stat, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { hostname } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";
import { BackgroundGateway } from "../../support/cli/background-gateway.js";
import type { CliResult, DefaultOverrides } from "../../support/cli/cli-fixture.js";
import { askDashboard, logIn, portOf } from "../../support/gateway/dashboard-client.js";
import { waitFor } from "../../support/wait-for.js";

/** Without the variables of the person who runs the tests. */
const NO_SCREEN = {
  ...{ DISPLAY: undefined, WAYLAND_DISPLAY: undefined, BROWSER: undefined },
  ...{ SSH_CONNECTION: undefined, SSH_TTY: undefined },
};
/** A browser that runs for longer than its command line waits must not make the test wait. */
const SHORT: DefaultOverrides = { dashboardBrowserMs: 200 };

let fixture: BackgroundGateway;
beforeAll(async () => {
  fixture = await BackgroundGateway.started();
});
afterAll(async () => {
  await (await fixture.client()).closeDashboard();
  await fixture[Symbol.asyncDispose]();
});

async function dashboard(
  env: NodeJS.ProcessEnv,
  words: readonly string[] = [],
  numbers: DefaultOverrides | null = null,
): Promise<CliResult> {
  const all = { ...NO_SCREEN, ...env };
  const { child, finished } =
    numbers === null
      ? fixture.startWith(all, "dashboard", ...words)
      : fixture.startWithDefaults(numbers, all, "dashboard", ...words);
  child.stdin.end();
  return finished;
}

/** A program that records its arguments, and then does `then`. */
async function fakeBrowser(
  name: string,
  then = "",
): Promise<{ readonly path: string; readonly record: string }> {
  const path = join(fixture.home, name);
  const record = `${path}.record`;
  await writeFile(
    path,
    `#!/bin/sh\nprintf '%s\\n' $$ "$@" > '${record}.new'; mv '${record}.new' '${record}'\n${then}\n`,
  );
  await chmod(path, 0o755);
  return { path, record };
}

test("the browser gets a private file that leads to the link, and never the link", async () => {
  const { path, record } = await fakeBrowser("browser");
  const { code, stdout, stderr } = await dashboard({ BROWSER: `/nonexistent/browser:${path} --new-window` });
  expect({ code, stderr }).toEqual({
    code: 0,
    stderr: "holdfast: the link works once, within 2m\n",
  });
  const url = stdout.trim();
  const [, option, file = ""] = (await readFile(record, "utf8")).trim().split("\n");
  expect(option).toBe("--new-window");
  expect(file).not.toContain(new URL(url).hash);
  expect(await readFile(fileURLToPath(file), "utf8")).toContain(`content="0; url=${url}"`);
  expect((await stat(fileURLToPath(file))).mode & 0o777).toBe(0o600);
  await logIn(url);
});

test("a browser that runs on is not waited for, and Ctrl-C does not end it", async () => {
  const { path, record } = await fakeBrowser("slow-browser", "exec sleep 3600");
  const slow = await dashboard({ BROWSER: path }, [], SHORT);
  expect(slow).toMatchObject({ code: 0, stderr: "holdfast: the link works once, within 2m\n" });
  const first = Number((await readFile(record, "utf8")).split("\n")[0]);
  await writeFile(record, "");
  const { child, finished } = fixture.startWithDefaults(
    { dashboardBrowserMs: 3_600_000 },
    { ...NO_SCREEN, BROWSER: path },
    "dashboard",
  );
  await waitFor("the browser is started", async () => (await readFile(record, "utf8")) !== "");
  const second = Number((await readFile(record, "utf8")).split("\n")[0]);
  child.kill("SIGINT");
  const { signal, stdout } = await finished;
  expect(signal).toBe("SIGINT");
  for (const pid of [first, second]) {
    // In another session, so that the terminal does not signal it.
    const [, , , session] = /\) . (\d+) (\d+) (\d+)/.exec(await readFile(`/proc/${pid}/stat`, "utf8")) ?? [];
    expect(session).toBe(String(pid));
    // oxlint-disable-next-line no-restricted-properties -- the browser of this test, which has recorded its number
    process.kill(pid, "SIGKILL");
  }
  await logIn(stdout.trim());
});

test("a browser that fails is named, and the link stays valid", async () => {
  const { path } = await fakeBrowser("broken-browser", "exit 3");
  const { code, stdout, stderr } = await dashboard({ BROWSER: path });
  expect(code).toBe(0);
  expect(stderr).toContain(
    `no browser could be started (${path} ended with exit code 3); open the link yourself`,
  );
  await logIn(stdout.trim());
});

test("without a display, and through SSH, the command says how to open the link", async () => {
  const headless = await dashboard({});
  const port = portOf(headless.stdout.trim());
  const forward = `ssh -L ${port}:127.0.0.1:${port} ${hostname()}`;
  expect(headless.stderr).toContain("there is no display; open the link in a browser of this machine");
  expect(headless.stderr).toContain(forward);
  const remote = await dashboard({ SSH_CONNECTION: "192.0.2.1 50000 192.0.2.2 22" });
  expect(remote.stderr).toContain("this shell came through SSH; on your machine run");
  expect(remote.stderr).toContain(forward);
  for (const { code, stdout } of [headless, remote]) {
    expect(code).toBe(0);
    await logIn(stdout.trim());
  }
});

test("--json and --no-open start no browser", async () => {
  const { path, record } = await fakeBrowser("unwanted-browser");
  for (const flag of ["--json", "--no-open"]) {
    const { code, stdout } = await dashboard({ BROWSER: path }, [flag]);
    expect(code).toBe(0);
    const url = flag === "--json" ? (JSON.parse(stdout) as { url: string }).url : stdout.trim();
    expect((await askDashboard(portOf(url), {})).status).toBe(200);
  }
  await expect(stat(record)).rejects.toMatchObject({ code: "ENOENT" });
});

test("a port that is taken and a session that does not exist are errors, and serve nothing", async () => {
  await dashboard({}, ["--close"]);
  await using taken = createServer().listen(0, "127.0.0.1");
  await once(taken, "listening");
  const { port } = taken.address() as { readonly port: number };
  const refused = await dashboard({}, ["--port", String(port)]);
  expect(refused).toMatchObject({ code: 125, stdout: "" });
  expect(refused.stderr).toContain(`cannot listen on 127.0.0.1:${port}`);
  const unknown = await dashboard({}, ["--session", "nobody"]);
  expect(unknown).toMatchObject({ stdout: "" });
  expect(unknown.stderr).toContain("nobody");
  expect(unknown.code).not.toBe(0);
  expect(await dashboard({}, ["--close", "--json"])).toMatchObject({
    code: 0,
    stdout: '{\n  "closed": false\n}\n',
  });
});
