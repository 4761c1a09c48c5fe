import { spawnSync } from "node:child_process";
import { chmod, chown, lchown, mkdir, symlink, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { join, resolve } from "node:path";
import { afterEach, beforeEach, describe, expect, onTestFinished, test } from "vitest";
import { UnsafePath } from "../../src/errors.js";
import { findPathFault, requireOwnSocket } from "../../src/home/path-trust.js";
import { temporaryDirectory, type TemporaryDirectory } from "../support/temporary-directory.js";

const OTHER = 65_533;
const OURS = 65_532;
const whyNoOtherUser = process.getuid?.() === 0 ? null : "becoming another user needs root";

let place: TemporaryDirectory;
let path: (...names: readonly string[]) => string;

beforeEach(async () => {
  place = await temporaryDirectory();
  path = (...names) => join(place.path, ...names);
  await chmod(place.path, 0o755);
  await mkdir(path("a", "b", "c"), { recursive: true });
});
afterEach(() => place[Symbol.asyncDispose]());

/** Runs the check as an ordinary user, for whom root is another user. */
function faultFor(uid: number, wanted: string): ReturnType<typeof findPathFault> {
  if (uid === 0) return findPathFault(wanted);
  process.seteuid?.(uid);
  try {
    return findPathFault(wanted);
  } finally {
    process.seteuid?.(0);
  }
}

const ROOT_OWNED = 0;
/** Owner and mode of one directory, and whether root and an ordinary user accept it. */
const TABLE: readonly (readonly [owner: number, mode: number, root: boolean, user: boolean])[] = [
  [ROOT_OWNED, 0o755, true, true],
  [ROOT_OWNED, 0o700, true, true],
  [ROOT_OWNED, 0o1777, true, true],
  [ROOT_OWNED, 0o1775, true, true],
  [ROOT_OWNED, 0o775, false, false],
  [ROOT_OWNED, 0o757, false, false],
  [ROOT_OWNED, 0o777, false, false],
  [ROOT_OWNED, 0o2775, false, false],
  [OURS, 0o755, false, true],
  [OURS, 0o700, false, true],
  [OURS, 0o750, false, true],
  [OURS, 0o770, false, false],
  [OURS, 0o1777, false, false],
  [OTHER, 0o755, false, false],
  [OTHER, 0o555, false, false],
  [OTHER, 0o1777, false, false],
];

describe.skipIf(whyNoOtherUser !== null)("each level of a path", () => {
  const levels = [["a"], ["a", "b"], ["a", "b", "c"]];
  const cases = TABLE.flatMap((row) => levels.map((level) => [...row, level] as const));
  test.each(cases)("owner %i, mode %o: root %s, user %s, at %j", async (owner, mode, root, user, level) => {
    const at = path(...level);
    await chown(at, owner, owner);
    await chmod(at, mode);
    for (const [uid, accepts] of [
      [0, root],
      [OURS, user],
    ] as const) {
      const fault = faultFor(uid, path("a", "b", "c"));
      if (accepts) expect(fault, `uid ${uid}`).toBeNull();
      // A directory that this user cannot search ends the walk: it cannot be used either.
      else if (fault !== null || uid === 0) {
        expect(fault?.path).toBe(at);
        expect(fault?.problem).toContain(`${owner}`);
        expect(fault?.problem).toContain(`mode ${mode.toString(8).padStart(4, "0")}`);
        expect(fault?.remedy).toMatch(
          new RegExp(`chown ${OURS} '${at}'|chmod go-w '${at}'|^Run as that user`),
        );
      }
    }
  });

  test("the remedy for root is no chown, and a user is not advised to change a directory of root", async () => {
    await chown(path("a"), OTHER, OTHER);
    expect(findPathFault(path("a"))?.remedy).toBe("Run as that user, or use another path");
    await chown(path("a"), 0, 0);
    await chmod(path("a"), 0o777);
    const remedy = `chmod go-w '${path("a")}'`;
    expect(findPathFault(path("a"))?.remedy).toBe(`Run \`${remedy}\``);
    expect(faultFor(OURS, path("a"))?.remedy).toBe(`Have its owner run \`${remedy}\`, or use another path`);
  });

  test("a file at the end needs the same owner and mode; missing components are not judged", async () => {
    const file = path("a", "file");
    await writeFile(file, "");
    expect(findPathFault(file)).toBeNull();
    await chmod(file, 0o664);
    expect(findPathFault(file)?.remedy).toContain(`chmod go-w '${file}'`);
    await chmod(file, 0o644);
    await chown(file, OTHER, OTHER);
    expect(findPathFault(file)?.problem).toContain(`belongs to uid ${OTHER}`);
    expect(findPathFault(path("a", "missing", "deeper"))).toBeNull();
  });

  test("a link is followed: its owner, its own directory and every directory of its target count", async () => {
    await mkdir(path("real", "deep"), { recursive: true });
    await symlink("../real/deep", path("a", "relative"));
    await symlink(path("real"), path("a", "absolute"));
    const ways = [path("a", "relative"), path("a", "absolute", "deep")];
    for (const way of ways) expect(findPathFault(way)).toBeNull();
    await chmod(path("real"), 0o777);
    for (const way of ways) expect(findPathFault(way)?.path).toBe(path("real"));
    await chmod(path("real"), 0o755);
    await chmod(path("a"), 0o777);
    for (const way of ways) expect(findPathFault(way)?.path).toBe(path("a"));
    await chmod(path("a"), 0o1777);
    for (const way of ways) expect(findPathFault(way)).toBeNull();
    // In a sticky directory any user can create a link, and change it later.
    await lchown(path("a", "relative"), OTHER, OTHER);
    expect(findPathFault(path("a", "relative"))?.path).toBe(path("a", "relative"));
  });

  test("a circle of links ends the check", async () => {
    await symlink("two", path("a", "one"));
    await symlink("one", path("a", "two"));
    expect(findPathFault(path("a", "one", "x"))).toBeNull();
  });
});

describe.skipIf(whyNoOtherUser !== null)("a socket", () => {
  async function listen(at: string): Promise<void> {
    const server = createServer().listen(at);
    await new Promise((ready) => server.once("listening", ready));
    onTestFinished(() => void server.close());
  }

  test("of another user, a link to one, and one in an unsafe directory are refused", async () => {
    const at = path("a", "sock");
    requireOwnSocket(at);
    await listen(at);
    requireOwnSocket(at);
    await chown(at, OTHER, OTHER);
    expect(() => requireOwnSocket(at)).toThrow(UnsafePath);
    expect(() => requireOwnSocket(at)).toThrow(`belongs to uid ${OTHER}, and this is uid 0`);
    await chown(at, 0, 0);
    await symlink("sock", path("a", "link"));
    expect(() => requireOwnSocket(path("a", "link"))).toThrow("is a symbolic link");
    await chmod(path("a"), 0o777);
    expect(() => requireOwnSocket(at)).toThrow(`chmod go-w '${path("a")}'`);
  });
});

describe.skipIf(whyNoOtherUser !== null)("a directory that its group can write to", () => {
  /** Runs the check as a user of this passwd(5) and group(5), which are mounted over those of the system. */
  async function judged(passwd: string, group: string): Promise<string> {
    await writeFile(path("passwd"), `root:x:0:0::/:/bin/sh\n${passwd}`);
    await writeFile(path("group"), `root:x:0:\n${group}`);
    const script = `import { findPathFault } from ${JSON.stringify(resolve("dist/home/path-trust.js"))};
      console.log(JSON.stringify(findPathFault(${JSON.stringify(path("a", "b"))})?.path ?? null));`;
    const steps = `mount --bind '${path("passwd")}' /etc/passwd && mount --bind '${path("group")}' /etc/group &&
      exec setpriv --reuid=${OURS} --regid=${OURS} --clear-groups "$@"`;
    const node = [process.execPath, "--input-type=module", "-e", script];
    const words = ["--mount", "sh", "-c", steps, "sh", ...node];
    const { stdout, stderr } = spawnSync("unshare", words, { cwd: "/", encoding: "utf8" });
    return stdout.trim() || stderr;
  }

  const ADA = `ada:x:${OURS}:${OURS}::/home/ada:/bin/sh\n`;
  const BOB = `bob:x:${OTHER}:${OTHER}::/home/bob:/bin/sh\n`;

  test("is accepted for the user's private group only", async () => {
    await chown(path("a", "b"), OURS, OURS);
    await chmod(path("a", "b"), 0o775);
    const refused = JSON.stringify(path("a", "b"));
    expect(await judged(ADA + BOB, `ada:x:${OURS}:\nbob:x:${OTHER}:\n`)).toBe("null");
    expect(await judged(ADA, `ada:x:${OURS}:ada\n`)).toBe("null");
    expect(await judged(ADA + BOB, `ada:x:${OURS}:bob\nbob:x:${OTHER}:\n`)).toBe(refused);
    expect(await judged(`${ADA}bob:x:${OTHER}:${OURS}::/:/bin/sh\n`, `ada:x:${OURS}:\n`)).toBe(refused);
    expect(await judged(BOB, `bob:x:${OTHER}:\n`)).toBe(refused);
    await chown(path("a", "b"), OURS, OTHER);
    expect(await judged(ADA + BOB, `ada:x:${OURS}:\nbob:x:${OTHER}:ada\n`)).toBe(refused);
    await chown(path("a", "b"), OURS, OURS);
    await chmod(path("a", "b"), 0o777);
    expect(await judged(ADA, `ada:x:${OURS}:\n`)).toBe(refused);
  });
});

describe.skipIf(whyNoOtherUser !== null)("in a user namespace", () => {
  /** Runs the check as root of a namespace that maps only this uid. */
  function inside(uid: number, wanted: string): string {
    const script = `import { findPathFault } from ${JSON.stringify(resolve("dist/home/path-trust.js"))};
      console.log(JSON.stringify(findPathFault(${JSON.stringify(wanted)})?.path ?? null));`;
    const words = [
      `--reuid=${uid}`,
      `--regid=${uid}`,
      "--clear-groups",
      "unshare",
      "--user",
      "--map-root-user",
    ];
    const node = [process.execPath, "--input-type=module", "-e", script];
    const { stdout, stderr } = spawnSync("setpriv", [...words, ...node], { cwd: "/", encoding: "utf8" });
    return stdout.trim() || stderr;
  }

  test("directories of unmapped users pass above ours, and not below", async () => {
    await chown(path("a", "b"), OURS, OURS);
    expect(inside(OURS, path("a", "b"))).toBe("null");
    expect(inside(OURS, path("a", "b", "c"))).toBe(JSON.stringify(path("a", "b", "c")));
    await chown(path("a", "b", "c"), OURS, OURS);
    expect(inside(OURS, path("a", "b", "c"))).toBe("null");
    await chmod(path("a"), 0o777);
    expect(inside(OURS, path("a", "b", "c"))).toBe(JSON.stringify(path("a")));
  });
});
