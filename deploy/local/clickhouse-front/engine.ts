import { mkdirSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import chdb, { type Session } from 'chdb'
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
  tableFunctions: readonly string[]
  /** Opens a session, which costs about 0.1 ms. */
  openSession: (profile: Settings, settings: SettingsMap) => Promise<EngineSession>
  close: () => Promise<void>
}

/**
 * Opens the engine on a folder.
 *
 * @throws when another process holds the folder, with a text that says so.
 */
export async function openEngine (dataDir: string): Promise<Engine> {
  mkdirSync(dataDir, { recursive: true })
  const configPath = path.join(dataDir, 'millrace-engine.xml')
  writeFileSync(configPath, engineConfig())

  const first = openFirst(dataDir, configPath)
  const ask = async (sql: string): Promise<string[][]> => {
    const text = (await first.queryAsync(sql, { format: 'TSV' })).text()
    return text.trim().split('\n').map((line) => line.split('\t'))
  }
  const [[version, timezone]] = await ask('SELECT version(), timezone()') as [[string, string]]
  const formats = await ask("SELECT name, content_type FROM system.formats WHERE is_output AND content_type != ''")
  const functions = await ask('SELECT name FROM system.table_functions')
  let opened = 0

  return {
    version,
    timezone,
    contentTypes: new Map(formats as Array<[string, string]>),
    tableFunctions: functions.map(([name]) => name!),
    async openSession (profile, settings) {
      opened++
      const session = new chdb.Session(dataDir)
      try {
        return await EngineSession.open(session, `front-${process.pid}-${opened}`, profile, settings)
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
    const text = cause instanceof Error ? cause.message : String(cause)
    if (/CANNOT_OPEN_FILE|lock|76/i.test(text)) {
      throw new Error(`the ClickHouse data directory ${dataDir} is in use by another process (${text})`, { cause })
    }
    throw cause
  }
}
