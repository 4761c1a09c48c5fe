import type { Run } from "../../api/types.js";
import { formatBytes } from "../../components/bytes.js";
import { formatDuration } from "../../components/duration.js";
import { FieldList } from "../../components/field-list.js";
import { Section } from "../../components/section.js";

const REASONS: Readonly<Record<NonNullable<Run["exit"]>["reason"], string>> = {
  exit: "The command ended by itself",
  signal: "The command was ended by a signal",
  "spawn-error": "The command could not be started",
  "manual-cancel": "It was stopped on request",
  "overall-timeout": "It ran longer than it may",
  "no-output-timeout": "It printed nothing for longer than it may",
  "ownership-escape": "It left processes behind, which were ended",
  "owner-lost": "Its owner was gone",
  lost: "How it ended is not known",
  shutdown: "It was stopped with the gateway",
};

/** The end of a run, and what is known about its remaining processes. */
export function Outcome({ run }: { readonly run: Run }) {
  const { exit, emptiness, residue, residueCount, usage } = run;
  if (exit === null) return null;
  return (
    <Section title="End">
      <FieldList
        fields={[
          ["Reason", `${REASONS[exit.reason]} (${exit.reason})`],
          ["Detail", exit.detail],
          ["Ended by", exit.actor === "" ? null : exit.actor],
          ["Status", exit.signal ?? (exit.code === null ? "not known" : `exit code ${exit.code}`)],
          ["Limit hit", exit.limitHit],
          ["Left behind", <Emptiness key="left" emptiness={emptiness} />],
          [
            "Residue",
            residueCount === 0 ? null : (
              <ul key="residue" class="stop-list">
                {residue.map(({ pid, command, kind }) => (
                  <li key={pid}>
                    <span class="number">{pid === 0 ? "?" : pid}</span> <bdi>{command}</bdi> ({kind})
                  </li>
                ))}
                {residueCount > residue.length && <li>and {residueCount - residue.length} more</li>}
              </ul>
            ),
          ],
          [
            "Usage",
            usage === null
              ? null
              : `${formatDuration(usage.cpuMs)} of CPU, ${formatBytes(usage.peakKb * 1024)} of memory ${usage.source.memory === "reaped" ? "in its largest process" : "at its peak"}, ${usage.processes} processes seen`,
          ],
        ]}
      />
    </Section>
  );
}

function Emptiness({ emptiness }: Pick<Run, "emptiness">) {
  if (emptiness === null) return <>not known</>;
  return emptiness === "proven" ? (
    <>nothing, and that is proven</>
  ) : (
    <>unproven: a process may be left that could not be seen</>
  );
}
