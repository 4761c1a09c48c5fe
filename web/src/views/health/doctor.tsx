import type { ResponseOf } from "../../../../src/api/contract.js";
import { request } from "../../api/client.js";
import { ResourceView } from "../../components/resource-view.js";
import { Section } from "../../components/section.js";
import { useResource } from "../../live/use-resource.js";
import { type Finding, FindingList } from "./finding-list.js";

type Check = ResponseOf<"doctor">["checks"][number];

/** The checks of `holdfast doctor`, in the environment of the gateway. Made once: they inspect the whole machine. */
export function Doctor() {
  const doctor = useResource("doctor", (signal) => request("doctor", { signal }), { runIds: [] });
  return (
    <Section title="Doctor">
      <ResourceView resource={doctor}>
        {({ checks }) => {
          const problems = checks.filter(({ state }) => state !== "ok");
          const good = checks.filter(({ state }) => state === "ok");
          return (
            <>
              {problems.length > 0 && <FindingList label="Problems" findings={problems.map(toFinding)} />}
              <details class="passed">
                <summary>{good.length} checks found nothing wrong</summary>
                <FindingList label="Passed checks" findings={good.map(toFinding)} />
              </details>
            </>
          );
        }}
      </ResourceView>
      <p class="hint">
        <button type="button" onClick={doctor.reload}>
          Check again
        </button>{" "}
        The same checks as <code>holdfast doctor</code>, in the environment of the gateway. They change
        nothing.
      </p>
    </Section>
  );
}

function toFinding({ name, state, detail, remedy }: Check, at: number): Finding {
  return {
    key: `${at} ${name}`,
    state,
    text: (
      <>
        <b>{name}</b> <bdi>{detail}</bdi>
        {remedy !== null && (
          <p class="remedy">
            → <bdi>{remedy}</bdi>
          </p>
        )}
      </>
    ),
  };
}
