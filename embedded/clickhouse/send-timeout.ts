/**
 * The send timeout: ends connections whose clients have stopped reading their answers. Such a client (a tool that shows
 * the first page, a laptop that sleeps) would otherwise keep its session for as long as it likes, and with it a place
 * that others wait for. A thread of the engine that waits for room in its pipe does not see `max_execution_time`.
 *
 * What counts is what the client's machine has acknowledged, and not whether there was room to write: Linux tells of
 * room only when a third of the send buffer is free, which are megabytes, so that a client that takes 10 KB a second
 * looks for minutes as if it took nothing. The client's machine acknowledges after a sixteenth of its receive buffer at
 * the latest (`__tcp_select_window` of Linux): 400 KB of the usual 6 MB.
 */
import { readFile } from 'node:fs/promises'
import type { ServerResponse } from 'node:http'
import type { Socket } from 'node:net'

interface Watched {
  onTimeout: () => void
  /** Bytes that the kernel has taken from this process. */
  handedOver: number
  /** What the client has not acknowledged; undefined: not asked since the last progress. */
  unacknowledged: string | undefined
  quietTicks: number
}

/** Ticks of a timeout. Counting them, not the time, spares clients when this process itself was held up. */
const TICKS = 20

/** TCP connections of this machine, with the bytes of each that are not acknowledged. */
const CONNECTIONS = ['/proc/self/net/tcp', '/proc/self/net/tcp6']

/** Watches answers on their way to their clients. Costs nothing while no answer waits for its client. */
export class SendTimeout {
  readonly seconds: number
  #watched = new Map<ServerResponse, Watched>()
  #timer: NodeJS.Timeout | undefined
  #isLooking = false

  /** @param seconds  How long a client may take nothing of what is there for it. */
  constructor (seconds: number) {
    this.seconds = seconds
  }

  /**
   * Watches an answer until its connection has taken or lost it.
   *
   * @param onTimeout  Called once, before the connection is reset.
   */
  watch (response: ServerResponse, onTimeout: () => void): void {
    this.#watched.set(response, { onTimeout, handedOver: 0, unacknowledged: undefined, quietTicks: 0 })
    response.once('close', () => this.#forget(response))
    this.#timer ??= setInterval(() => { void this.#look() }, this.seconds * 1000 / TICKS).unref()
  }

  #forget (response: ServerResponse): void {
    this.#watched.delete(response)
    if (this.#watched.size > 0) return
    clearInterval(this.#timer)
    this.#timer = undefined
  }

  async #look (): Promise<void> {
    if (this.#isLooking) return
    this.#isLooking = true
    try {
      const waiting = [...this.#watched].filter(([response, watched]) => isQuiet(response, watched))
      if (waiting.length === 0) return
      const queues = await readSendQueues()
      for (const [response, watched] of waiting) this.#judge(response, watched, queues)
    } finally {
      this.#isLooking = false
    }
  }

  #judge (response: ServerResponse, watched: Watched, queues: ReadonlyMap<string, string>): void {
    // Much may have happened while the system was asked.
    if (!this.#watched.has(response) || !isQuiet(response, watched)) return
    const socket = response.socket!
    // Empty where the system does not tell: then only what it takes from this process counts.
    const unacknowledged = queues.get(connectionKey(socket)) ?? ''
    watched.quietTicks = unacknowledged === watched.unacknowledged ? watched.quietTicks + 1 : 0
    watched.unacknowledged = unacknowledged
    if (watched.quietTicks < TICKS) return
    watched.onTimeout()
    // A regular end would leave megabytes in the send buffer, for a client that may never take them.
    socket.resetAndDestroy()
  }
}

/** Whether something waits for the client, and the kernel has taken nothing since the last look. */
function isQuiet (response: ServerResponse, watched: Watched): boolean {
  const { socket } = response
  const handedOver = socket === null ? 0 : socket.bytesWritten - socket.writableLength
  if (socket !== null && socket.writableLength > 0 && handedOver === watched.handedOver) return true
  Object.assign(watched, { handedOver, unacknowledged: undefined, quietTicks: 0 })
  return false
}

/**
 * Bytes that are sent or wait to be sent, and are not acknowledged, by local and remote port. Two clients that use the
 * same port share an entry: while one of them reads, the other one is spared.
 */
async function readSendQueues (): Promise<Map<string, string>> {
  const queues = new Map<string, string>()
  for (const file of CONNECTIONS) {
    const text = await readFile(file, 'latin1').catch(() => '')
    for (const line of text.split('\n').slice(1)) {
      const [, local = '', remote = '', , counts = ''] = line.trim().split(/\s+/)
      const key = `${local.split(':')[1]} ${remote.split(':')[1]}`
      queues.set(key, `${queues.get(key) ?? ''} ${counts.split(':')[0]}`)
    }
  }
  return queues
}

function connectionKey ({ localPort = 0, remotePort = 0 }: Socket): string {
  return [localPort, remotePort].map((port) => port.toString(16).toUpperCase().padStart(4, '0')).join(' ')
}
