/** The ClickHouse engine in this process, and the sessions that run statements in it. */
import { mkdirSync, readFileSync, statfsSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import chdb, { type Session } from 'chdb'
import { StartError } from '../options.ts'
import { quoteIdentifier, quoteString } from '../statement/sql-lexer.ts'
import { engineConfig, type Settings } from './profiles.ts'

/** The one engine of this process. It binds one data directory for the life of the process; every session shares it. */
export type Engine = Awaited<ReturnType<typeof openEngine>>

/** What the engine tells about a statement that has ended. */
export interface EngineResult {
  bytes: Uint8Array
  /** Rows that a SELECT gave, or that an INSERT took from its file; bytes of these. */
  rows: number
  rowBytes: number
  elapsedSeconds: number
}

/** What a query wants its session to be like. */
export interface SessionState {
  database: string
  settings: SettingsMap
}

type SettingsMap = ReadonlyMap<string, string>

/**
 * Opens the engine on a folder.
 *
 * @param options.backupsDir   Where backups may be written.
 * @param options.memoryBytes  Maximum memory; 0: see `engineConfig`.
 * @throws {StartError} when another process holds the folder.
 */
export async function openEngine (dataDir: string, options: { backupsDir: string, memoryBytes: number }) {
  mkdirSync(dataDir, { recursive: true })
  const configPath = path.join(dataDir, 'server-engine.xml')
  const { blocks, bsize } = statfsSync(dataDir)
  writeFileSync(configPath, engineConfig({ ...options, diskBytes: blocks * bsize }))

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
    /** Its folder. */
    dir: dataDir,
    /** Of ClickHouse. */
    version,
    timezone,
    /** By name of output format. */
    contentTypes: new Map(formats as Array<[string, string]>),
    /** Names of what it can call, without functions that its owner has made. */
    functions: functions.map(([name]) => name!),
    tableFunctions: tableFunctions.map(([name]) => name!),
    /** Costs about 0.1 ms. */
    async openSession (profile: Settings = {}, settings: SettingsMap = new Map()): Promise<EngineSession> {
      opened++
      const session = new EngineSession(new chdb.Session(dataDir), `session-${process.pid}-${opened}`)
      try {
        await session.prepare(profile, settings)
        return session
      } catch (error) {
        session.close()
        throw error
      }
    },
    async close (): Promise<void> {
      first.close()
      await chdb.drainPending()
    }
  }
}

/**
 * One connection to the engine: runs one statement at a time and keeps a current database and settings.
 *
 * Settings of a request are brought in by SET, not by a SETTINGS clause: SET works for every statement, needs no
 * place in the text, and costs 0.1 ms, nothing when the same client asks again with the same settings.
 */
export class EngineSession {
  /** Marks the session's queries in system.processes, so that they can be killed. */
  readonly mark: string
  /** Set when a statement may have changed the session in a way only the engine knows. */
  dirty = false
  /** Whether the engine is at work on a statement. */
  isRunning = false
  #session: Session
  #database = 'default'
  #settings = new Map<string, string>()

  constructor (session: Session, mark: string) {
    this.#session = session
    this.mark = mark
  }

  /**
   * @param profile  Settings that are never taken back. `readonly` is set last, as it ends all SETs.
   * @param settings  Settings of the first request, stronger than the profile.
   */
  async prepare ({ readonly, ...profile }: Settings, settings: SettingsMap): Promise<void> {
    const all = { ...profile, ...Object.fromEntries(settings), log_comment: this.mark }
    await this.run(`SET ${Object.entries(all).map(assign).join(', ')}`)
    if (readonly !== undefined) await this.run(`SET readonly = ${quoteString(readonly)}`)
    this.#settings = new Map(settings)
  }

  /** Whether a query with this state needs no change at all. */
  isAt (state: SessionState): boolean {
    return state.database === this.#database && this.#changes(state.settings).length === 0
  }

  /**
   * Brings the session to a state.
   *
   * @throws the engine's error for an unknown database or setting; the session is dirty then.
   */
  async moveTo (state: SessionState): Promise<void> {
    if (this.isAt(state)) return
    this.dirty = true
    if (state.database !== this.#database) await this.run(`USE ${quoteIdentifier(state.database)}`)
    const changes = this.#changes(state.settings)
    if (changes.length > 0) await this.run(`SET ${changes.join(', ')}`)
    this.#database = state.database
    this.#settings = new Map(state.settings)
    this.dirty = false
  }

  /**
   * Releases the tables of a SELECT that failed while it ran: the engine keeps them until the session's next statement.
   * Dropping one would wait for that, with `SYNC` at once, otherwise after eight minutes, and keep a core busy.
   */
  async releaseTables (): Promise<void> {
    if (this.dirty) return
    // Allowed in every session, whatever its settings, for a fifth of the CPU of SELECT 1.
    await this.run(`USE ${quoteIdentifier(this.#database)}`).catch(() => { this.dirty = true })
  }

  /** Gives the values of query parameters. They stay until overwritten: see `read-statement.ts`. */
  async setParams (params: ReadonlyMap<string, string>): Promise<void> {
    if (params.size === 0) return
    await this.run(`SET ${[...params].map(([name, value]) => assign([`param_${name}`, value])).join(', ')}`)
  }

  /** @param format  Used when the statement has no FORMAT of its own. */
  async run (sql: string, format = 'TabSeparated'): Promise<EngineResult> {
    this.isRunning = true
    try {
      const result = await this.#session.queryAsync(sql, { format })
      const { rowsRead, bytesRead, elapsed } = result
      return { bytes: result.bytes(), rows: rowsRead, rowBytes: bytesRead, elapsedSeconds: elapsed }
    } finally {
      this.isRunning = false
    }
  }

  /** Rows of the server's own questions, as objects. */
  async rows<T> (sql: string): Promise<T[]> {
    const { bytes } = await this.run(sql, 'JSONEachRow')
    return Buffer.from(bytes).toString().split('\n').filter(Boolean).map((line) => JSON.parse(line) as T)
  }

  close (): void {
    this.#session.close()
  }

  #changes (wanted: SettingsMap): string[] {
    const changes: string[] = []
    for (const [name, value] of wanted) if (this.#settings.get(name) !== value) changes.push(assign([name, value]))
    for (const name of this.#settings.keys()) if (!wanted.has(name)) changes.push(`${name} = DEFAULT`)
    return changes
  }
}

function openFirst (dataDir: string, configPath: string): Session {
  if (dataDir.includes('\\')) {
    throw new StartError(`--data-dir: ClickHouse cannot open ${dataDir}: choose a folder without a backslash in its path`)
  }
  try {
    return new chdb.Session(dataDir, { connectionArgs: [`--config-file=${configPath}`] })
  } catch (cause) {
    const owner = readOwner(dataDir)
    if (owner === undefined) throw cause
    throw new StartError(`the ClickHouse data directory ${dataDir} is in use by process ${owner}`)
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

function assign ([name, value]: [string, string]): string {
  return `${name} = ${quoteString(value)}`
}
