import { type JSONRPCRequest, type Result, Server, type ServerContext } from "@modelcontextprotocol/server";

type RequestHandler = (request: JSONRPCRequest, context: ServerContext) => Promise<Result>;

/**
 * The SDK's server, without its check of the results of calls: a call that continues is answered with a task, which that
 * check does not know.
 */
// oxlint-disable-next-line typescript/no-deprecated -- McpServer answers calls with complete results only
export class SdkServer extends Server {
  protected override _wrapHandler(method: string, handler: RequestHandler): RequestHandler {
    // oxlint-disable-next-line typescript/no-deprecated -- as above
    return method === "tools/call" ? handler : super._wrapHandler(method, handler);
  }
}
