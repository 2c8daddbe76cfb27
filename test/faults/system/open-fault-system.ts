import { cp, mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { mountSmallDisk, type SmallDisk } from './small-disk.ts'
import { startFaultSystem, type FaultSystem } from './start-fault-system.ts'

export interface OpenFaultSystemOptions {
  /** Gives the start up. */
  signal: AbortSignal
  /** Both ingest processes listen on one port. */
  sharedPort?: boolean
  /** All data is to be on a small disk; where none can be mounted, it is on the usual one. */
  wantsSmallDisk?: boolean
}

/** A running system on a data directory of its own, which goes with it. */
export interface OpenedFaultSystem extends AsyncDisposable {
  system: FaultSystem
  /** null: not wanted, or not allowed here. */
  disk: SmallDisk | null
  /** Copies the logs to where they stay, and tells where. */
  keepLogs (): Promise<string>
  /** Ends everything and removes the data directory. */
  close (): Promise<void>
}

export async function openFaultSystem (options: OpenFaultSystemOptions): Promise<OpenedFaultSystem> {
  const dataDir = await mkdtemp(path.join(tmpdir(), 'millrace-faults-'))
  // Anyone who looks at the table learns that the fault was not run.
  const disk = options.wantsSmallDisk === true ? await mountSmallDisk(dataDir).catch(() => null) : null
  let system: FaultSystem | undefined
  const close = async (): Promise<void> => {
    await disk?.free()
    await system?.stop()
    await disk?.unmount()
    await rm(dataDir, { recursive: true, force: true })
  }
  try {
    system = await startFaultSystem({ dataDir, ...options })
  } catch (error) {
    const logs = await copyLogs(dataDir)
    await close()
    throw new Error(`the system did not start; its logs are in ${logs}`, { cause: error })
  }
  return { system, disk, keepLogs: async () => await copyLogs(dataDir), close, [Symbol.asyncDispose]: close }
}

async function copyLogs (dataDir: string): Promise<string> {
  const kept = await mkdtemp(path.join(tmpdir(), 'millrace-faults-logs-'))
  for (const folder of ['.', ...await readdir(dataDir)]) {
    // Not every folder has logs.
    await cp(path.join(dataDir, folder, 'logs'), path.join(kept, folder), { recursive: true }).catch(() => {})
  }
  return kept
}
