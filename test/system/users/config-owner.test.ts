import { chmod, chown, mkdir, readFile, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { temporaryDirectory, type TemporaryDirectory } from "../../support/temporary-directory.js";
import { type CliResult, CliFixture } from "../../support/cli/cli-fixture.js";
import { waitFor } from "../../support/wait-for.js";

const OTHER = 65_533;
const whyNoOtherUser = process.getuid?.() === 0 ? null : "becoming another user needs root";

let cliFixture: CliFixture;
let place: TemporaryDirectory;
let config: string;

beforeEach(async () => {
  cliFixture = await CliFixture.open();
  place = await temporaryDirectory();
  await mkdir(join(place.path, "config"));
  config = join(place.path, "config", "config.toml");
  await writeFile(config, '[gateway]\nlog-level = "info"\n');
});
afterEach(async () => {
  await place[Symbol.asyncDispose]();
  await cliFixture[Symbol.asyncDispose]();
});

async function holdfast(...words: readonly string[]): Promise<CliResult> {
  const { child, finished } = cliFixture.startWith({ HOLDFAST_CONFIG: config }, ...words);
  child.stdin.end();
  return finished;
}

const READERS = [
  ["run", "--", "true"],
  ["gateway", "run"],
  ["runs", "list"],
];

async function refused(sentence: string, ...others: readonly (readonly string[])[]): Promise<void> {
  for (const words of [["config", "check"], ...others]) {
    const { code, stderr } = await holdfast(...words);
    expect([code, stderr], words.join(" ")).toEqual([125, expect.stringContaining(sentence)]);
    expect(stderr).toContain(`the config file ${config} is not safe to use`);
  }
}

describe.skipIf(whyNoOtherUser !== null)("a config file is refused", () => {
  test("by every command when it belongs to another user", async () => {
    await chown(config, OTHER, OTHER);
    const sentence = `${config} belongs to uid ${OTHER} (mode 0644), and this is uid 0`;
    await refused(sentence, ...READERS);
    const { code, stdout } = await holdfast("doctor");
    expect(code).toBe(1);
    expect(stdout).toContain(sentence);
  });

  test("when its directory belongs to another user", async () => {
    await chown(join(config, ".."), OTHER, OTHER);
    await refused(`${join(config, "..")} belongs to uid ${OTHER}`);
  });

  test("when it is a link to a file that another user can write", async () => {
    const target = join(place.path, "target");
    await writeFile(target, "");
    await chmod(target, 0o666);
    config = join(place.path, "link");
    await symlink("target", config);
    await refused(
      `${target} can be written by others (mode 0666, owner uid 0). Run \`chmod go-w '${target}'\``,
    );
  });
});

test.each([0o664, 0o646, 0o666])("a config file with mode %o is refused", async (mode) => {
  await chmod(config, mode);
  await refused(`${config} can be written by others (mode 0${mode.toString(8)}`);
});

test("a config file without secrets may be read by all, also through a link", async () => {
  const link = join(place.path, "link");
  await symlink(config, link);
  config = link;
  const { code, stderr } = await holdfast("config", "check");
  expect([code, stderr]).toEqual([0, ""]);
});

test("without a config file, the directories that could hold one do not matter", async () => {
  await chmod(join(config, ".."), 0o777);
  const { child, finished } = cliFixture.startWith(
    { HOLDFAST_CONFIG: undefined, XDG_CONFIG_HOME: join(config, "..") },
    "config",
    "check",
  );
  child.stdin.end();
  expect(await finished).toMatchObject({ code: 0, stderr: "" });
});

describe("a file with the database's address", () => {
  let file: string;
  beforeEach(async () => {
    file = join(place.path, "address");
    await writeFile(file, "postgres://u:p@127.0.0.1:1/x\n", { mode: 0o600 });
    await writeFile(config, `[database]\nurl-file = ${JSON.stringify(file)}\n`);
  });

  test("is refused when others can write it", async () => {
    await chmod(file, 0o660);
    for (const words of [
      ["runs", "list"],
      ["store", "check", `url-file:${file}`],
    ]) {
      const { code, stderr } = await holdfast(...words);
      expect([code, stderr]).toEqual([125, expect.stringContaining(`chmod go-w '${file}'`)]);
    }
  });

  test("is reported once when others can read it", async () => {
    await chmod(file, 0o640);
    const { stderr } = await holdfast("runs", "list");
    expect(stderr.split(`other users can read the secret in ${file} (mode 0640)`)).toHaveLength(2);
    const { stdout } = await holdfast("doctor");
    expect(stdout).toContain(`warn  secret           other users can read the secret in ${file}`);
    await chmod(file, 0o600);
    expect((await holdfast("runs", "list")).stderr).not.toContain("other users can read");
  });
});

test("a config file with a password in it is reported when others can read it", async () => {
  await writeFile(config, '[database]\nurl = "postgres://u:p@127.0.0.1:1/x"\n');
  expect((await holdfast("runs", "list")).stderr).toContain(
    `other users can read the secret in ${config} (mode 0644). Run \`chmod 600 '${config}'\``,
  );
  await writeFile(config, '[database]\nurl = "postgres://u@127.0.0.1:1/x"\n');
  expect((await holdfast("runs", "list")).stderr).not.toContain("other users can read");
});

test("a gateway logs that others can read a secret of its config", async () => {
  await writeFile(config, '[agents.mine]\nenv = { MINE_API_KEY = "k" }\ncli = { argv = ["true"] }\n');
  const { child, finished } = cliFixture.startWith({ HOLDFAST_CONFIG: config }, "gateway", "run");
  let stderr = "";
  child.stderr.on("data", (part: Buffer) => (stderr += part.toString()));
  await waitFor("the gateway is ready", async () => stderr.includes("ready"));
  child.kill("SIGTERM");
  await finished;
  expect(stderr.split(`other users can read the secret in ${config}`)).toHaveLength(2);
  expect(await readFile(join(cliFixture.home, "gateway.log"), "utf8")).toContain(
    `other users can read the secret in ${config}`,
  );
});

describe.skipIf(whyNoOtherUser !== null)("a channel's secret file", () => {
  test("is not used when it belongs to another user", async () => {
    const secret = join(place.path, "secret");
    await writeFile(secret, "x".repeat(40), { mode: 0o600 });
    await chown(secret, OTHER, OTHER);
    await writeFile(
      config,
      `[channels.hook]\nkind = "webhook"\nurl = "https://example.com/x"\nsecrets = [{ file = ${JSON.stringify(secret)} }]\n`,
    );
    const { code, stdout } = await holdfast("doctor");
    expect(code).toBe(1);
    expect(stdout).toContain(`${secret} belongs to uid ${OTHER}`);
  });
});
