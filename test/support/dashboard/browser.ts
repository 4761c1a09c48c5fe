import { existsSync } from "node:fs";
import { mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type BrowserContext, chromium, type Page } from "playwright-core";
import { afterAll, onTestFinished } from "vitest";

/** Debian's browser; where it is missing, tests that need it are skipped, and counted as skipped. */
export const CHROMIUM = "/usr/bin/chromium";
export const hasBrowser = existsSync(CHROMIUM);
/** Null: the browser is installed. */
export const whyNoBrowser = hasBrowser ? null : `${CHROMIUM} is not installed (Debian's package chromium)`;
/** The options of a browser that a run starts: without a window, and with the processes of an ordinary one. */
export const CHROMIUM_FLAGS = [
  ...["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"],
  ...["--disable-background-networking", "--disable-component-update", "--disable-sync"],
  "--remote-debugging-port=0",
];

export interface BrowserPage {
  readonly page: Page;
  readonly context: BrowserContext;
  /** Problems of the page: exceptions, refused resources, and messages of its console. */
  readonly problems: readonly string[];
  /** The URLs of all requests. */
  readonly requests: readonly string[];
}

export interface BrowserForFile {
  /** A page of a browser of its own: nothing is shared with other pages. Closed after the test. */
  open(options?: {
    readonly width?: number;
    readonly height?: number;
    readonly dark?: boolean;
  }): Promise<BrowserPage>;
}

/** One browser process for all tests of a file, started by the first page. */
export function browserForFile(): BrowserForFile {
  let started: ReturnType<typeof launch> | null = null;
  afterAll(async () => (await started)?.close());
  return {
    open: async ({ width = 1440, height = 900, dark = false } = {}) => {
      started ??= launch();
      const context = await (
        await started
      ).newContext({
        viewport: { width, height },
        colorScheme: dark ? "dark" : "light",
        reducedMotion: "reduce",
      });
      onTestFinished(() => context.close());
      const problems: string[] = [];
      const requests: string[] = [];
      context.on("request", (request) => requests.push(request.url()));
      const page = await context.newPage();
      page.on("pageerror", (error) => problems.push(`exception: ${error.message}`));
      page.on("console", (message) => {
        if (["error", "warning"].includes(message.type()))
          problems.push(`${message.type()}: ${message.text()}`);
      });
      return { page, context, problems, requests };
    },
  };
}

async function launch() {
  // In a directory that the test removes: a browser leaves files in its home.
  const home = await mkdtemp(join(tmpdir(), "browser-"));
  return chromium.launch({
    executablePath: CHROMIUM,
    env: { ...process.env, HOME: home, XDG_CONFIG_HOME: home, XDG_CACHE_HOME: home },
    // Tests run as root, where the sandbox is not available, and in containers with a small /dev/shm.
    args: ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"],
  });
}

/** A picture of the whole page in the directory that `HOLDFAST_SCREENSHOTS` names; without it, none. */
export async function screenshot(page: Page, name: string): Promise<void> {
  const directory = process.env["HOLDFAST_SCREENSHOTS"];
  if (directory !== undefined)
    await page.screenshot({ path: join(directory, `${name}.png`), fullPage: true });
}
