/** Which nats-servers keep what they acknowledged through a power cut, and how a server tells its version. */
import { connect } from 'node:net'
import { compareVersions } from '../../schema/version.ts'

/**
 * The oldest nats-server that lost nothing it had acknowledged when the power was cut, on XFS and on ext4. 2.10.27 lost
 * 49 of 60 messages on XFS, with `sync_interval: always` (25 November 2026). By their sources those between lose
 * messages as well: the rewrite of a block is flushed since nats-server 8456 and 8475, which no release up to 2.12.15
 * and 2.14.5 has.
 */
export const OLDEST_NATS_SERVER = '2.15.1'

/** How long a server may take to greet, in milliseconds; one that is down has nothing to lose now. */
const GREETING_MS = 1000

/** Whether a nats-server keeps what it acknowledged through a power cut. A version that cannot be read does not. */
export function survivesPowerCut (version: string): boolean {
  return /^\d+\.\d+\.\d+/.test(version) && compareVersions(version, OLDEST_NATS_SERVER) >= 0
}

/** What a nats-server says of itself. */
export interface Greeting {
  server_id?: string
  version?: string
  jetstream?: boolean
}

/** The first line of a nats-server, its properties: it sends it once JetStream has recovered its streams. */
export async function readGreeting (host: string, port: number): Promise<Greeting> {
  const line = await new Promise<string>((resolve, reject) => {
    const socket = connect({ port, host, timeout: GREETING_MS })
    let text = ''
    socket.setEncoding('utf8')
    socket.once('error', reject)
    socket.once('timeout', () => socket.destroy(new Error('no greeting within a second')))
    socket.on('data', (chunk: string) => {
      text += chunk
      if (!text.includes('\r\n')) return
      socket.destroy()
      resolve(text)
    })
    socket.once('close', () => reject(new Error('closed without a greeting')))
  })
  return JSON.parse(/^INFO (.*)\r\n/.exec(line)?.[1] ?? '{}') as Greeting
}
