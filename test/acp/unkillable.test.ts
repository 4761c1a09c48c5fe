import { expect, test } from "vitest";
import { Freezer } from "../anchor/freezer.js";
import { Controlled, shellAgent } from "./controlled.js";

test.skipIf(!Freezer.isThere)(
  "a session whose tool survives KILL stays closing, says who it is, and closes when that is gone",
  async () => {
    const problems: string[] = [];
    const house = await Controlled.open({}, { onRunProblem: ({ message }) => problems.push(message) });
    const session = await house.spawn(shellAgent());
    const { text } = await house.turn(session, "sleep 3119 >/dev/null 2>&1 & echo $!");
    {
      await using frozen = new Freezer();
      frozen.freeze(Number(text));
      await frozen.settled();
      const closing = await house.acp.closeSession(session, { actor: "test" });
      expect(closing.survivors).toMatchObject([{ pid: Number(text), command: "sleep" }]);
      expect(closing.session.state).toBe("closing");
      expect(problems).toEqual([expect.stringContaining("still there after KILL")]);
      // Neither does it begin anything, nor is it told twice.
      await expect(house.ask(session, "echo on")).rejects.toMatchObject({ code: "ACP_SESSION_CLOSED" });
      const again = await house.acp.closeSession(session, { actor: "test" });
      expect(again).toMatchObject({ session: { state: "closing" }, survivors: [{ pid: Number(text) }] });
    }
    await house.until(session, async () => (await house.session(session)).state === "closed");
    await house.gone(session);
  },
);
