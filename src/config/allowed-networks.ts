import { BlockList, isIP, isIPv4 } from "node:net";

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

/** Whether a notification may be sent to this address: it is public, or allowed by the configuration. */
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
