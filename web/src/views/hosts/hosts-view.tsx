import type { ResponseOf } from "../../../../src/api/contract.js";
import { request } from "../../api/client.js";
import type { Gateway, Run } from "../../api/types.js";
import { Badge, type Tone } from "../../components/badge.js";
import { ErrorBox } from "../../components/error-box.js";
import { FieldList } from "../../components/field-list.js";
import { ResourceView } from "../../components/resource-view.js";
import { TimeAgo } from "../../components/time-ago.js";
import { defaults } from "../../defaults.js";
import { useResource } from "../../live/use-resource.js";
import { HostRuns } from "./host-runs.js";

type View = ResponseOf<"viewRuns">;

interface Host {
  readonly hostId: string;
  readonly name: string;
  readonly platform: string;
  readonly gateways: readonly Gateway[];
  readonly runs: readonly Run[];
}

/** The hosts of the store, with their gateways, and the runs and leases of each. */
export function HostsView() {
  const read = useResource(
    "hosts",
    async (signal) => {
      const [{ gateways }, view] = await Promise.all([
        request("listGateways", { signal }),
        request("viewRuns", { signal }),
      ]);
      return { gateways, view };
    },
    { everyMs: defaults.hostsPollMs },
  );
  return (
    <>
      <h1 class="title">Hosts</h1>
      <ResourceView resource={read}>
        {({ gateways, view }) => (
          <>
            {view.storeAway !== null && (
              <ErrorBox error={`Only the runs of this host are shown: ${view.storeAway}`} />
            )}
            <p class="quiet">
              {view.shared
                ? `The hosts share a PostgreSQL database. Every lease is on its clock, which shows ${new Date(view.now).toLocaleTimeString([], { hour12: false })}.`
                : "The store of this host is SQLite. Leases are on the monotonic clock of this machine."}
            </p>
            {hostsOf(gateways, view).map((host) => (
              <HostSection key={host.hostId} host={host} view={view} />
            ))}
          </>
        )}
      </ResourceView>
    </>
  );
}

/** The host of this gateway first, then by name. Hosts without a gateway and an open run are left out. */
function hostsOf(gateways: readonly Gateway[], view: View): readonly Host[] {
  const ids = new Set([...gateways, ...view.runs].map(({ hostId }) => hostId));
  const hosts = [...ids].map((hostId) => {
    const known = view.hosts.find((each) => each.hostId === hostId);
    const its = gateways.filter((each) => each.hostId === hostId);
    return {
      hostId,
      name: its[0]?.hostName ?? known?.name ?? "",
      platform: its[0]?.capabilities.platform ?? known?.platform ?? "",
      gateways: its,
      runs: view.runs.filter((run) => run.hostId === hostId),
    };
  });
  const here = ({ hostId }: Host): number => Number(hostId !== view.machine.hostId);
  return hosts.toSorted((one, other) => here(one) - here(other) || one.name.localeCompare(other.name));
}

function HostSection({ host, view }: { readonly host: Host; readonly view: View }) {
  const { hostId, name, platform, gateways, runs } = host;
  const here = hostId === view.machine.hostId;
  return (
    <section class="host" aria-label={`Host ${name}`}>
      <h2>
        <bdi>{name === "" ? hostId : name}</bdi>
        <span class="quiet">
          {platform}
          {here && ", the host of this page"}
        </span>
      </h2>
      {gateways.map((gateway) => (
        <GatewayFacts key={gateway.instanceId} gateway={gateway} />
      ))}
      {gateways.length === 0 && <p class="quiet">No gateway has registered on this host.</p>}
      <HostRuns runs={runs} now={view.now} comparable={view.shared || here} more={view.more} />
    </section>
  );
}

const TONES: Readonly<Record<Gateway["presence"], Tone>> = {
  up: "good",
  silent: "wait",
  unreachable: "bad",
  stopped: "quiet",
};

function GatewayFacts({ gateway }: { readonly gateway: Gateway }) {
  const { instanceId, presence, version, capabilities, address, startedAt, stoppedAt, lastHeardAt, runs } =
    gateway;
  const { arch, tier, pty, limits } = capabilities;
  return (
    <FieldList
      fields={[
        [
          "Gateway",
          <span key="id">
            <code>{instanceId}</code> <Badge tone={TONES[presence]}>{presence}</Badge>
          </span>,
        ],
        ["Open runs", runs],
        [
          "Heartbeat",
          lastHeardAt === null ? (
            "before the last boot of the host"
          ) : (
            <TimeAgo key="heard" at={lastHeardAt} />
          ),
        ],
        ["Started", <TimeAgo key="started" at={startedAt} />],
        ["Stopped", stoppedAt === null ? null : <TimeAgo key="stopped" at={stoppedAt} />],
        ["Version", `${version}, ${arch}`],
        [
          "Boundary",
          `${tier}${pty ? ", PTY" : ""}${limits.length === 0 ? "" : `, limits of ${limits.join(", ")}`}`,
        ],
        [
          "Reached at",
          address === null ? null : <code key="address">{`${address.host}:${address.port}`}</code>,
        ],
      ]}
    />
  );
}
