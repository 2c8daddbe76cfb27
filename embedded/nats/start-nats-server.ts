import { statSync } from 'node:fs'
import { appendFile, mkdir, open, rm, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { runAtIntervals } from '../../platform/intervals.ts'
import { readGreeting } from '../../platform/nats/nats-server-floor.ts'
import { MAX_MESSAGE_BYTES } from '../../schema/wire/streams.ts'
import { startOnPort } from '../supervisor/ports.ts'
import { type Service, type ServiceOptions, waitUntilReady } from '../supervisor/processes/service.ts'
import { type ManagedProcess, spawnProcess } from '../supervisor/processes/spawn-process.ts'
import { findNatsServer } from './find-nats-server.ts'

export interface NatsServerOptions extends ServiceOptions {
  /** Path of the binary; absent or empty: found as `findNatsServer` says. */
  binary?: string | undefined
  /**
   * True flushes a stream to the disk before each acknowledgement, so that it survives a power loss. False survives a
   * crash of the process, not of the machine, and is faster: tests. Default true.
   */
  durable?: boolean
  /** Different for each server of a cluster. Default `millrace`. */
  serverName?: string
  /** Further lines of its configuration: cluster, logins, TLS. */
  extraConfig?: string
  onFetch?: (() => void) | undefined
}

/** After a crash nats-server reads streams of gigabytes once, before it is ready. */
const READY_TIMEOUT_MS = 180_000

/** How ENOSPC and EDQUOT are worded in the logs of programs written in Go. */
const DISK_FULL = /no space left on device|disk quota exceeded/

const POLL_INTERVAL_MS = 1000

/** Free space that makes a restart worthwhile, in bytes: one block file of a stream. */
const ROOM_BYTES = 8_388_608

/** Bytes of the log read at a time; the next poll reads on. */
const MAX_READ_BYTES = 1_048_576

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
    const isReady = async (): Promise<boolean> => (await readGreeting('127.0.0.1', port)).jetstream === true
    await waitUntilReady(child, { isReady, timeoutMs: READY_TIMEOUT_MS, signal: options.signal })
    restartAfterFullDisk(child, folder)
    return { ...child, port, url: `nats://127.0.0.1:${port}` }
  })
}

function renderConfig (folder: string, port: number, options: NatsServerOptions): string {
  return `listen: "127.0.0.1:${port}"
server_name: ${options.serverName ?? 'millrace'}
max_payload: ${MAX_MESSAGE_BYTES}
# Four of the largest messages may wait for a slow reader before it is disconnected.
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

/**
 * Ends a nats-server whose disk was full, once there is room again; its supervisor restarts it.
 *
 * After a write that found no room, nats-server (2.15.1 for one) stops writing to that stream: publishes get no answer
 * until it is restarted, however much room there is. What it acknowledged is on the disk.
 *
 * @param folder  Where it stores its streams.
 * @param pollIntervalMs  How often the log is read.
 */
export function restartAfterFullDisk (
  server: ManagedProcess, folder: string, pollIntervalMs: number = POLL_INTERVAL_MS
): void {
  let isStuck = false
  // What an earlier process left does not count.
  let position = statSync(server.logFile).size
  const poll = async (): Promise<void> => {
    const { text, end } = await readFrom(server.logFile, position)
    position = end
    isStuck ||= DISK_FULL.test(text)
    if (!isStuck || !await hasRoom(folder)) return
    void loop.stop()
    await appendFile(server.logFile, 'millrace: the disk has room again; restarting nats-server, ' +
      'because it stops writing to a stream after a failed write\n')
    await server.stop()
  }
  const loop = runAtIntervals({
    everyMs: pollIntervalMs,
    firstAfterMs: pollIntervalMs,
    // Nothing can be read or written on a broken disk: the next poll may.
    run: async () => await poll().catch(() => {})
  })
  void server.exited.then(() => loop.stop())
}

async function readFrom (file: string, from: number): Promise<{ text: string, end: number }> {
  await using handle = await open(file, 'r')
  const { size } = await handle.stat()
  // A rotated log starts over.
  const start = size < from ? 0 : from
  const buffer = Buffer.alloc(Math.min(size - start, MAX_READ_BYTES))
  const { bytesRead } = await handle.read({ buffer, position: start })
  // A line that was only half there is read again.
  const end = start + buffer.subarray(0, bytesRead).lastIndexOf('\n') + 1
  return { text: buffer.toString('utf8', 0, end - start), end }
}

async function hasRoom (folder: string): Promise<boolean> {
  const file = path.join(folder, 'room')
  try {
    await using handle = await open(file, 'w')
    await handle.write(Buffer.alloc(ROOM_BYTES))
    await handle.sync()
    return true
  } catch {
    return false
  } finally {
    await rm(file, { force: true })
  }
}
