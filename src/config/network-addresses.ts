import { BlockList, isIP, isIPv4 } from "node:net";
import { hostname } from "node:os";
import type { PeerAddress } from "../model/gateway.js";

/** Parses `10.0.0.7:7444`, `[fd00::7]:7444` or `name:7444`. Null: not such an address. */
export function parsePeerAddress(text: string): PeerAddress | null {
  const [, v6, name, digits = ""] = /^(?:\[([0-9a-fA-F:.]+)\]|([\w.-]+)):(\d{1,5})$/.exec(text) ?? [];
  const host = v6 ?? name;
  const port = Number(digits);
  return host === undefined || port > 65_535 ? null : { host, port };
}

/** The address that peers connect to. A gateway that listens on every address advertises its host name. */
export function advertisedAddress(bound: PeerAddress, advertise: PeerAddress | null): PeerAddress {
  if (advertise !== null) return advertise.port === 0 ? { ...advertise, port: bound.port } : advertise;
  return ["0.0.0.0", "::"].includes(bound.host) ? { ...bound, host: hostname() } : bound;
}

export interface LoopbackAddress {
  readonly host: string;
  /** 0: any free port. */
  readonly port: number;
}

/** Parses `127.0.0.1:7433`, `[::1]:7433` or `localhost:7433`. Null: not an address, or not of the loopback interface. */
export function parseLoopback(text: string): LoopbackAddress | null {
  const [, v6, name = "", digits = ""] = /^(?:\[(::1)\]|([\w.]+)):(\d{1,5})$/.exec(text) ?? [];
  const port = Number(digits);
  const host = v6 ?? (name === "localhost" ? "127.0.0.1" : name);
  const local = host === "::1" || (isIPv4(host) && host.startsWith("127."));
  return local && digits !== "" && port <= 65_535 ? { host, port } : null;
}

/** Special-purpose networks of IANA: this host, private, shared, link-local (with the metadata service of clouds), multicast, documentation. */
const SPECIAL_IPV4 = [
  "0.0.0.0/8",
  "10.0.0.0/8",
  "100.64.0.0/10",
  "127.0.0.0/8",
  "169.254.0.0/16",
  "172.16.0.0/12",
  "192.0.0.0/24",
  "192.0.2.0/24",
  "192.88.99.0/24",
  "192.168.0.0/16",
  "198.18.0.0/15",
  "198.51.100.0/24",
  "203.0.113.0/24",
  "224.0.0.0/3",
];
/** Exceptions in the global range: protocol assignments, documentation, and tunnels to an IPv4 address (Teredo, 6to4). */
const SPECIAL_IPV6 = ["2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20"];
/** IPv6 prefixes of IPv4 addresses: mapped by a system, or translated by a network. */
const IPV4_MAPPED_PREFIXES = ["::ffff:", "64:ff9b::"];

const specialNetworks = blockListOf([
  ...SPECIAL_IPV4,
  ...SPECIAL_IPV6,
  ...IPV4_MAPPED_PREFIXES.flatMap((prefix) =>
    SPECIAL_IPV4.map((network) => {
      const [address, bits] = network.split("/");
      return `${prefix}${address}/${96 + Number(bits)}`;
    }),
  ),
]);
const globalNetworks = blockListOf([
  "0.0.0.0/0",
  "2000::/3",
  ...IPV4_MAPPED_PREFIXES.map((prefix) => `${prefix}0.0.0.0/96`),
]);

/** True if a notification may be sent to this address: it is public, or allowed by the configuration. */
export function isAllowedAddress(address: string, allowed: readonly string[]): boolean {
  // The interface of a link-local address does not matter.
  const [plain = ""] = address.split("%");
  return (
    listContains(blockListOf(allowed), plain) ||
    (listContains(globalNetworks, plain) && !listContains(specialNetworks, plain))
  );
}

/** An address, or a network as 10.0.0.0/8. */
export function isNetwork(text: string): boolean {
  const [address = "", bits, ...more] = text.split("/");
  const family = isIP(address);
  if (family === 0 || address.includes("%") || more.length > 0) return false;
  return bits === undefined || (/^\d{1,3}$/.test(bits) && Number(bits) <= (family === 4 ? 32 : 128));
}

function blockListOf(networks: readonly string[]): BlockList {
  const list = new BlockList();
  for (const network of networks) {
    const [address = "", bits] = network.split("/");
    const family = familyOf(address);
    list.addSubnet(address, Number(bits ?? (family === "ipv4" ? 32 : 128)), family);
  }
  return list;
}

function listContains(list: BlockList, address: string): boolean {
  return list.check(address, familyOf(address));
}

function familyOf(address: string): "ipv4" | "ipv6" {
  return isIPv4(address) ? "ipv4" : "ipv6";
}
