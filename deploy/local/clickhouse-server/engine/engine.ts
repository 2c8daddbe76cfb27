import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import chdb, { type Session } from 'chdb'
import { SettingsError } from '../../../../platform/errors.ts'
import { EngineSession, type Settings, type SettingsMap } from './engine-session.ts'
import { engineConfig } from './profiles.ts'

/**
 * The one engine of this process. It binds one data directory for the life of the process; every session shares it.
 */
export interface Engine {
  /** Version of ClickHouse, as `SELECT version()` gives it. */
  version: string
  timezone: string
  /** Content type by name of output format. */
  contentTypes: ReadonlyMap<string, string>
  /** Names of what it can call, without functions that its owner has made. */
  functions: readonly string[]
  tableFunctions: readonly string[]
  /** Opens a session, which costs about 0.1 ms. */
  openSession: (profile: Settings, settings: SettingsMap) => Promise<EngineSession>
  close: () => Promise<void>
}

/**
 * Opens the engine on a folder.
 *
 * @param backupsDir  Where backups may be written.
 * @throws {SettingsError} when another process holds the folder.
 */
export async function openEngine (dataDir: string, backupsDir: string): Promise<Engine> {
  mkdirSync(dataDir, { recursive: true })
  const configPath = path.join(dataDir, 'millrace-engine.xml')
  writeFileSync(configPath, engineConfig(backupsDir))

  const first = openFirst(dataDir, configPath)
  const ask = async (sql: string): Promise<string[][]> => {
    const text = (await first.queryAsync(sql, { format: 'TSV' })).text()
    return text.trim().split('\n').map((line) => line.split('\t'))
  }
  const [[version, timezone]] = await ask('SELECT version(), timezone()') as [[string, string]]
  const formats = await ask("SELECT name, content_type FROM system.formats WHERE is_output AND content_type != ''")
  const functions = await ask("SELECT name FROM system.functions WHERE origin = 'System'")
  const tableFunctions = await ask('SELECT name FROM system.table_functions')
  let opened = 0

  return {
    version,
    timezone,
    contentTypes: new Map(formats as Array<[string, string]>),
    functions: functions.map(([name]) => name!),
    tableFunctions: tableFunctions.map(([name]) => name!),
    async openSession (profile, settings) {
      opened++
      const session = new chdb.Session(dataDir)
      try {
        return await EngineSession.open(session, `parts-${process.pid}-${opened}`, profile, settings)
      } catch (error) {
        session.close()
        throw error
      }
    },
    async close () {
      first.close()
      await chdb.drainPending()
    }
  }
}

function openFirst (dataDir: string, configPath: string): Session {
  try {
    return new chdb.Session(dataDir, { connectionArgs: [`--config-file=${configPath}`] })
  } catch (cause) {
    const owner = readOwner(dataDir)
    if (owner === undefined) throw cause
    throw new SettingsError([`MILLRACE_DATA_DIR: the ClickHouse data directory ${dataDir} is in use by process ${owner}`])
  }
}

/** The engine says only on standard error why it cannot open a folder; its lock file holds the owner's process id. */
function readOwner (dataDir: string): number | undefined {
  try {
    const owner = Number(/^PID: (\d+)/.exec(readFileSync(path.join(dataDir, 'status'), 'utf8'))?.[1])
    if (owner === process.pid) return undefined
    process.kill(owner, 0)
    return owner
  } catch {
    // No lock file, or its process is gone: the folder could not be opened for another reason.
    return undefined
  }
}
