import { TimeAgo } from "../components/time-ago.js";
import { connection, lostAt, missedEvents } from "../live/connection.js";

/** Reports that the data on the page is not current. */
export function ConnectionBanner() {
  const since = lostAt.value;
  return (
    <div class="connection" role="status" aria-live="polite">
      {connection.value === "lost" && (
        <p class="connection-lost">
          Connection lost
          {since !== null && (
            <>
              {" "}
              <TimeAgo at={since} />
            </>
          )}
          . This page shows the last known state and reconnects by itself.
        </p>
      )}
      {connection.value === "restored" && (
        <p class="connection-restored">
          Connection restored.{" "}
          {missedEvents.value
            ? "The events since then are not complete, so everything was read again."
            : "Nothing was missed."}
        </p>
      )}
    </div>
  );
}
