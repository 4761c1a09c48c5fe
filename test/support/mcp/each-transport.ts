import type { Client } from "@modelcontextprotocol/client";
import type { RealGateway } from "../gateway/real-gateway.js";
import { connectOverHttp, connectOverStdio, ERAS, newMcpClient } from "./mcp-clients.js";

export interface TransportCase {
  readonly name: string;
  readonly open: () => Promise<Client>;
}

/**
 * Clients of each revision over each transport, each for a session of its own, with one exec rule for every command. The
 * gateway must listen on loopback.
 */
export function eachTransport(fixture: RealGateway, effect: "allow" | "ask"): readonly TransportCase[] {
  const overHttp = async (key: string, client: Client): Promise<Client> => {
    const { token } = await fixture.client.openSession({ body: { key, execRules: [{ effect }] } });
    const { listen } = await fixture.client.status();
    return connectOverHttp(client, listen ?? "", token);
  };
  const overStdio = async (key: string, client: Client): Promise<Client> => {
    await connectOverStdio(client, fixture.home, [`--${effect}`, "*", "--session", key]);
    return client;
  };
  return ERAS.flatMap((era) => [
    { name: `HTTP, ${era}`, open: () => overHttp(`http-${era}`, newMcpClient(era)) },
    { name: `stdio, ${era}`, open: () => overStdio(`stdio-${era}`, newMcpClient(era)) },
  ]);
}
