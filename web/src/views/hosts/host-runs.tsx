import type { Run } from "../../api/types.js";
import { formatDuration } from "../../components/duration.js";
import { RunBadge } from "../../components/run-badge.js";
import { NARROW_ROW_PX, ROW_PX, VirtualList } from "../../components/virtual-list.js";
import { visibleText } from "../../components/visible-text.js";

interface HostRunsProps {
  readonly runs: readonly Run[];
  /** The time on the clock of the leases. */
  readonly now: number;
  /** The leases are on that clock. */
  readonly comparable: boolean;
  /** There are more runs than were read. */
  readonly more: boolean;
}

/** The open runs of a host, with their leases. */
export function HostRuns({ runs, now, comparable, more }: HostRunsProps) {
  if (runs.length === 0) return <p class="quiet">No run is open on this host.</p>;
  return (
    <>
      <h3>
        Open runs{" "}
        <span class="count">
          {runs.length.toLocaleString()}
          {more && ", the newest"}
        </span>
      </h3>
      <VirtualList
        label="Open runs of this host"
        items={runs}
        itemKey={({ runId }) => runId}
        render={(run) => (
          <a class="list-row run-row" href={`/runs/${run.runId}`}>
            <RunBadge run={run} />
            <span class="run-command" title={run.command}>
              {run.labels["name"] !== undefined && (
                <b>
                  <bdi>{visibleText(run.labels["name"])}</bdi>
                </b>
              )}{" "}
              <bdi>{run.command}</bdi>
            </span>
            <span class="run-facts">
              <Lease run={run} now={now} comparable={comparable} />
            </span>
          </a>
        )}
        itemHeight={ROW_PX}
        narrowItemHeight={NARROW_ROW_PX}
      />
    </>
  );
}

function Lease({ run, now, comparable }: { readonly run: Run } & Pick<HostRunsProps, "now" | "comparable">) {
  const leftMs = run.leaseExpiresAt - now;
  const owner = `owner ${run.ownerInstanceId}, epoch ${run.leaseEpoch}`;
  if (!comparable) return <span title={owner}>lease on another clock</span>;
  return leftMs > 0 ? (
    <span title={owner}>leased for {formatDuration(leftMs)}</span>
  ) : (
    <span class="lease-late" title={owner}>
      lease expired {formatDuration(-leftMs)} ago
    </span>
  );
}
