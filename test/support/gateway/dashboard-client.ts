import { request } from "node:http";

export interface DashboardAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly text: string;
  /** The code of an error; null: it is no error of the gateway. */
  readonly code: string | null;
}

interface DashboardRequest {
  readonly method?: string;
  readonly path?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: unknown;
}

/** The secrets that a logged-in browser has. */
export interface DashboardLogin {
  readonly cookie: string;
  readonly token: string;
}

/** The port in a link. */
export function portOf(url: string): number {
  return Number(new URL(url).port);
}

export function secretOf(url: string): string {
  return new URL(url).hash.replace("#link=", "");
}

/** A request as a browser, or an attacker, would send it. `origin` and `cookie` are headers like any other. */
export function askDashboard(
  port: number,
  { method = "GET", path = "/", headers = {}, body }: DashboardRequest,
): Promise<DashboardAnswer> {
  const text = body === undefined ? "" : JSON.stringify(body);
  return new Promise((resolve, reject) => {
    const asking = request({ host: "127.0.0.1", port, method, path, headers: { ...headers }, agent: false });
    asking.once("error", reject);
    asking.once("response", (response) => {
      const parts: Buffer[] = [];
      response.on("data", (part: Buffer) => parts.push(part));
      response.once("error", reject);
      response.once("end", () => {
        const answer = Buffer.concat(parts).toString();
        resolve({
          status: response.statusCode ?? 0,
          headers: response.headers,
          text: answer,
          code: errorCode(answer),
        });
      });
    });
    asking.end(text);
  });
}

function errorCode(text: string): string | null {
  try {
    return (JSON.parse(text) as { readonly error?: { readonly code: string } }).error?.code ?? null;
  } catch {
    return null;
  }
}

export function fromPage(port: number): Record<string, string> {
  return { origin: `http://127.0.0.1:${port}`, "sec-fetch-site": "same-origin" };
}

/** Exchanges a link as the page does. */
export async function logIn(url: string): Promise<DashboardLogin> {
  const port = portOf(url);
  const answer = await askDashboard(port, {
    method: "POST",
    path: "/dashboard/login",
    headers: fromPage(port),
    body: { link: secretOf(url) },
  });
  if (answer.status !== 200) throw new Error(`the login was refused: ${answer.text}`);
  const [cookie = ""] = String(answer.headers["set-cookie"]).split(";");
  return { cookie, token: (JSON.parse(answer.text) as { readonly token: string }).token };
}

/** The headers of a request of the logged-in page. */
export function asPage(port: number, { cookie, token }: DashboardLogin): Record<string, string> {
  return { ...fromPage(port), cookie, "holdfast-page-token": token };
}
