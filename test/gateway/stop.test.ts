import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { openGateway, type GatewayNews } from "../../src/gateway/gateway.js";
import { Rounds } from "../../src/gateway/rounds.js";
import { removeHome } from "../remove-home.js";

test("a gateway can be stopped before its first round is over", async () => {
  const home = mkdtempSync(join(tmpdir(), "holdfast-gateway-"));
  onTestFinished(() => removeHome(home));
  const news: GatewayNews["type"][] = [];
  const gateway = await openGateway({ home, onNews: ({ type }) => news.push(type) });
  const stopped = gateway.stop();
  await Promise.all([stopped, gateway.ready]);
  expect(news).toEqual(["up", "down"]);
});

test("no round begins after the end, and the end waits for the one under way", async () => {
  const rounds = new Rounds(() => expect.fail("no round failed"));
  let finish = (): void => undefined;
  let over = false;
  const first = rounds.begin("waiting", 1, () => new Promise((resolve) => (finish = resolve)));
  const ended = rounds.end().then(() => (over = true));
  await rounds.begin("too late", 1, async () => expect.fail("it was begun"));
  expect(over).toBe(false);
  finish();
  await Promise.all([first, ended]);
  expect(over).toBe(true);
});
