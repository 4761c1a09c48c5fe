import { readFileSync } from "node:fs";
import { mkdir, writeFile } from "node:fs/promises";
import { dirname } from "node:path";
import type { Page } from "playwright-core";
import { expect } from "vitest";
import { pages } from "../../system/docs/pages.js";

/** Set to 1 to write the images of the docs. Look at them before committing them. */
const writing = process.env["HOLDFAST_WRITE_IMAGES"] === "1";

export const IMAGES = "docs/images";
/** README and docs are read on phones, too. */
const MAX_BYTES = 150_000;
const QUALITY = 82;

/** Images of the dashboard that tests make, and the recording that scripts/recording makes. */
export const docImages = {
  "now.webp": "test/system/dashboard/doc-images.test.ts",
  "now-phone.webp": "test/system/dashboard/doc-images.test.ts",
  "run.webp": "test/system/dashboard/doc-images.test.ts",
  "session.webp": "test/system/dashboard/doc-images.test.ts",
  "approval.webp": "test/system/dashboard/doc-images.test.ts",
  "first-run.svg": "scripts/recording/record-readme.mjs",
} as const;

type WebpName = Extract<keyof typeof docImages, `${string}.webp`>;

/** Takes the visible part of the page as an image of the docs. Its text must not show this checkout. */
export async function docImage(page: Page, name: WebpName): Promise<void> {
  const text = await page.locator("body").innerText();
  expect(text).not.toContain(process.cwd());
  expect(text).not.toMatch(/Loading…/);
  const session = await page.context().newCDPSession(page);
  const { data } = await session.send("Page.captureScreenshot", { format: "webp", quality: QUALITY });
  await session.detach();
  const image = Buffer.from(data, "base64");
  expect(image.length, name).toBeLessThan(MAX_BYTES);
  if (!writing) return;
  const path = `${IMAGES}/${name}`;
  await mkdir(dirname(path), { recursive: true });
  await writeFile(path, image);
}

/** The paths of the images that README and docs show, below the checkout. */
export function shownImages(): string[] {
  return pages.flatMap((page) =>
    [...readFileSync(page, "utf8").matchAll(/!\[[^\]]*\]\(([^)]+)\)|<img[^>]*\bsrc="([^"]+)"/g)].flatMap(
      ([, markdown, html]) => {
        const target = markdown ?? html ?? "";
        return target.startsWith("http") ? [] : [new URL(target, `file:///${page}`).pathname.slice(1)];
      },
    ),
  );
}
