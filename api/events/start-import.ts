/**
 * Runs `millrace import` beside the API, on exports that lie on the server: a process of its own keeps up to 300 MB of
 * memory away from the API, and uploads would need the size of the export on its disk.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync } from 'node:fs'
import { mkdir, readdir, stat } from 'node:fs/promises'
import { setPriority } from 'node:os'
import path from 'node:path'
import { errorCode, HttpError, invalidField } from '../../engines/errors.ts'
import type { Logger } from '../../platform/logger.ts'
import type { Sql } from '../../platform/postgres/connect-postgres.ts'
import type { Value } from '../http/json-schema.ts'
import type { Access } from '../http/personal-key-access.ts'
import { createKey } from '../projects/personal-key-routes.ts'
import type { importFilesSchema, runSchema } from './import-schemas.ts'

/** What the command needs of a project. */
const SCOPES = ['project:read', 'event:read', 'event:write'] as const

/** `main.ts`, in the package `main.js`. */
const COMMAND = path.resolve(import.meta.dirname, '..', '..', 'cli', `main${path.extname(import.meta.filename)}`)

/** Each needs up to 300 MB of memory, and half of a core. */
const MAX_RUNNING = 2

/** So much of the end of what the command says is logged, in characters. */
const LOGGED = 4000

/** Of an import that has begun: flags and queries go first. Its start would take minutes with it on a busy machine. */
const PRIORITY = 10

const MAX_FILES = 1000

/** The key of a run works for so long, in milliseconds, and is renewed as long as this process lives. */
const KEY_MS = 3_600_000

export interface RunImportsOptions {
  /** Folder with a folder of exports for each project, by its id; empty: the API runs no imports. */
  folder: string
  /** Where the command reaches capture and the API. */
  url: string
  sql: Sql
  logger: Logger
  now: () => number
  /** Longest wait for the first report of the command, in milliseconds: then the answer has no id. Default 30,000. */
  beginMs?: number
}

type Options = Value<typeof runSchema>

/** Imports that this process runs: one of a project at a time, because they share its folder. */
export interface ImportRunner {
  /** The folder of a project and its files. @throws {HttpError} 409 when it cannot be read. */
  list: (projectId: number) => Promise<Value<typeof importFilesSchema>>
  /**
   * Starts an import as the caller, or resumes it.
   *
   * @returns the id of its record; null when it has none yet.
   * @throws {HttpError} 403, 409 while others run, 400 with what the command said when it could not begin.
   */
  run: (access: Access, options: Options) => Promise<number | null>
  /** Ends the imports that run. They can be resumed. */
  close: () => Promise<void>
}

export function createImportRunner (deps: RunImportsOptions): ImportRunner {
  const { folder } = deps
  const closed = new AbortController()
  const running = new Map<number, Promise<void>>()
  const folderOf = (projectId: number): string => path.join(folder, String(projectId))

  return {
    async list (projectId) {
      if (folder === '') return { folder: null, files: [] }
      const own = folderOf(projectId)
      const files = await Promise.all((await readNames(own)).slice(0, MAX_FILES).map(async (name) => {
        const found = await stat(path.join(own, name)).catch(() => undefined)
        const isFolder = found?.isDirectory() === true
        if (found === undefined || !(isFolder || found.isFile())) return []
        return [{ name, is_folder: isFolder, bytes: isFolder ? null : found.size }]
      }))
      return { folder: own, files: files.flat() }
    },
    async run (access, options) {
      const { projectId } = access
      for (const scope of SCOPES) access.requireScope(scope)
      if (folder === '') throw conflict('This API has no import folder (MILLRACE_IMPORT_FOLDER): run the command where the files are.')
      if (running.has(projectId) || running.size >= MAX_RUNNING) {
        throw conflict(`This API is already running ${running.has(projectId) ? 'an import of this project' : `${MAX_RUNNING} imports`}: wait until it ends, or stop it.`)
      }
      return await new Promise((resolve, reject) => {
        const command = { access, options, folder: folderOf(projectId), signal: closed.signal }
        const ended = execute(deps, command, resolve).finally(() => { running.delete(projectId) })
        running.set(projectId, ended)
        ended.catch(reject)
      })
    },
    async close () {
      closed.abort()
      await Promise.allSettled(running.values())
    }
  }
}

/** Without hidden ones. @throws {HttpError} 409. */
async function readNames (folder: string): Promise<string[]> {
  try {
    // Made here, it is the API's own, and the state can be written beside what somebody else copies into it.
    await mkdir(folder, { recursive: true })
    return (await readdir(folder)).filter((name) => !name.startsWith('.')).sort()
  } catch (error) {
    throw conflict(`The API cannot use ${folder}: ${errorCode(error)}.`)
  }
}

interface ImportCommand { access: Access, options: Options, folder: string, signal: AbortSignal }

/** Runs the command to its end. @throws {HttpError} when it did not begin. */
async function execute (
  deps: RunImportsOptions, { access, options, folder, signal }: ImportCommand, onBegun: (id: number | null) => void
): Promise<void> {
  const { sql, logger } = deps
  const { projectId: project } = access
  const names = await readNames(folder)
  if (options.name !== undefined && !names.includes(options.name)) throw invalidField('name', `There is nothing of this name in ${folder}.`)
  const rights = { label: 'import run by the API', scopes: [...SCOPES], scoped_teams: [project], expires_at: null }
  const { id, value: key, expires_at: end } = await createKey(deps, access, rights)
  const renewKey = async (): Promise<void> => {
    await sql`UPDATE personal_api_keys SET expires_at = LEAST(${end}::timestamptz, now() + ${KEY_MS} * interval '1 millisecond') WHERE id = ${id}`
  }
  // Safe to ignore: the next of several tries comes in time.
  const renewing = setInterval(() => { renewKey().catch(() => {}) }, KEY_MS / 6)
  const timer = setTimeout(onBegun, deps.beginMs ?? 30_000, null)
  try {
    await renewKey()
    const { PATH, NODE_OPTIONS, NODE_EXTRA_CA_CERTS, NODE_COMPILE_CACHE } = process.env
    const child = spawn(process.execPath, [COMMAND, ...describeCommand(folder, project, options)], {
      // Nothing of the API's own settings: the command has no use for its passwords.
      env: { PATH, NODE_OPTIONS, NODE_EXTRA_CA_CERTS, NODE_COMPILE_CACHE, MILLRACE_URL: deps.url, MILLRACE_KEY: key },
      stdio: ['ignore', 'ignore', 'pipe', 'ipc'], signal, killSignal: 'SIGKILL'
    })
    let said = ''
    let begun: number | undefined
    child.stderr?.setEncoding('utf8').on('data', (text: string) => { said = (said + text).slice(-LOGGED) })
    child.once('message', ({ importId }: { importId: number }) => {
      begun = importId
      onBegun(importId)
      try {
        // Linux has a priority for each thread.
        for (const thread of readdirSync(`/proc/${child.pid}/task`)) setPriority(Number(thread), PRIORITY)
      } catch {
        // It has ended already, or works as it is.
      }
    })
    const [code] = await once(child, 'close').catch(() => [null])
    logger.info({ project, code, said }, 'server-side import ended; "code" is its exit code, 0 if complete')
    if (begun === undefined) throw new HttpError(400, 'validation_error', 'invalid_input', /^(?:millrace|error): (.*)/m.exec(said)?.[1] ?? `The import ended with code ${code}.`)
    // One that was killed, or whose key was revoked, could not report its end.
    await sql`UPDATE imports SET state = 'interrupted', error = 'MILLRACE_IMPORT_ENDED', ended_at = now()
      WHERE project_id = ${project} AND id = ${begun} AND ended_at IS NULL`
      .catch((err: unknown) => { logger.warn({ err, project, id: begun }, 'could not record the end of an import') })
  } finally {
    clearTimeout(timer)
    clearInterval(renewing)
    // One that stays stops working by itself.
    await sql`DELETE FROM personal_api_keys WHERE id = ${id}`.catch(() => {})
  }
}

const conflict = (detail: string): HttpError => new HttpError(409, 'invalid_request', 'conflict', detail)

/** Its state is beside the exports and hidden, so that the same import is resumed. */
function describeCommand (
  folder: string, projectId: number,
  { source, name = '', dry_run: isDryRun, persons, timezone, map, events_per_second: rate }: Options
): string[] {
  return [
    'import', source, path.join(folder, name), `--project=${projectId}`, `--state=${path.join(folder, `.millrace-import-${source}`)}`,
    ...rate === undefined ? [] : [`--events-per-second=${rate}`],
    ...persons === undefined ? [] : [`--persons=${persons}`],
    ...timezone === undefined ? [] : [`--timezone=${timezone}`],
    ...Object.entries(map ?? {}).map(([field, column]) => `--map=${field}=${column}`),
    ...isDryRun === true ? ['--dry-run'] : []
  ]
}
