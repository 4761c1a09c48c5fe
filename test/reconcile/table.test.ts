import { describe, expect, test } from "vitest";
import { tiers } from "../tree/seat.js";
import { House } from "./house.js";
import { FIRST, NEXT } from "./orphan.js";
import { cases } from "./rows.js";

describe.concurrent("a run without an end on record", () => {
  for (const each of cases)
    test(each.name, async ({ skip }) => {
      const { tier = tiers.none, decision, record, told = 1 } = each;
      if (tier.whyNot !== null) skip(tier.whyNot);
      await using house = await House.open(tier);
      const keeper = await house.keeper(FIRST, { settleMs: each.settleMs ?? null });
      const runId = await each.arrange(house, keeper);
      const owner = house.column(runId, "owner_instance_id");
      const epoch = Number(house.column(runId, "lease_epoch"));
      const before = house.alive();
      const next = await house.supervisor(each.by ?? NEXT);

      const first = await next.reconcile();
      expect(first.decisions).toEqual(
        told === 0 ? [] : [{ runId, why: expect.any(String) as string, ...decision }],
      );
      const ends = "state" in record && record.state === "exited";
      if (ends) await house.ended(runId);
      expect(await next.getRun(runId)).toMatchObject(record);
      const left = decision.action === "leave";
      expect(house.decisions(runId)).toEqual(
        Array.from({ length: told }, () => ({
          ...decision,
          why: first.decisions[0]?.why,
          by: next.instanceId,
          from: owner,
          epoch: left ? epoch : epoch + 1,
          ...(left ? {} : { process: expect.any(String) as string }),
        })),
      );
      expect(house.eventTypes(runId).filter((type) => type === "exit")).toHaveLength(ends ? 1 : 0);
      if (left && told === 1) expect(house.problems.map(({ runId: of }) => of)).toEqual([runId]);
      else expect(house.problems).toEqual([]);

      // Whoever was left alone was not even stopped.
      expect(house.alive()).toEqual(each.alive === "nobody" ? [] : before);

      const once = house.everything();
      const again = await next.reconcile();
      expect(again.decisions).toEqual(left ? first.decisions : []);
      expect(again.runs).toEqual([]);
      expect(house.everything()).toEqual(once);

      await each.end?.(house, keeper, next, runId);
      await house.ended(runId);
      expect(house.eventTypes(runId).filter((type) => type === "exit")).toHaveLength(1);
      await house.tidy(next);
    });
});
