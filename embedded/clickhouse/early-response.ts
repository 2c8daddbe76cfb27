/** A response whose headers go out one by one while its query still runs, which Node's own response cannot do. */
import type { ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { Writable } from 'node:stream'

/**
 * Writes status, headers and a chunked body to the socket of a response, in whose place it stands. The connection is
 * closed after it: Node does not know what was written.
 */
export class EarlyResponse extends Writable {
  isBody = false
  #response: ServerResponse
  #socket: Socket
  #written = new Set<string>()

  constructor (response: ServerResponse) {
    super({ highWaterMark: 65_536 })
    this.#response = response
    this.#socket = response.socket!
    this.#socket.write(`HTTP/1.1 200 OK\r\nDate: ${new Date().toUTCString()}\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n`, 'latin1')
    this.on('error', () => {})
    // A client that has gone takes nothing more; those who wait are told by the response.
    response.once('close', () => this.destroy())
    this.#writeHeaders()
  }

  writeHeader (name: string, value: string): void {
    this.#socket.write(`${name}: ${value}\r\n`, 'latin1')
  }

  /** Sends the headers that the response was given since, and ends them. */
  startBody (): void {
    this.isBody = true
    this.#writeHeaders()
    this.#socket.write('\r\n')
  }

  override _write (chunk: Buffer, _encoding: BufferEncoding, done: (error?: Error | null) => void): void {
    this.#socket.write(`${chunk.length.toString(16)}\r\n`)
    this.#socket.write(chunk)
    if (this.#socket.write('\r\n')) done()
    else this.#socket.once('drain', done)
  }

  override _final (done: (error?: Error | null) => void): void {
    this.#socket.end('0\r\n\r\n', done)
  }

  #writeHeaders (): void {
    for (const name of this.#response.getHeaderNames()) {
      if (this.#written.has(name)) continue
      this.#written.add(name)
      this.writeHeader(name, String(this.#response.getHeader(name)))
    }
  }
}
