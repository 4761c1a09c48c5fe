import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { findByCommandLine, readProcess, signalProcess } from "../../support/live-processes.js";
import { waitFor } from "../../support/wait-for.js";
import { cgroupOf, LoginSession, UserManager, whyNoUserManager } from "./user-manager.js";

const SCOPE = /\/user@\d+\.service\/(?:.*\/)?holdfast-gateway-[0-9a-f]{16}\.scope$/;
const TIMEOUT_MS = 120_000;

interface Check {
  readonly name: string;
  readonly state: string;
  readonly detail: string;
  readonly remedy: string | null;
}

async function diagnose(session: LoginSession): Promise<(name: string) => Check | undefined> {
  const { checks } = await session.json<{ readonly checks: readonly Check[] }>("doctor");
  return (name) => checks.find((check) => check.name === name);
}

describe.skipIf(whyNoUserManager !== null)("in a login session without a delegated cgroup", () => {
  test(
    "the background gateway gets a delegated scope, and the runs outlive it there",
    { timeout: TIMEOUT_MS },
    async () => {
      await using manager = await UserManager.start();
      await using session = LoginSession.of(manager);
      session.use(1, { HOLDFAST_TEST_MARK: "kept $HOME" });
      const pid = await session.startGateway();
      const scope = cgroupOf(pid);
      expect(scope).toMatch(SCOPE);
      expect(readFileSync(`/proc/${pid}/environ`, "utf8").split("\0")).toEqual(
        expect.arrayContaining([
          "HOLDFAST_TEST_MARK=kept $HOME",
          `XDG_RUNTIME_DIR=${manager.runtimeDirectory}`,
        ]),
      );

      // The second process has neither the run's session nor its marker.
      const seconds = [`7101.${process.pid}`, `7102.${process.pid}`, `7103.${process.pid}`] as const;
      const script = `setsid env -i sleep ${seconds[1]} & sleep ${seconds[0]}`;
      const runId = (await session.holdfast("run", "-d", "--", "sh", "-c", script)).stdout.trim();
      const sleepers = (): number[] =>
        seconds
          .flatMap((text) => findByCommandLine(text).filter(({ argv }) => argv[0] === "sleep"))
          .map((one) => one.pid);
      await waitFor("both processes run", () => sleepers().length === 2);
      const { tier, boundary, anchor } = await session.record(runId);
      expect(tier).toMatch(/^cgroup\+launcher\+/);
      expect(boundary).toMatchObject({ note: null, cgroup: expect.stringContaining(`${scope}/holdfast-`) });
      for (const each of sleepers()) expect(cgroupOf(each)).toBe(boundary?.cgroup);
      // Not in a cgroup that has children, which could not enable controllers for them.
      const seat = cgroupOf(anchor?.pid ?? 0);
      expect(seat).toMatch(/\/holdfast-[^/]+\/sup$/);

      const first = sleepers();
      expect(await session.holdfast("gateway", "stop")).toMatchObject({ code: 0 });
      await waitFor("the gateway has ended", () => readProcess(pid) === null);
      session.use(2);
      const next = await session.startGateway();
      expect(cgroupOf(next)).toMatch(SCOPE);
      expect(cgroupOf(next)).not.toBe(scope);
      expect(manager.scopes()).toHaveLength(2);
      expect(sleepers()).toEqual(first);
      expect(cgroupOf(anchor?.pid ?? 0)).toBe(seat);

      const killed = readProcess(next);
      if (killed !== null) signalProcess(killed, "SIGKILL");
      await waitFor("the gateway is gone", () => readProcess(next) === null);
      const last = await session.startGateway();
      expect(cgroupOf(last)).toMatch(SCOPE);
      const restarted = await session.json<{ readonly pid: number }>("gateway", "restart");
      expect(cgroupOf(restarted.pid)).toMatch(SCOPE);
      expect(sleepers()).toEqual(first);
      const added = (await session.holdfast("run", "-d", "--", "sleep", seconds[2])).stdout.trim();
      expect((await session.record(added)).tier).toBe(tier);

      // Its cgroup is in the first scope, and proves that nothing is left of it.
      expect(await session.holdfast("runs", "cancel", runId)).toMatchObject({ code: 0 });
      expect(await session.waitForEnd(runId)).toMatchObject({
        exit: { reason: "manual-cancel" },
        emptiness: "proven",
      });
      expect(sleepers()).toHaveLength(1);
      expect(await session.holdfast("gateway", "stop", "--runs", "terminate")).toMatchObject({ code: 0 });
      await waitFor("no scope is left", () => manager.scopes().length === 0);
    },
  );

  test(
    "without a scope the gateway starts as usual, and the tier note says why",
    { timeout: TIMEOUT_MS },
    async () => {
      await using manager = await UserManager.start();
      const stale = join(manager.runtimeDirectory, "stale");
      mkdirSync(join(stale, "systemd"), { recursive: true });
      writeFileSync(join(stale, "systemd", "private"), "");
      const cases: readonly (readonly [NodeJS.ProcessEnv, string])[] = [
        [{ HOLDFAST_GATEWAY_SYSTEMD_SCOPE: "false" }, "gateway.systemd-scope is false"],
        [{ XDG_RUNTIME_DIR: "" }, "no systemd manager of this user is known: XDG_RUNTIME_DIR is not set"],
        [{ XDG_RUNTIME_DIR: "/nowhere" }, "no systemd manager of this user listens in /nowhere"],
        [{ XDG_RUNTIME_DIR: stale }, "systemd-run: Failed to connect to bus"],
        [{ PATH: "/nowhere" }, "systemd-run is not installed"],
      ];
      for (const [env, why] of cases) {
        await using session = LoginSession.of(manager);
        session.use(1, env);
        const pid = await session.startGateway();
        expect(cgroupOf(pid), why).toMatch(/\/session-1\.scope$/);
        const runId = (await session.holdfast("run", "-d", "--", "/bin/sleep", "7104")).stdout.trim();
        const { tier, boundary } = await session.record(runId);
        expect(tier, why).toMatch(/^subreaper\+launcher\+/);
        expect(boundary?.note).toContain("Permission denied; no scope: ");
        expect(boundary?.note).toContain(why);
      }
      expect(manager.scopes()).toEqual([]);
    },
  );

  test(
    "a manager that does not answer delays the start for a limited time",
    { timeout: TIMEOUT_MS },
    async () => {
      await using manager = await UserManager.start();
      await using session = LoginSession.of(manager);
      process.kill(manager.pid, "SIGSTOP");
      const { child, finished } = session.startWithDefaults(
        { scopeMs: 300 },
        {},
        "gateway",
        "start",
        "--json",
      );
      child.stdin.end();
      const { stdout, stderr } = await finished;
      expect(stderr).toBe("");
      const { pid } = JSON.parse(stdout) as { readonly pid: number };
      expect(cgroupOf(pid)).toMatch(/\/session-1\.scope$/);
      const runId = (await session.holdfast("run", "-d", "--", "sleep", "7105")).stdout.trim();
      expect((await session.record(runId)).boundary?.note).toContain(
        "the systemd manager did not answer within 300 ms",
      );
      const asked = session.startWithDefaults({ scopeMs: 300 }, {}, "doctor", "--json");
      asked.child.stdin.end();
      expect((await asked.finished).stdout).toContain(
        "no scope: the systemd manager of this user does not answer",
      );
    },
  );

  test("doctor says which tier runs get, why, and what a logout ends", { timeout: TIMEOUT_MS }, async () => {
    await using manager = await UserManager.start();
    await using session = LoginSession.of(manager);
    const before = await diagnose(session);
    expect(before("cgroup")).toMatchObject({
      state: "ok",
      detail: expect.stringMatching(/delegated scope .*systemd \d+/),
    });
    expect(before("tier")?.detail).toMatch(
      /^runs of the gateway get cgroup\+.* --in-process, .* get subreaper\+/,
    );
    expect(before("logout")).toMatchObject({ state: "warn", remedy: "loginctl enable-linger" });
    // Reading changes nothing.
    expect(manager.scopes()).toEqual([]);

    const started = await session.holdfast("gateway", "start");
    expect(started.stderr).toContain("end when you log out");
    const running = await diagnose(session);
    expect(running("cgroup")).toMatchObject({
      state: "ok",
      detail: expect.stringMatching(/holdfast-gateway-.* is writable/),
    });
    expect(running("logout")).toMatchObject({ state: "warn" });
    manager.setLingering();
    expect((await diagnose(session))("logout")).toMatchObject({ state: "ok" });
    await session.holdfast("gateway", "stop", "--runs", "terminate");
    expect((await session.holdfast("gateway", "start")).stderr).toBe("");
    await session.holdfast("gateway", "stop");

    session.use(1, { XDG_RUNTIME_DIR: "/nowhere" });
    const without = await diagnose(session);
    expect(without("cgroup")).toMatchObject({
      state: "warn",
      detail: expect.stringMatching(
        /cannot be written; no scope: no systemd manager of this user listens in/,
      ),
    });
    expect(without("tier")?.detail).toMatch(
      /^runs started here get subreaper\+.*: .*cannot be written; no scope/,
    );
    expect(without("logout")).toBeUndefined();
    await session.startGateway();
    session.use(1);
    expect((await diagnose(session))("cgroup")).toMatchObject({
      state: "warn",
      detail: expect.stringContaining("the gateway was started without a scope"),
      remedy: expect.stringContaining("gateway restart"),
    });
  });
});
