import { useSignal } from "@preact/signals";
import type { ComponentType } from "preact";
import { useEffect } from "preact/hooks";
import type { Run } from "../../api/types.js";
import { ErrorBox } from "../../components/error-box.js";
import { query, setQuery } from "../../router/location.js";
import { LogPane } from "./log/log-pane.js";

type Tab = "terminal" | "stdout" | "stderr";

const TITLES: Readonly<Record<Tab, string>> = { terminal: "Terminal", stdout: "Output", stderr: "Errors" };

/** The output of a run: as a terminal, or as the text of a stream. The link keeps the choice. */
export function Output({ run }: { readonly run: Run }) {
  // A terminal has one stream.
  const tabs: readonly Tab[] = run.io === "pty" ? ["terminal", "stdout"] : ["stdout", "stderr"];
  const wanted = query.value.get("output");
  const shown = tabs.find((tab) => tab === wanted) ?? tabs[0] ?? "stdout";
  return (
    <section class="section" aria-label="Output">
      <div class="tabs" role="group" aria-label="Output">
        {tabs.map((tab) => (
          <button
            key={tab}
            type="button"
            aria-pressed={tab === shown}
            onClick={() => setQuery("output", tab === tabs[0] ? null : tab)}
          >
            {run.io === "pty" && tab === "stdout" ? "Log" : TITLES[tab]}
          </button>
        ))}
      </div>
      {shown === "terminal" ? <LazyTerminal run={run} /> : <LogPane key={shown} run={run} stream={shown} />}
    </section>
  );
}

function LazyTerminal({ run }: { readonly run: Run }) {
  const loaded = useSignal<{ readonly Pane: ComponentType<{ run: Run }> } | null>(null);
  const error = useSignal<unknown>(null);
  useEffect(() => {
    import("./terminal/terminal-pane.js").then(
      ({ TerminalPane }) => (loaded.value = { Pane: TerminalPane }),
      (cause: unknown) => (error.value = cause),
    );
  }, []);
  if (error.value !== null) return <ErrorBox error={error.value} />;
  const Pane = loaded.value?.Pane;
  return Pane === undefined ? <p class="quiet">Loading…</p> : <Pane run={run} />;
}
