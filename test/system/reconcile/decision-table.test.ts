import { describe, expect, test } from "vitest";
import { tiers } from "../../support/sandbox.js";
import { FIRST_INSTANCE, NEXT_INSTANCE, SharedHome } from "../../support/supervisor/shared-home.js";
import { decisionCases } from "./decision-cases.js";

describe.concurrent("an open run", () => {
  for (const each of decisionCases)
    test(each.name, async ({ skip }) => {
      const { tier = tiers.none, decision, record, told = 1 } = each;
      if (tier.whyNot !== null) skip(tier.whyNot);
      await using sharedHome = await SharedHome.open(tier);
      const supervisorProcess = await sharedHome.supervisorProcess(FIRST_INSTANCE, {
        settleMs: each.settleMs ?? null,
      });
      const runId = await each.arrange(sharedHome, supervisorProcess);
      const owner = sharedHome.column(runId, "owner_instance_id");
      const epoch = Number(sharedHome.column(runId, "lease_epoch"));
      const before = sharedHome.survivors();
      const next = await sharedHome.supervisor(each.by ?? NEXT_INSTANCE);

      const first = await next.reconcile();
      expect(first.decisions).toEqual(
        told === 0 ? [] : [{ runId, why: expect.any(String) as string, ...decision }],
      );
      const ends = "state" in record && record.state === "exited";
      if (ends) await sharedHome.ended(runId);
      expect(await next.getRun(runId)).toMatchObject(record);
      const left = decision.action === "leave";
      expect(sharedHome.reconcileDecisions(runId)).toEqual(
        Array.from({ length: told }, () => ({
          ...decision,
          why: first.decisions[0]?.why,
          by: next.instanceId,
          from: owner,
          epoch: left ? epoch : epoch + 1,
          ...(left ? {} : { process: expect.any(String) as string }),
        })),
      );
      expect(sharedHome.eventTypes(runId).filter((type) => type === "exit")).toHaveLength(ends ? 1 : 0);
      if (left && told === 1) expect(sharedHome.problems.map(({ runId: of }) => of)).toEqual([runId]);
      else expect(sharedHome.problems).toEqual([]);

      // Whoever was left alone was not even stopped.
      expect(sharedHome.survivors()).toEqual(each.alive === "nobody" ? [] : before);

      const once = sharedHome.dumpStore();
      const again = await next.reconcile();
      expect(again.decisions).toEqual(left ? first.decisions : []);
      expect(again.runs).toEqual([]);
      expect(sharedHome.dumpStore()).toEqual(once);

      await each.end?.(sharedHome, supervisorProcess, next, runId);
      await sharedHome.ended(runId);
      expect(sharedHome.eventTypes(runId).filter((type) => type === "exit")).toHaveLength(1);
      await sharedHome.stopAllRuns(next);
    });
});
