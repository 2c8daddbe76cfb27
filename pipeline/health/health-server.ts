import http from 'node:http'
import { type AddressInfo } from 'node:net'
import { healthStatusCode, reportHealth, type HealthPart } from '../../platform/health.ts'
import { type Registry } from '../../platform/metrics.ts'

export interface HealthServerOptions {
  host: string
  port: number
  registry: Registry
  /** False before the start is complete and as soon as the process shuts down. */
  isReady: () => boolean
  /** Read at each request of `/_health`. */
  parts: () => HealthPart[] | Promise<HealthPart[]>
}

/**
 * Answers the operator's questions: `/_liveness` (the event loop turns), `/_readiness` (the process takes part),
 * `/_health` (each part by name, and which are stuck or behind; 503 when one is stuck) and `/metrics`.
 *
 * @returns the port, and how to close.
 */
export async function startHealthServer (
  options: HealthServerOptions
): Promise<{ port: number, close: () => Promise<void> }> {
  const server = http.createServer((request, response) => {
    answer(request, response, options).catch(() => response.destroy())
  })
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(options.port, options.host, resolve)
  })
  return {
    port: (server.address() as AddressInfo).port,
    close: async () => {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    }
  }
}

async function answer (
  request: http.IncomingMessage, response: http.ServerResponse, options: HealthServerOptions
): Promise<void> {
  switch (request.url?.split('?')[0]) {
    case '/_liveness':
      sendJson(response, 200, { status: 'ok' })
      return
    case '/_readiness':
      sendJson(response, options.isReady() ? 200 : 503, { status: options.isReady() ? 'ok' : 'not ready' })
      return
    case '/_health': {
      const report = reportHealth(await options.parts())
      sendJson(response, healthStatusCode(report), report)
      return
    }
    case '/metrics':
      response.setHeader('content-type', options.registry.contentType)
      response.end(await options.registry.metrics())
      return
    default:
      sendJson(response, 404, { status: 'not found' })
  }
}

function sendJson (response: http.ServerResponse, status: number, body: unknown): void {
  response.statusCode = status
  response.setHeader('content-type', 'application/json')
  response.end(JSON.stringify(body))
}
