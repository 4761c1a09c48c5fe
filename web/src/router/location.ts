import { computed, signal } from "@preact/signals";

/** The path and query of the page. Every view has a URL of its own. */
const url = signal(new URL(location.href));

export const path = computed(() => url.value.pathname);
export const query = computed(() => url.value.searchParams);

window.addEventListener("popstate", () => (url.value = new URL(location.href)));

/** Shows another view. `replace`: without an entry in the history, for filters. */
export function navigate(to: string, { replace = false }: { readonly replace?: boolean } = {}): void {
  const next = new URL(to, location.href);
  if (next.href === location.href) return;
  if (replace) history.replaceState(null, "", next);
  else history.pushState(null, "", next);
  const moved = next.pathname !== url.peek().pathname;
  url.value = next;
  if (moved && !replace) window.scrollTo(0, 0);
}

/** Sets or (null) removes a parameter of the query, for filters that a link keeps. */
export function setQuery(name: string, value: string | null): void {
  const next = new URL(url.peek());
  if (value === null || value === "") next.searchParams.delete(name);
  else next.searchParams.set(name, value);
  navigate(next.href, { replace: true });
}

/** Removes the fragment from the address and from the history. */
export function dropFragment(): void {
  history.replaceState(null, "", `${location.pathname}${location.search}`);
  url.value = new URL(location.href);
}

/** The parameters of a pattern such as `/runs/:runId`; null: the path does not match. */
export function matchPath(pattern: string, given: string): Readonly<Record<string, string>> | null {
  const [wanted, parts] = [pattern.split("/"), given.replace(/(.)\/$/, "$1").split("/")];
  if (wanted.length !== parts.length) return null;
  const params: Record<string, string> = {};
  for (const [at, name] of wanted.entries()) {
    const part = parts[at] ?? "";
    if (name.startsWith(":")) params[name.slice(1)] = safeDecode(part);
    else if (name !== part) return null;
  }
  return params;
}

function safeDecode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** A click that the browser itself should handle: another tab, another window, a download. */
function isPlainClick(event: MouseEvent): boolean {
  return event.button === 0 && !event.metaKey && !event.ctrlKey && !event.shiftKey && !event.altKey;
}

/** Links to views of this page change the view, and load nothing. */
document.addEventListener("click", (event) => {
  const link = (event.target as Element | null)?.closest?.("a[href]");
  if (!(link instanceof HTMLAnchorElement) || link.target !== "" || link.origin !== location.origin) return;
  if (event.defaultPrevented || !isPlainClick(event) || link.hash !== "") return;
  event.preventDefault();
  navigate(link.href);
});
