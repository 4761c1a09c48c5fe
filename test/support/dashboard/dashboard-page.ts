import { expect } from "vitest";
import type { GatewayClient } from "../../../src/api/client.js";
import type { BrowserForFile, BrowserPage } from "./browser.js";

/** Opens a view of the dashboard in a browser of its own, with the operator's rights or those of a session. */
export async function openView(
  browser: BrowserForFile,
  client: GatewayClient,
  path: string,
  {
    session,
    ...look
  }: {
    readonly width?: number;
    readonly height?: number;
    readonly dark?: boolean;
    readonly session?: string;
  } = {},
): Promise<BrowserPage> {
  const opened = await browser.open(look);
  const { url } = await client.openDashboard({ body: session === undefined ? {} : { session } });
  await opened.page.goto(url);
  // The link has been exchanged: leaving earlier would lose the login.
  await opened.page.getByTitle("connection: live").waitFor();
  if (path !== "/") await opened.page.goto(new URL(path, url).href);
  return opened;
}

/** Nothing is wider than the window. */
export async function expectNoOverflow({ page }: Pick<BrowserPage, "page">): Promise<void> {
  expect(await page.evaluate("document.documentElement.scrollWidth - innerWidth")).toBe(0);
}
