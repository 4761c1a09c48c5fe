import { expect, test } from "vitest";
import { CgroupFreezer } from "../support/anchor/cgroup-freezer.js";
import { AcpFixture, shellAgent } from "../support/agents/acp-fixture.js";

test.skipIf(!CgroupFreezer.isAvailable)(
  "a session whose tool survives KILL stays closing, names it, and closes when it is gone",
  async () => {
    const problems: string[] = [];
    const fixture = await AcpFixture.open({}, { onRunProblem: ({ message }) => problems.push(message) });
    const session = await fixture.spawn(shellAgent());
    const { text } = await fixture.promptAndWait(session, "sleep 3119 >/dev/null 2>&1 & echo $!");
    {
      await using frozen = new CgroupFreezer();
      frozen.freeze(Number(text));
      await frozen.frozen();
      const closing = await fixture.acp.closeSession(session, { actor: "test" });
      expect(closing.survivors).toMatchObject([{ pid: Number(text), command: "sleep" }]);
      expect(closing.session.state).toBe("closing");
      expect(problems).toEqual([expect.stringContaining("processes survived KILL")]);
      // Neither does it begin anything, nor is it told twice.
      await expect(fixture.prompt(session, "echo on")).rejects.toMatchObject({ code: "ACP_SESSION_CLOSED" });
      const again = await fixture.acp.closeSession(session, { actor: "test" });
      expect(again).toMatchObject({ session: { state: "closing" }, survivors: [{ pid: Number(text) }] });
    }
    await fixture.waitFor(session, async () => (await fixture.session(session)).state === "closed");
    await fixture.waitForAgentExit(session);
  },
);
