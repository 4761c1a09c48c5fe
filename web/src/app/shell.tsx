import { useSignal } from "@preact/signals";
import type { ComponentType } from "preact";
import { useEffect } from "preact/hooks";
import { EmptyState } from "../components/empty-state.js";
import { ErrorBox } from "../components/error-box.js";
import { connection } from "../live/connection.js";
import { ConnectionBanner } from "./connection-banner.js";
import { matchPath, path } from "../router/location.js";
import { endLogin, viewedSession } from "./login.js";
import { ThemeSwitch } from "./theme-switch.js";
import { viewerIsOperator } from "../live/viewer.js";
import type { View, ViewProps } from "../router/view.js";
import { views } from "./views.js";

/** The frame of all views: navigation, connection, and the view of the current path. */
export function Shell() {
  const found = currentView();
  useEffect(() => {
    document.title = `${found?.view.title ?? "Not found"} · Holdfast`;
  }, [found?.view]);
  return (
    <div class="shell">
      <a class="skip-link" href="#content">
        Skip to the content
      </a>
      <header class="topbar">
        <a class="brand" href="/">
          Holdfast
        </a>
        <nav class="navigation" aria-label="Views">
          {views
            .filter(
              ({ navigation, operatorOnly }) =>
                navigation !== null && (operatorOnly !== true || viewerIsOperator()),
            )
            .map((view) => (
              <a
                key={view.pattern}
                href={view.navigation ?? "/"}
                aria-current={isCurrent(view, found?.view) ? "page" : undefined}
              >
                {view.title}
              </a>
            ))}
        </nav>
        <div class="topbar-end">
          <span class={`connection-dot ${connection.value}`} title={`connection: ${connection.value}`} />
          <ThemeSwitch />
          <button type="button" class="plain" onClick={() => void endLogin()}>
            Log out
          </button>
        </div>
      </header>
      {typeof viewedSession.value === "string" && (
        <p class="session-note">
          This is what session <code>{viewedSession.value}</code> may see and do.
        </p>
      )}
      <ConnectionBanner />
      <main id="content" tabIndex={-1}>
        {found === null ? (
          <EmptyState title="There is no such view">
            <a href="/">Back to all runs</a>
          </EmptyState>
        ) : (
          <LoadedView key={found.view.pattern} view={found.view} params={found.params} />
        )}
      </main>
    </div>
  );
}

function currentView(): { readonly view: View; readonly params: ViewProps["params"] } | null {
  for (const view of views) {
    const params = matchPath(view.pattern, path.value);
    if (params !== null) return { view, params };
  }
  return null;
}

/** A detail page belongs to the entry whose path begins its own. */
function isCurrent({ navigation }: View, shown: View | undefined): boolean {
  if (navigation === null || shown === undefined) return false;
  return navigation === "/"
    ? shown.pattern === "/" || shown.pattern.startsWith("/runs")
    : shown.pattern.startsWith(navigation);
}

function LoadedView({ view, params }: { readonly view: View; readonly params: ViewProps["params"] }) {
  const loaded = useSignal<{ readonly Component: ComponentType<ViewProps> } | null>(null);
  const error = useSignal<unknown>(null);
  useEffect(() => {
    view.load().then(
      (Component) => (loaded.value = { Component }),
      (cause: unknown) => (error.value = cause),
    );
  }, [view]);
  if (error.value !== null) return <ErrorBox error={error.value} />;
  const Component = loaded.value?.Component;
  return Component === undefined ? <p class="quiet">Loading…</p> : <Component params={params} />;
}
