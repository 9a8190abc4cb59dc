// Requests to the service. Every failure is a `Trouble` with one line to show.

export class Trouble extends Error {
  constructor(status, text) {
    super(text);
    this.status = status; // 0: no answer at all
  }
}

const KEY = "offdiag-token";
let token = null;
try { token = sessionStorage.getItem(KEY); } catch { /* storage may be forbidden */ }

/** The header that carries the token, if there is one. */
export const authorization = () => (token ? { Authorization: `Bearer ${token}` } : {});

export function useToken(text) {
  token = text;
  try { sessionStorage.setItem(KEY, text); } catch { /* it holds until the page is left */ }
}

export async function get(path, params = {}, signal) {
  const given = Object.entries(params).filter(([, value]) => value !== null && value !== undefined);
  return answer(`${path}?${new URLSearchParams(given)}`, { signal });
}

export async function post(path, body, signal) {
  return answer(path, { method: "POST", body: JSON.stringify(body), headers: { "Content-Type": "application/json" }, signal });
}

async function answer(url, options) {
  const headers = { ...options.headers, ...authorization() };
  const explain = (status, text) => (error) => { throw error.name === "AbortError" ? error : new Trouble(status, text); };
  const response = await fetch(url, { ...options, headers })
    .catch(explain(0, "The service does not answer. It may be restarting, or the connection is gone; what is shown here is from before."));
  const reply = await response.json()
    .catch(explain(response.status, `The service sent something that is not JSON (status ${response.status}).`));
  if (!response.ok) throw new Trouble(response.status, typeof reply.error === "string" ? reply.error : `Status ${response.status}.`);
  return reply;
}

/** Only the last call of a kind matters: a new one aborts the one before. */
export function latest() {
  let running = null;
  return () => {
    if (running) running.abort();
    running = new AbortController();
    return running.signal;
  };
}
