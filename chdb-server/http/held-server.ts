/** The HTTP server and its place on the network; requests that come before the engine is open wait for it. */
import { once } from 'node:events'
import { createServer, type IncomingMessage, type RequestListener, type ServerResponse } from 'node:http'
import { type Options, StartError } from '../options.ts'
import { errorCode } from './query-errors.ts'

/** Statements, settings and parameters travel in the URL; servers allow a mebibyte as well. */
const MAX_HEADER_BYTES = 1_048_576

export class HeldServer {
  readonly server = createServer({ maxHeaderSize: MAX_HEADER_BYTES }, (...exchange) => this.#take(...exchange))
  #answer: RequestListener | undefined
  #waiting: Array<[IncomingMessage, ServerResponse]> = []

  constructor () {
    // Inserts of slow clients may take long; a connection that sends nothing at all is dropped by the next limit.
    this.server.requestTimeout = 3_600_000
    this.server.headersTimeout = 30_000
    // Longer than clients keep idle sockets, so that the client is the one to close: no race with a new request.
    this.server.keepAliveTimeout = 65_000
  }

  /**
   * Listens, unless it does.
   *
   * @returns the port.
   * @throws {StartError} for an address that is not of this machine, or a port that is in use.
   */
  async listen ({ host, port }: Pick<Options, 'host' | 'port'>): Promise<number> {
    try {
      if (!this.server.listening) await once(this.server.listen(port, host), 'listening')
      const address = this.server.address()
      return typeof address === 'object' && address !== null ? address.port : port
    } catch (error) {
      const code = errorCode(error)
      if (code === 'EADDRNOTAVAIL' || code === 'ENOTFOUND') {
        throw new StartError(`--host: ${host} is no address of this machine`)
      }
      if (code !== 'EADDRINUSE') throw error
      throw new StartError(`port ${port} is in use by another program: choose a free one with --port`)
    }
  }

  /** Has requests answered from here on, first those that wait. */
  release (answer: RequestListener): void {
    this.#answer = answer
    for (const exchange of this.#waiting.splice(0)) answer(...exchange)
  }

  #take (request: IncomingMessage, response: ServerResponse): void {
    if (this.#answer !== undefined) this.#answer(request, response)
    else this.#waiting.push([request, response])
  }
}
