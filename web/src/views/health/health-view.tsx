import { request } from "../../api/client.js";
import type { GatewayStatus } from "../../api/types.js";
import { Badge } from "../../components/badge.js";
import { FieldList } from "../../components/field-list.js";
import { ResourceView } from "../../components/resource-view.js";
import { TimeAgo } from "../../components/time-ago.js";
import { defaults } from "../../defaults.js";
import { useResource } from "../../live/use-resource.js";
import { viewerIsOperator } from "../../live/viewer.js";
import { Doctor } from "./doctor.js";
import { Findings } from "./findings.js";
import { GatewayHistory } from "./gateway-history.js";

/** The health of the gateway and its store, and its actions about lost owners and leftover processes. */
export function HealthView() {
  const status = useResource("status", (signal) => request("status", { signal }), {
    everyMs: defaults.statusPollMs,
  });
  return (
    <>
      <h1 class="title">Health</h1>
      <ResourceView resource={status}>
        {(value) => (
          <>
            {viewerIsOperator() && <Findings status={value} />}
            <StatusFacts status={value} />
          </>
        )}
      </ResourceView>
      {viewerIsOperator() && (
        <>
          <Doctor />
          <GatewayHistory />
        </>
      )}
    </>
  );
}

function StatusFacts({ status }: { readonly status: GatewayStatus }) {
  const { ready, storeAway, storeWrites, version, pid, home, startedAt, runs, listen } = status;
  return (
    <FieldList
      fields={[
        [
          "Gateway",
          <Badge key="ready" tone={ready ? "good" : "wait"}>
            {ready ? "ready" : "starting"}
          </Badge>,
        ],
        [
          "Store",
          <Badge key="store" tone={storeAway === null && storeWrites.writable ? "good" : "bad"}>
            {storeAway ?? storeWrites.refusal ?? "readable and writable"}
          </Badge>,
        ],
        ["Open runs", runs],
        ["Started", <TimeAgo key="started" at={startedAt} />],
        ["Version", version],
        ["Process", pid],
        ["State directory", <code key="home">{home}</code>],
        ["Listens on", listen],
      ]}
    />
  );
}
