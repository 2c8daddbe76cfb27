import { createServer } from 'node:net'
import { ServiceStartError } from './wait-until-ready.ts'

/**
 * Below the range from which Linux takes the ports of outgoing connections (32768 to 60999), so that none of those
 * takes the port away between the test and its use.
 */
const FIRST_PORT = 20_000
const PORTS = 12_000
const ATTEMPTS = 50

/** Each process begins so far from the next one. No divisor of `PORTS`: only the 12,000th begins there again. */
const PORTS_PER_PROCESS = 37

let picked = 0

/**
 * Finds a port of 127.0.0.1 on which nobody listens.
 *
 * Somebody may still take it before it is used. To make that rare, a process is not told the same port twice, and
 * processes with ids near each other, such as stacks that start together, look at different ports.
 */
export async function pickFreePort (): Promise<number> {
  for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
    const port = FIRST_PORT + (process.pid * PORTS_PER_PROCESS + picked++) % PORTS
    if (await isPortFree(port, '127.0.0.1')) return port
  }
  throw new Error(`found no free port in ${ATTEMPTS} attempts between ${FIRST_PORT} and ${FIRST_PORT + PORTS}`)
}

/** Tells whether one could listen there now. */
export async function isPortFree (port: number, host: string): Promise<boolean> {
  return await new Promise((resolve) => {
    const server = createServer()
    server.once('error', () => resolve(false))
    server.listen({ port, host, exclusive: true }, () => server.close(() => resolve(true)))
  })
}

/**
 * Starts something on the given port, or for port 0 on a free one; then again on another when it could not start,
 * because somebody else may have taken the port first.
 */
export async function startOnPort<T> (port: number, start: (port: number) => Promise<T>): Promise<T> {
  if (port !== 0) return await start(port)
  for (let attempt = 1; ; attempt++) {
    const free = await pickFreePort()
    try {
      return await start(free)
    } catch (error) {
      const portWasTaken = error instanceof ServiceStartError && !(await isPortFree(free, '127.0.0.1'))
      if (!portWasTaken || attempt === 3) throw error
    }
  }
}
