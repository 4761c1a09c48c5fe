import { EmptyState } from "../../components/empty-state.js";
import { ErrorBox } from "../../components/error-box.js";
import { Section } from "../../components/section.js";
import type { Run } from "../../api/types.js";
import { useAllUsage } from "../../live/usage-of-all-runs.js";
import { endedRuns, openRuns, readAll, runsError, runsLoaded } from "../../live/runs.js";
import { viewerIsOperator } from "../../live/viewer.js";
import { setQuery } from "../../router/location.js";
import { areAllShown, forgetExceptions, PROCESSES } from "./shown-processes.js";
import { RunList } from "./run-list.js";
import { WaitingList } from "./waiting-list.js";

/** Number of ended runs that are shown below the open ones. */
const RECENT = 25;
/** The backend of agents that keep a session open. */
const AGENT_BACKEND = "acp";

/** The current work: questions that wait for an answer, agents, services, open runs, and the runs that ended last. */
export function NowView() {
  useAllUsage();
  if (!runsLoaded.value) return <p class="quiet">Loading…</p>;
  const { agents, services, tasks } = groupRuns(openRuns.value);
  const recent = endedRuns.value.slice(0, RECENT);
  return (
    <>
      <h1 class="visually-hidden">Now</h1>
      {runsError.value !== null && <ErrorBox error={runsError.value} retry={() => void readAll()} />}
      <WaitingList />
      {openRuns.value.length > 0 && viewerIsOperator() && <ProcessesSwitch />}
      {agents.length > 0 && (
        <Section title="Agents" count={agents.length}>
          <RunList label="Agents" runs={agents} />
        </Section>
      )}
      {services.length > 0 && (
        <Section title="Services" count={services.length}>
          <RunList label="Services" runs={services} />
        </Section>
      )}
      <Section title="Running" count={tasks.length}>
        {tasks.length === 0 ? (
          <EmptyState title={agents.length + services.length === 0 ? "Nothing is running" : "No other run"}>
            Start something: <code>holdfast run -- npm test</code>
          </EmptyState>
        ) : (
          <RunList label="Running" runs={tasks} />
        )}
      </Section>
      {recent.length > 0 && (
        <Section title="Ended" count={recent.length}>
          <RunList label="Ended" runs={recent} />
        </Section>
      )}
    </>
  );
}

/** Shows or hides the processes of all runs. The link keeps it. */
function ProcessesSwitch() {
  const shown = areAllShown();
  return (
    <div class="now-switch">
      <button
        type="button"
        class="plain"
        aria-pressed={shown}
        onClick={() => {
          forgetExceptions();
          setQuery(PROCESSES, shown ? null : "1");
        }}
      >
        {shown ? "Hide processes" : "Show processes"}
      </button>
    </div>
  );
}

function groupRuns(open: readonly Run[]) {
  const agents = open.filter(({ backendId }) => backendId === AGENT_BACKEND);
  const others = open.filter(({ backendId }) => backendId !== AGENT_BACKEND);
  return {
    agents,
    services: others.filter(({ kind }) => kind === "service"),
    tasks: others.filter(({ kind }) => kind !== "service"),
  };
}
