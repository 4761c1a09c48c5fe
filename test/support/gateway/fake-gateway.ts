import type { RequestListener } from "node:http";
import { CHALLENGE_PATH } from "../../../src/api/token-proof.js";
import { answerChallenge } from "../../../src/gateway/auth/authentication.js";
import { hashSessionToken } from "../../../src/sessions/tokens.js";

/** A made-up gateway that proves to know one token, and answers the rest as told. */
export function fakeGateway(token: string, answer?: RequestListener): RequestListener {
  return (request, response) => {
    if (request.url !== CHALLENGE_PATH) return answer?.(request, response);
    void answerChallenge(async () => hashSessionToken(token), request).then((proof) => {
      const text = JSON.stringify(proof);
      response.writeHead(200, { "content-length": Buffer.byteLength(text) }).end(text);
    });
  };
}
