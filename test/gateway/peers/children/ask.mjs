// Asks a peer whose row says 127.0.0.1 and the port given; prints what came of it.
import { Peer } from "../../../../dist/gateway/peers/peer.js";

const port = Number(process.argv[2]);
const gateway = {
  instanceId: "in_there",
  hostId: "host",
  hostName: "there",
  heartbeatAt: 0,
  stoppedAt: null,
  address: { host: "localhost", port },
  peerKey: Buffer.alloc(32, 7).toString("base64url"),
};
const asking = new Peer("in_here", gateway, "run_x").request("GET", "/", {}, () => false);
asking.on("response", ({ statusCode }) => {
  console.log(`answered ${statusCode}`);
  asking.destroy();
});
asking.on("error", ({ message }) => console.log(`refused: ${message}`));
asking.end();
