import { request } from "../../api/client.js";
import type { GatewayStatus } from "../../api/types.js";
import { ErrorBox } from "../../components/error-box.js";
import { Section } from "../../components/section.js";
import { TimeAgo } from "../../components/time-ago.js";
import { defaults } from "../../defaults.js";
import { useResource } from "../../live/use-resource.js";
import { type Finding, FindingList } from "./finding-list.js";

/** Beyond so many tasks, a list says no more than their number. */
const TASKS_SHOWN = 20;

/** Problems that need the operator's attention: of the store, of other gateways, and of tasks. */
export function Findings({ status }: { readonly status: GatewayStatus }) {
  const audit = useResource(
    "findings",
    async (signal) => {
      const [{ findings }, { gateways }] = await Promise.all([
        request("auditTasks", { signal }),
        request("listGateways", { signal }),
      ]);
      return { findings, gateways };
    },
    { everyMs: defaults.auditPollMs },
  );
  const found = storeFindings(status);
  for (const { instanceId, hostName, presence, lastHeardAt } of audit.value?.gateways ?? [])
    if (presence === "silent" || presence === "unreachable")
      found.push({
        key: instanceId,
        state: presence === "silent" ? "warn" : "bad",
        text: (
          <>
            The gateway on <bdi>{hostName}</bdi> (<code>{instanceId}</code>) sends no heartbeat
            {lastHeardAt !== null && (
              <>
                , the last one <TimeAgo at={lastHeardAt} />
              </>
            )}
            . <a href="/hosts">Its runs</a>
          </>
        ),
      });
  const tasks = audit.value?.findings ?? [];
  for (const { code, taskId, detail } of tasks.slice(0, TASKS_SHOWN))
    found.push({
      key: `${taskId} ${code}`,
      state: "warn",
      text: (
        <>
          <a href={`/tasks/${taskId}`}>{taskId}</a>: <bdi>{detail}</bdi>
        </>
      ),
    });
  if (tasks.length > TASKS_SHOWN)
    found.push({
      key: "more",
      state: "warn",
      text: `${tasks.length - TASKS_SHOWN} more tasks: holdfast tasks audit`,
    });
  return (
    <Section title="Findings" count={found.length}>
      {audit.error !== null && <ErrorBox error={audit.error} retry={audit.reload} />}
      <FindingList
        label="Findings"
        findings={
          found.length === 0
            ? [{ key: "none", state: "ok", text: "The store, the gateways and the tasks need no attention." }]
            : found
        }
      />
    </Section>
  );
}

function storeFindings({ ready, storeAway, storeWrites }: GatewayStatus): Finding[] {
  const found: Finding[] = [];
  if (storeAway !== null)
    found.push({ key: "away", state: "bad", text: `The store cannot be read: ${storeAway}` });
  if (!storeWrites.writable)
    found.push({
      key: "writes",
      state: "bad",
      text: (
        <>
          The store cannot be written{storeWrites.refusal === null ? "" : `: ${storeWrites.refusal}`}
          {storeWrites.since !== null && (
            <>
              , since <TimeAgo at={storeWrites.since} />
            </>
          )}
          ; {storeWrites.backlog} writes wait.
        </>
      ),
    });
  if (!ready)
    found.push({ key: "ready", state: "warn", text: "The gateway reconciles the runs of its predecessor." });
  return found;
}
