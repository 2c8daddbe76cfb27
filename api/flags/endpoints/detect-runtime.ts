import type { IncomingHttpHeaders } from 'node:http'

/** Where the code that asks for flags runs; `all` gets every flag, `unknown` only those for every runtime. */
export type Runtime = 'server' | 'client' | 'all' | 'unknown'

/** User agents of SDKs, `posthog-<name>/<version>`. */
const SDK = /^posthog-([^/]*)\/\s*\S/

const RUNTIME_OF_SDK: ReadonlyMap<string, Runtime> = new Map([
  ...['python', 'ruby', 'php', 'java', 'go', 'node', 'dotnet', 'elixir', 'rs', 'server'].map((name) => [name, 'server'] as const),
  ...['js', 'android', 'ios', 'react-native', 'flutter'].map((name) => [name, 'client'] as const)
])

const BROWSER = /Mozilla\/|Chrome\/|Safari\/|Firefox\/|Edge\//

/** Tools that only run on machines of the project. */
const SERVER_TOOL = /python-requests\/|curl\//

/**
 * Detects the runtime of a request, so that flags for servers stay on servers, by the rule of the reference
 * (docs/reference/contract/sdks.md 2.14): what the request states, else its user agent, else headers of browsers.
 *
 * A page cannot state that it is a server: browsers add `Origin` or `Sec-Fetch-Site` to every POST, servers do not.
 *
 * @param stated  `evaluation_runtime` of the request. Anything but the three names counts as not stated.
 */
export function detectRuntime (stated: unknown, headers: IncomingHttpHeaders): Runtime {
  const isPage = headers.origin !== undefined || headers['sec-fetch-site'] !== undefined
  const name = typeof stated === 'string' ? stated.toLowerCase() : ''
  if (name === 'client' || (!isPage && (name === 'server' || name === 'all'))) return name
  const byUserAgent = isPage ? 'client' : runtimeOfUserAgent(headers['user-agent'] ?? '')
  if (byUserAgent !== 'unknown') return byUserAgent
  return headers.referer !== undefined || headers['sec-fetch-mode'] !== undefined ? 'client' : 'unknown'
}

function runtimeOfUserAgent (userAgent: string): Runtime {
  if (userAgent.startsWith('posthog-')) return RUNTIME_OF_SDK.get(SDK.exec(userAgent)?.[1] ?? '') ?? 'unknown'
  if (BROWSER.test(userAgent)) return 'client'
  return SERVER_TOOL.test(userAgent) ? 'server' : 'unknown'
}
