import { randomBytes } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { Writable } from 'node:stream'
import zlib from 'node:zlib'
import type { Socket } from 'node:net'
import type { ErrorAnswer } from './query-errors.ts'
import { BlockWriter, writeBlock } from './compressed-blocks.ts'

/**
 * Clients decompress beside their reading, and drop what is not decompressed yet when the connection ends early:
 * between the error and that end is time for it.
 */
const READ_COMPRESSED_ERROR_MS = 1000

type Encoder = zlib.Gzip | zlib.Deflate | zlib.BrotliCompress | zlib.ZstdCompress

/**
 * Writes one answer. Headers go out as late as possible, because an error found before them gets its own status.
 */
export class Answer {
  /** Bytes of the result, before compression. */
  bytes = 0
  /** 0: the answer is not compressed, whatever the client accepts. */
  compressionLevel = 0
  /** Compress the body, an error's too, into ClickHouse's own blocks. */
  compressBlocks = false
  #blockWriter: BlockWriter | undefined
  #request: IncomingMessage
  #response: ServerResponse
  #tag = randomBytes(8).toString('hex')
  #encoder: Encoder | undefined
  #early: EarlyResponse | undefined
  /** The body ends with an error, so that it gets no regular end. */
  #isCut = false

  constructor (request: IncomingMessage, response: ServerResponse) {
    this.#request = request
    this.#response = response
  }

  setHeader (name: string, value: string): void {
    this.#response.setHeader(name, value)
  }

  get started (): boolean {
    return this.#response.headersSent || this.#early?.isBody === true
  }

  /**
   * Tells the progress in a header while the query runs, which also keeps proxies from closing an idle connection. The
   * status is sent with the first one, so an error that comes later is told by its own header and the text.
   */
  sendProgress (progress: string): void {
    if (this.started || this.#response.destroyed || this.#request.method === 'HEAD' || this.#request.httpVersion !== '1.1') return
    this.#early ??= new EarlyResponse(this.#response)
    this.#early.writeHeader('X-ClickHouse-Progress', progress)
  }

  /** Sends the headers with what is known of the query; all that follows must be `write` and `end`. */
  start (summary: string | undefined): void {
    if (summary !== undefined) this.setHeader('X-ClickHouse-Summary', summary)
    this.setHeader('X-ClickHouse-Exception-Tag', this.#tag)
    if (this.compressBlocks) this.#blockWriter = new BlockWriter()
    this.#begin(200)
  }

  #begin (status: number): void {
    if (this.compressionLevel > 0) this.#encoder = this.#createEncoder()
    if (this.#early === undefined) this.#response.writeHead(status)
    else this.#early.startBody()
    const body = this.#body
    let written = Promise.resolve()
    this.#encoder?.on('data', (chunk: Buffer) => {
      let isRoom = true
      written = new Promise((resolve) => { isRoom = body.write(chunk, () => resolve()) })
      if (!isRoom) {
        this.#encoder?.pause()
        body.once('drain', () => this.#encoder?.resume())
      }
    })
    this.#encoder?.on('end', () => {
      if (this.#isCut) void written.then(() => setTimeout(() => this.#cut(), READ_COMPRESSED_ERROR_MS))
      else body.end()
    })
  }

  /** Resolves when more can be written without filling memory. */
  async write (chunk: Uint8Array): Promise<void> {
    this.bytes += chunk.length
    if (chunk.length > 0) await this.#send(this.#blockWriter?.write(chunk) ?? [chunk])
  }

  async end (): Promise<void> {
    await this.#send(this.#blockWriter?.end() ?? [])
    this.#target.end()
  }

  async #send (pieces: Uint8Array[]): Promise<void> {
    for (const piece of pieces) {
      if (this.#request.method === 'HEAD' || piece.length === 0 || this.#response.destroyed) continue
      const target = this.#target
      if (target.write(piece)) continue
      await new Promise<void>((resolve) => {
        const go = (): void => {
          target.off('drain', go)
          this.#response.off('close', go)
          resolve()
        }
        target.once('drain', go)
        this.#response.once('close', go)
      })
    }
  }

  /**
   * Sends an error. Before the headers that is a plain error answer; after them, as servers since 25.11, a marked block
   * at the end of the data, and a connection that is closed without its regular end.
   */
  fail (error: ErrorAnswer): void {
    if (this.#response.destroyed) return
    if (!this.started) {
      this.setHeader('X-ClickHouse-Exception-Code', String(error.code))
      this.setHeader('X-ClickHouse-Exception-Tag', this.#tag)
      this.#response.removeHeader('X-ClickHouse-Format')
      this.setHeader('Content-Type', 'text/plain; charset=UTF-8')
      this.#begin(error.status)
      const text = Buffer.from(error.text)
      void this.#send([this.compressBlocks ? writeBlock(text) : text])
      this.#target.end()
      return
    }
    const text = error.text.trimEnd() + '\n'
    const block = `\r\n__exception__\r\n${this.#tag}\r\n${text}${Buffer.byteLength(text)} ${this.#tag}\r\n__exception__\r\n`
    const bytes = Buffer.from(block)
    // Rows may wait in the compressor still; a client that reads blocks finds the error in one, too. What the encoder
    // holds leaves before: clients look for the block in one piece.
    const compressor = this.#blockWriter
    const last = compressor === undefined ? bytes : Buffer.concat([...compressor.write(bytes), ...compressor.end()])
    this.#isCut = true
    if (this.#encoder === undefined) this.#body.write(last, () => this.#cut())
    else this.#encoder.flush(() => this.#encoder!.end(last))
  }

  /** Ends the connection without the regular end of a body, after all that was written. */
  #cut (): void {
    this.#response.socket?.end()
  }

  get #body (): Writable {
    return this.#early ?? this.#response
  }

  get #target (): Writable {
    return this.#encoder ?? this.#body
  }

  #createEncoder (): Encoder | undefined {
    const accepted = readAccepted(String(this.#request.headers['accept-encoding'] ?? ''))
    const level = this.compressionLevel
    const choose = (name: string): boolean => {
      if (accepted.has(name)) {
        this.setHeader('Content-Encoding', name)
        this.setHeader('Vary', 'Accept-Encoding')
      }
      return accepted.has(name)
    }
    if (choose('zstd')) return zlib.createZstdCompress({ params: { [zlib.constants.ZSTD_c_compressionLevel]: Math.min(level, 9) } })
    if (choose('gzip')) return zlib.createGzip({ level: Math.min(level, 9) })
    if (choose('deflate')) return zlib.createDeflate({ level: Math.min(level, 9) })
    if (choose('br')) return zlib.createBrotliCompress({ params: { [zlib.constants.BROTLI_PARAM_QUALITY]: Math.min(level, 5) } })
    return undefined
  }
}

/** The compressions that an Accept-Encoding names and does not rule out. It may be as long as all headers together. */
export function readAccepted (header: string): Set<string> {
  const offers = header.toLowerCase().split(',').map((offer) => offer.split(';').map((part) => part.trim()))
  return new Set(offers.flatMap(([name = '', weight = '']) => /^q=0(\.0*)?$/.test(weight) ? [] : [name]))
}

/**
 * A response whose headers go out one by one while its query still runs, which Node's own response cannot do. Writes
 * status, headers and a chunked body to the socket of that response, in whose place it stands. The connection is
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
