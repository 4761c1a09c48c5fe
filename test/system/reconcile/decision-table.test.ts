import { describe, expect, test } from "vitest";
import { tiers } from "../../support/sandbox.js";
import { soak } from "../../support/scale.js";
import { FIRST_INSTANCE, NEXT_INSTANCE, SharedHome } from "../../support/supervisor/shared-home.js";
import { decisionCases } from "./decision-cases.js";

describe.concurrent("an open run", () => {
  for (const each of decisionCases.filter(({ coveredBy }) => soak || coveredBy === undefined))
    test(each.name, async ({ skip }) => {
      const { tier = tiers.none, decision, record, settleMs = null, untouched = false } = each;
      if (tier.whyNot !== null) skip(tier.whyNot);
      await using home = await SharedHome.open(tier);
      const first = await home.supervisorProcess(FIRST_INSTANCE, { settleMs });
      const runId = await each.arrange(home, first);
      const owner = home.column(runId, "owner_instance_id");
      const epoch = Number(home.column(runId, "lease_epoch"));
      const before = home.survivors();
      const next = await home.supervisor(each.by ?? NEXT_INSTANCE);

      const { decisions } = await next.reconcile();
      const left = decision.action === "leave";
      // A healthy run gets no decision and no event.
      const isHealthy = decision.row === "healthy";
      const why = expect.any(String) as string;
      expect(decisions).toEqual(isHealthy ? [] : [{ runId, why, ...decision }]);
      const ends = "state" in record && record.state === "exited";
      if (ends) await home.ended(runId);
      expect(await next.getRun(runId)).toMatchObject(record);
      expect(home.reconcileDecisions(runId)).toEqual(
        decisions.map((decided) => ({
          ...decision,
          why: decided.why,
          by: next.instanceId,
          from: owner,
          epoch: left ? epoch : epoch + 1,
          ...(left ? {} : { process: expect.any(String) as string }),
        })),
      );
      expect(home.eventTypes(runId).filter((type) => type === "exit")).toHaveLength(ends ? 1 : 0);
      expect(home.problems.map((problem) => problem.runId)).toEqual(left && !isHealthy ? [runId] : []);
      // A process that was left alone was not even stopped.
      expect(home.survivors()).toEqual(untouched ? before : []);

      const after = home.dumpStore();
      const again = await next.reconcile();
      expect(again).toEqual({ decisions: left ? decisions : [], runs: [] });
      expect(home.dumpStore()).toEqual(after);

      await each.end?.(home, first, next, runId);
      await home.ended(runId);
      expect(home.eventTypes(runId).filter((type) => type === "exit")).toHaveLength(1);
      await home.stopAllRuns(next);
    });
});
