import { FileLedger, ledgerIn } from "../../store/ledger/file-ledger.js";
import { runsInLedger } from "../../store/ledger/list-runs.js";
import type { RunView } from "../gateway/session-view.js";

/** The runs of this state directory, from its own copy of their records: without events and without other hosts. */
export function ledgerView(home: string): RunView {
  const ledger = new FileLedger(ledgerIn(home));
  return {
    getRun: async (runId) => (await ledger.get(runId))?.record ?? null,
    findRuns: async (prefix, limit) =>
      (await runsInLedger(ledger, {})).filter(({ runId }) => runId.startsWith(prefix)).slice(0, limit),
    listRuns: (filter) => runsInLedger(ledger, filter),
    listEvents: async () => [],
    eventsReach: async () => null,
    listHosts: async () => [],
    // Leases use the store's clock, which cannot be read here, so no lease counts as expired.
    shared: true,
    now: async () => -1,
    [Symbol.asyncDispose]: async () => undefined,
  };
}
