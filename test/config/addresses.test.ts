import { hostname } from "node:os";
import { describe, expect, test } from "vitest";
import { advertisedAddress, parsePeerAddress } from "../../src/config/addresses.js";
import { parseConfig } from "../../src/config/schema.js";
import { derivePeerKey, newPeerKey } from "../../src/gateway/peers/peer.js";

describe("where other gateways reach one", () => {
  test("is a host and a port", () => {
    expect(parsePeerAddress("10.0.0.7:7444")).toEqual({ host: "10.0.0.7", port: 7444 });
    expect(parsePeerAddress("[fd00::7]:1")).toEqual({ host: "fd00::7", port: 1 });
    expect(parsePeerAddress("builder-7.lan:0")).toEqual({ host: "builder-7.lan", port: 0 });
    for (const wrong of [
      "",
      "7444",
      ":7444",
      "host",
      "host:",
      "host:65536",
      "fd00::7:1",
      "a b:1",
      "http://x:1",
    ])
      expect(parsePeerAddress(wrong), wrong).toBeNull();
  });

  test("is refused in the config with a sentence, and off when it says nothing", () => {
    expect(parseConfig("", "").peers).toEqual({});
    const wrong = (): unknown => parseConfig('[peers]\nlisten = "7444"\n', "c.toml");
    expect(wrong).toThrow("c.toml, line 2: peers.listen must be a host and a port");
  });

  test("is what it listens on, unless it is to be found elsewhere or listens everywhere", () => {
    const bound = { host: "10.0.0.7", port: 7444 };
    expect(advertisedAddress(bound, null)).toEqual(bound);
    expect(advertisedAddress(bound, { host: "nat.lan", port: 80 })).toEqual({ host: "nat.lan", port: 80 });
    expect(advertisedAddress(bound, { host: "nat.lan", port: 0 })).toEqual({ host: "nat.lan", port: 7444 });
    for (const host of ["0.0.0.0", "::"])
      expect(advertisedAddress({ ...bound, host }, null)).toEqual({ host: hostname(), port: 7444 });
  });
});

test("a shared key is of these two, in this direction, in this life", () => {
  const [key, next] = [newPeerKey(), newPeerKey()];
  const keys = [
    derivePeerKey(key, "in_a", "in_b"),
    derivePeerKey(key, "in_b", "in_a"),
    derivePeerKey(key, "in_a", "in_c"),
    derivePeerKey(key, "in_a\0in_b", ""),
    derivePeerKey(next, "in_a", "in_b"),
  ].map((each) => each.toString("hex"));
  expect(new Set(keys).size).toBe(keys.length);
  expect(derivePeerKey(key, "in_a", "in_b").toString("hex")).toBe(keys[0]);
});
