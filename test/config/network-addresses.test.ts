import { hostname } from "node:os";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  advertisedAddress,
  isAllowedAddress,
  isNetwork,
  parsePeerAddress,
} from "../../src/config/network-addresses.js";
import { parseConfig } from "../../src/config/schema.js";
import { derivePeerKey, newPeerKey } from "../../src/gateway/peers/peer.js";
import { repetitions } from "../support/scale.js";

describe("the address for other gateways", () => {
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

  test("is absent by default, and refused in the config with a sentence", () => {
    expect(parseConfig("", "").peers).toEqual({});
    const wrong = (): unknown => parseConfig('[peers]\nlisten = "7444"\n', "c.toml");
    expect(wrong).toThrow("c.toml, line 2: peers.listen must be a host and a port");
  });

  test("is the bound one, unless another is configured or the gateway listens on every address", () => {
    const bound = { host: "10.0.0.7", port: 7444 };
    expect(advertisedAddress(bound, null)).toEqual(bound);
    expect(advertisedAddress(bound, { host: "nat.lan", port: 80 })).toEqual({ host: "nat.lan", port: 80 });
    expect(advertisedAddress(bound, { host: "nat.lan", port: 0 })).toEqual({ host: "nat.lan", port: 7444 });
    for (const host of ["0.0.0.0", "::"])
      expect(advertisedAddress({ ...bound, host }, null)).toEqual({ host: hostname(), port: 7444 });
  });
});

test("a peer key depends on both gateways, their direction and the gateway key", () => {
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

describe("without anything allowed", () => {
  test.each([
    ["8.8.8.8"],
    ["1.1.1.1"],
    ["172.32.0.1"],
    ["100.128.0.1"],
    ["223.255.255.255"],
    ["2606:4700::1111"],
    ["2a00:1450:4001::200e"],
    // A public IPv4 address in a network with only IPv6.
    ["64:ff9b::8.8.8.8"],
    ["::ffff:8.8.8.8"],
  ])("%s is public", (address) => expect(isAllowedAddress(address, [])).toBe(true));

  test.each([
    ["127.0.0.1"],
    ["127.255.255.254"],
    ["0.0.0.0"],
    ["10.1.2.3"],
    ["172.16.0.1"],
    ["172.31.255.255"],
    ["192.168.1.1"],
    ["100.64.0.1"],
    ["169.254.169.254"],
    ["192.0.0.192"],
    ["198.18.0.1"],
    ["224.0.0.1"],
    ["240.0.0.1"],
    ["255.255.255.255"],
    ["::"],
    ["::1"],
    ["fe80::1"],
    ["fe80::1%eth0"],
    ["fec0::1"],
    ["fc00::1"],
    ["fd00:ec2::254"],
    ["ff02::1"],
    ["::ffff:127.0.0.1"],
    ["::ffff:a9fe:a9fe"],
    ["0:0:0:0:0:ffff:7f00:1"],
    ["::127.0.0.1"],
    ["64:ff9b::127.0.0.1"],
    ["64:ff9b::a9fe:a9fe"],
    ["64:ff9b:1::8.8.8.8"],
    ["2002:7f00:1::"],
    ["2001:0:7f00:1::"],
    ["2001:db8::1"],
    ["100::1"],
  ])("%s is not", (address) => expect(isAllowedAddress(address, [])).toBe(false));
});

test("allowed networks are reached in every notation, and no others", () => {
  expect(isAllowedAddress("10.0.0.7", ["10.0.0.7"])).toBe(true);
  expect(isAllowedAddress("::ffff:10.0.0.7", ["10.0.0.0/24"])).toBe(true);
  expect(isAllowedAddress("10.0.0.8", ["10.0.0.7"])).toBe(false);
  expect(isAllowedAddress("fd00::7", ["fd00::/8"])).toBe(true);
  expect(isAllowedAddress("fe80::7", ["fd00::/8"])).toBe(false);
  expect(isAllowedAddress("127.0.0.1", ["0.0.0.0/0"])).toBe(true);
  expect(isAllowedAddress("::1", ["0.0.0.0/0"])).toBe(false);
});

test("an IPv4 address is judged the same in every IPv6 form", () => {
  fc.assert(
    fc.property(fc.ipV4(), (address) => {
      const alone = isAllowedAddress(address, []);
      return (
        isAllowedAddress(`::ffff:${address}`, []) === alone &&
        isAllowedAddress(`64:ff9b::${address}`, []) === alone
      );
    }),
    { numRuns: repetitions(100, 1000) },
  );
});

test("a network is an address, with or without a valid number of bits", () => {
  for (const good of ["10.0.0.1", "10.0.0.0/8", "::1", "fd00::/8", "0.0.0.0/0", "::/128"])
    expect({ good, is: isNetwork(good) }).toEqual({ good, is: true });
  for (const bad of [
    "",
    "lan",
    "10.0.0.0/33",
    "10.0.0/8",
    "::/129",
    "10.0.0.0/",
    "10.0.0.0/8/8",
    "fe80::1%lo",
    "1.2.3.4/x",
  ])
    expect({ bad, is: isNetwork(bad) }).toEqual({ bad, is: false });
});
