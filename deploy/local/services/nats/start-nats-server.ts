import { mkdir, writeFile } from 'node:fs/promises'
import { connect } from 'node:net'
import path from 'node:path'
import { MAX_MESSAGE_BYTES } from '../../../../schema/streams.ts'
import { findNatsServer } from './find-nats-server.ts'
import { startOnPort } from '../../processes/pick-free-port.ts'
import { restartAfterFullDisk } from './restart-after-full-disk.ts'
import { type Service, type ServiceOptions } from '../service.ts'
import { spawnProcess } from '../../processes/spawn-process.ts'
import { waitUntilReady } from '../../processes/wait-until-ready.ts'

/** Recovering streams of gigabytes after a crash reads them once. */
const READY_TIMEOUT_MS = 60_000

export interface NatsServerOptions extends ServiceOptions {
  /** Path of the binary; absent or empty: found as `findNatsServer` says. */
  binary?: string | undefined
  /** Port of the monitoring pages (`/varz`, `/jsz`) on 127.0.0.1; absent: none. */
  monitoringPort?: number
  /**
   * True flushes a stream to the disk before each acknowledgement, so that it survives a power loss. False survives a
   * crash of the process, not of the machine, and is faster: tests. Default true.
   */
  durable?: boolean
  /** Different for each server of a cluster. Default `millrace`. */
  serverName?: string
  /** Further lines of its configuration: cluster, logins, TLS. */
  extraConfig?: string
  /** Told before nats-server is fetched. */
  onFetch?: (() => void) | undefined
}

/**
 * Starts nats-server with JetStream in `<data directory>/nats`, on 127.0.0.1 only.
 *
 * @throws {ServiceStartError} when no binary is found or it does not come up.
 */
export async function startNatsServer (options: NatsServerOptions): Promise<Service> {
  const { dataDir } = options
  const binary = await findNatsServer({
    chosen: options.binary, env: process.env, dataDir, onFetch: options.onFetch, signal: options.signal
  })
  const folder = path.resolve(dataDir, 'nats')
  await mkdir(folder, { recursive: true })
  return await startOnPort(options.port, async (port) => {
    const configFile = path.join(folder, 'nats-server.conf')
    await writeFile(configFile, renderConfig(folder, port, options))
    const child = await spawnProcess({
      name: 'nats-server',
      command: binary,
      args: ['--config', configFile],
      env: { PATH: process.env.PATH },
      cwd: folder,
      logFile: path.resolve(dataDir, 'logs', 'nats-server.log'),
      stopTimeoutMs: options.stopTimeoutMs,
      onSpawn: options.onSpawn
    })
    const isReady = async (): Promise<boolean> => await hasJetStream(port)
    await waitUntilReady(child, { isReady, timeoutMs: READY_TIMEOUT_MS, signal: options.signal })
    restartAfterFullDisk(child, folder)
    return { ...child, port, url: `nats://127.0.0.1:${port}` }
  })
}

function renderConfig (folder: string, port: number, options: NatsServerOptions): string {
  const monitoring = options.monitoringPort === undefined ? '' : `http: "127.0.0.1:${options.monitoringPort}"\n`
  return `listen: "127.0.0.1:${port}"
${monitoring}server_name: ${options.serverName ?? 'millrace'}
max_payload: ${MAX_MESSAGE_BYTES}
# Four of the largest messages may wait for a slow reader before it is cut off.
max_pending: ${4 * MAX_MESSAGE_BYTES}
jetstream {
  store_dir: ${JSON.stringify(folder)}
  sync_interval: ${options.durable ?? true ? 'always' : '2m'}
  # The sum of the streams' limits is reserved against this number, which by default follows the free space of the
  # disk: streams of 12 GiB could then not be created on a small machine although they are empty. A full disk is
  # noticed when it is full: publishes fail and ingest spools.
  max_file_store: 1TB
  max_memory_store: 64MB
}
${options.extraConfig ?? ''}`
}

/** The server greets with its properties; it does so only once JetStream has recovered its streams. */
async function hasJetStream (port: number): Promise<boolean> {
  const greeting = await new Promise<string>((resolve, reject) => {
    const socket = connect({ port, host: '127.0.0.1', timeout: 1000 })
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
  return /^INFO .*"jetstream":\s*true/.test(greeting)
}
