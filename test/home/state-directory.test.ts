import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { once } from "node:events";
import { expect, test } from "vitest";
import { longestSocketPath, socketPathLimit } from "../../src/store/socket-path.js";

test("the limit is the system's, less the final zero", () => {
  expect(socketPathLimit("linux")).toBe(107);
  expect(socketPathLimit("darwin")).toBe(103);
  expect(socketPathLimit("win32")).toBe(Number.POSITIVE_INFINITY);
});

test("lengths are counted in bytes, not letters", () => {
  expect(longestSocketPath("/h")).toBe("/h/instances/123456789012/runs/1234567890123456/sock".length);
  expect(longestSocketPath("/hä")).toBe(longestSocketPath("/ha") + 1);
});

test.runIf(process.platform === "linux")("the longest path allowed can be listened on", async () => {
  const dir = mkdtempSync(join(tmpdir(), "hf-"));
  const path = join(dir, "s".repeat(socketPathLimit("linux") - dir.length - 1));
  const server = createServer().listen(path);
  await once(server, "listening");
  server.close();
  rmSync(dir, { recursive: true });
});
