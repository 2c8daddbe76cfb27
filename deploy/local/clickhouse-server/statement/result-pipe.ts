import { closeSync, constants, openSync } from 'node:fs'
import { Socket } from 'node:net'
import { type Readable } from 'node:stream'

/**
 * A named pipe through which the engine hands out the rows of one query at a time.
 *
 * Why a pipe: the engine writes a result as one document in any of its formats only to a file (`INTO OUTFILE`); its
 * streaming call repeats header and footer with each block. Through a pipe that "file" takes no room, the engine waits
 * when the client is slow, and closing both ends here makes its next write fail.
 */
export class ResultPipe {
  readonly path: string
  #keeper: number | undefined

  constructor (path: string) {
    this.path = path
  }

  /** Opens the reading end. The stream ends after `finish`, when the last byte was read. */
  open (): Readable {
    // Without a writer a reader sees the end at once; this end stands in until the engine has opened its own, and for
    // queries that fail before they open it.
    this.#keeper = openSync(this.path, constants.O_RDWR | constants.O_NONBLOCK)
    const fd = openSync(this.path, constants.O_RDONLY | constants.O_NONBLOCK)
    return new Socket({ fd, readable: true, writable: false })
  }

  /** To be called when the engine has ended the query, however it ended, or when its rows are given up. */
  finish (): void {
    if (this.#keeper !== undefined) closeSync(this.#keeper)
    this.#keeper = undefined
  }
}
