import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { request } from "../../api/client.js";
import type { Run, StopAnswer } from "../../api/types.js";
import { ResourceView } from "../../components/resource-view.js";
import { RunBadge } from "../../components/run-badge.js";
import { visibleText } from "../../components/visible-text.js";
import { useResource } from "../../live/use-resource.js";
import { isOpen } from "../../live/runs.js";
import type { ViewProps } from "../../router/view.js";
import { Outcome } from "./outcome.js";
import { Output } from "./output.js";
import { Processes } from "./processes.js";
import { Evidence, RunFacts } from "./run-facts.js";
import { StopDialog, StopResult } from "./stop-dialog.js";
import { Timeline } from "./timeline.js";

/** One run, from its record to its proven end. */
export function RunView({ params: { runId = "" } }: ViewProps) {
  const run = useResource(`run ${runId}`, (signal) => request("getRun", { params: { runId }, signal }), {
    runIds: [runId],
  });
  return <ResourceView resource={run}>{(record) => <ShownRun key={runId} run={record} />}</ResourceView>;
}

function ShownRun({ run }: { readonly run: Run }) {
  const asking = useSignal(false);
  const stopped = useSignal<StopAnswer | null>(null);
  const name = visibleText(run.labels["name"] ?? run.runId);
  useEffect(() => {
    document.title = `${name} · Holdfast`;
  }, [name]);
  const open = isOpen(run);
  return (
    <>
      <div class="run-title">
        <h1 class="title">
          <bdi>{name}</bdi> <RunBadge run={run} />
        </h1>
        {open && (
          <button type="button" class="danger" onClick={() => (asking.value = true)}>
            Stop…
          </button>
        )}
      </div>
      <pre class="command run-line">{run.command}</pre>
      {stopped.value !== null && <StopResult answer={stopped.value} />}
      {asking.value && (
        <StopDialog
          run={run}
          onStopped={(answer) => (stopped.value = answer)}
          onClose={() => (asking.value = false)}
        />
      )}
      <div class="run-columns">
        <div class="run-main">
          <Output run={run} />
          <Timeline run={run} />
        </div>
        <div class="run-side">
          <Outcome run={run} />
          {open && <Processes run={run} />}
          <RunFacts run={run} />
          <Evidence run={run} />
        </div>
      </div>
    </>
  );
}
