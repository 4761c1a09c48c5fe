import type { RunEvent } from "../store/run-event.js";
import type { Supervisor } from "../supervisor/api.js";

/** Other supervisors write to the same table without telling: this is how late they are noticed. */
const LOOK_MS = 200;
const PAGE = 500;

/** Events as they are committed, by whichever supervisor, from a sequence number on. Ends when `gone` aborts. */
export async function* tailEvents(
  supervisor: Supervisor,
  after: number,
  runId: string | undefined,
  gone: AbortSignal,
): AsyncGenerator<RunEvent, void, undefined> {
  const filter = runId === undefined ? {} : { runId };
  let last = after;
  while (!gone.aborted) {
    const page = await supervisor.listEvents({ ...filter, after: last, limit: PAGE });
    for (const event of page) {
      last = event.seq;
      yield event;
    }
    if (page.length < PAGE) await pause(gone);
  }
}

function pause(gone: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      clearTimeout(timer);
      gone.removeEventListener("abort", done);
      resolve();
    };
    const timer = setTimeout(done, LOOK_MS);
    gone.addEventListener("abort", done, { once: true });
  });
}
