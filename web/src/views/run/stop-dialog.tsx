import { useSignal } from "@preact/signals";
import { request } from "../../api/client.js";
import type { Run, StopAnswer } from "../../api/types.js";
import { ConfirmDialog } from "../../components/confirm-dialog.js";
import { formatDuration } from "../../components/duration.js";
import { ResourceView } from "../../components/resource-view.js";
import { defaults } from "../../defaults.js";
import { useResource } from "../../live/use-resource.js";

interface StopDialogProps {
  readonly run: Run;
  readonly onStopped: (answer: StopAnswer) => void;
  readonly onClose: () => void;
}

/** Asks before a run is stopped, and lists the processes that will end. */
export function StopDialog({ run, onStopped, onClose }: StopDialogProps) {
  const { runId, policy } = run;
  const atOnce = useSignal(false);
  const found = useResource(
    `stop ${runId}`,
    (signal) => request("runProcesses", { params: { runId }, signal }),
    { everyMs: defaults.processesPollMs, runIds: [runId] },
  );
  const stop = async (): Promise<void> => {
    const body = atOnce.value ? { graceMs: 0 } : {};
    onStopped(await request("kill", { params: { runId }, body }));
  };
  return (
    <ConfirmDialog
      title="Stop this run?"
      action={atOnce.value ? "Kill now" : "Stop"}
      danger
      onConfirm={stop}
      onClose={onClose}
    >
      <ResourceView resource={found}>
        {({ processes, unknown }) => (
          <>
            <p>
              {processes.length === 1
                ? "This ends one process:"
                : `This ends ${processes.length} processes, and what they start meanwhile:`}
            </p>
            <ul class="stop-list" aria-label="Processes that will end">
              {processes.map(({ pid, command }) => (
                <li key={pid}>
                  <span class="quiet number">{pid}</span> <bdi>{command}</bdi>
                </li>
              ))}
            </ul>
            {unknown !== null && <p class="note note-wait">There may be more: {unknown}</p>}
          </>
        )}
      </ResourceView>
      <fieldset class="choices">
        <legend class="visually-hidden">How</legend>
        <label>
          <input type="radio" name="how" checked={!atOnce.value} onChange={() => (atOnce.value = false)} />
          <span>Ask first: TERM, and KILL after {formatDuration(policy.graceMs)}</span>
        </label>
        <label>
          <input type="radio" name="how" checked={atOnce.value} onChange={() => (atOnce.value = true)} />
          <span>Kill at once, without a chance to save anything</span>
        </label>
      </fieldset>
    </ConfirmDialog>
  );
}

/** The result of a stop. */
export function StopResult({ answer }: { readonly answer: StopAnswer }) {
  const { outcome, survivors, command } = answer;
  if (outcome === "survivors")
    return (
      <div class="note note-bad" role="alert">
        <p>These processes could not be stopped:</p>
        <ul class="stop-list" aria-label="Survivors">
          {survivors.map(({ pid, command: line, kind }) => (
            <li key={pid}>
              <span class="number">{pid}</span> <bdi>{line}</bdi> ({kind})
            </li>
          ))}
        </ul>
      </div>
    );
  return (
    <p class={`note ${outcome === "unknown" ? "note-wait" : ""}`} role="status">
      {outcome === "gone" && "Stopped: all of its processes are gone."}
      {outcome === "ended-before" && "It had ended before the stop."}
      {outcome === "unknown" && "The stop was sent; whether all processes are gone is not known."}
      {outcome === "handed-over" &&
        `The gateway ${command?.hostName ?? "of its host"} ${command?.accepted === true ? "has accepted the stop" : "carries out the stop when it runs"}.`}
    </p>
  );
}
