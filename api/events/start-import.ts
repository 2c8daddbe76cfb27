/** Runs `millrace import` beside the API, on exports that lie on the server (docs/decisions/0044). */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, readdir, stat } from 'node:fs/promises'
import { setPriority } from 'node:os'
import path from 'node:path'
import { errorCode, HttpError, invalidField } from '../../engines/errors.ts'
import type { Logger } from '../../platform/logger.ts'
import type { Sql } from '../../platform/postgres/connect-postgres.ts'
import { requireScope } from '../../schema/scopes.ts'
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

/** Longest wait for the first report of the command, in milliseconds: then the answer has no id. */
const BEGIN_MS = 30_000

/** So much of the end of what the command says is logged, in characters. */
const LOGGED = 4000

/** Flags and queries go first: the lowest priority but one of Unix. */
const PRIORITY = 18

/** Entries of a folder that are listed. */
const MAX_FILES = 1000

/** The key of a run is deleted at its end; one that the end of this process left stops working after so long. */
const KEY_DAYS = 7

export interface RunImportsOptions {
  /** Folder with a folder of exports for each project, by its id; empty: the API runs no imports. */
  folder: string
  /** Where the command reaches capture and the API. */
  url: string
  sql: Sql
  logger: Logger
  now: () => number
}

type Options = Value<typeof runSchema>

/** Imports that this process runs: one of a project at a time, because they share its folder. */
export interface ImportRunner {
  /** The folder of a project, and what is in it. @throws {HttpError} 409 when it cannot be read. */
  list: (projectId: number) => Promise<Value<typeof importFilesSchema>>
  /**
   * Starts an import as the caller, or resumes it.
   *
   * @returns the id of its record; null when it has none yet.
   * @throws {HttpError} 403, 409 while others run, 400 with what the command said when it could not begin.
   */
  run: (access: Access, options: Options) => Promise<number | null>
  /** Ends the import that runs. It can be resumed. */
  close: () => Promise<void>
}

export function createImportRunner (deps: RunImportsOptions): ImportRunner {
  const { folder, sql, logger } = deps
  const closed = new AbortController()
  const running = new Map<number, Promise<null>>()

  const folderOf = (projectId: number): string => path.join(folder, String(projectId))

  async function list (projectId: number): ReturnType<ImportRunner['list']> {
    if (folder === '') return { folder: null, files: [] }
    const own = folderOf(projectId)
    // Made here, it is the API's own, and the state can be written beside what somebody else copies into it.
    const names = await mkdir(own, { recursive: true }).then(async () => await readdir(own)).catch((error: unknown) => {
      throw conflict(`The API cannot use ${own}: ${errorCode(error)}.`)
    })
    const shown = names.filter((name) => !name.startsWith('.')).sort().slice(0, MAX_FILES)
    const files = await Promise.all(shown.map(async (name) => {
      const found = await stat(path.join(own, name)).catch(() => undefined)
      return found && { name, is_folder: found.isDirectory(), bytes: found.isDirectory() ? null : found.size }
    }))
    return { folder: own, files: files.filter((file) => file !== undefined) }
  }

  /** Runs the command to its end. @throws {HttpError} when it did not begin. */
  async function execute (access: Access, options: Options, onBegun: (id: number | null) => void): Promise<null> {
    const { projectId: project } = access
    const { files } = await list(project)
    const { name = '' } = options
    if (name !== '' && !files.some((file) => file.name === name)) {
      throw invalidField('name', `There is nothing of this name in ${folderOf(project)}.`)
    }
    const { id, value: key } = await createKey(deps, access, { label: 'import run by the API', scopes: [...SCOPES], scoped_teams: [project], expires_at: null })
    const timer = setTimeout(onBegun, BEGIN_MS, null)
    try {
      await sql`UPDATE personal_api_keys SET expires_at = LEAST(expires_at, now() + ${KEY_DAYS} * interval '1 day') WHERE id = ${id}`
      const { PATH, NODE_OPTIONS, NODE_EXTRA_CA_CERTS, NODE_COMPILE_CACHE } = process.env
      const child = spawn(process.execPath, [COMMAND, ...describeCommand(folderOf(project), project, options)], {
        // Nothing of the API's own settings: the command has no use for its passwords.
        env: { PATH, NODE_OPTIONS, NODE_EXTRA_CA_CERTS, NODE_COMPILE_CACHE, MILLRACE_URL: deps.url, MILLRACE_KEY: key },
        stdio: ['ignore', 'ignore', 'pipe', 'ipc'], signal: closed.signal, killSignal: 'SIGKILL'
      })
      let [said, hasBegun] = ['', false]
      child.stderr?.setEncoding('utf8').on('data', (text: string) => { said = (said + text).slice(-LOGGED) })
      child.once('message', ({ importId }: { importId: number }) => {
        hasBegun = true
        onBegun(importId)
      })
      if (child.pid !== undefined) setPriority(child.pid, PRIORITY)
      const [code] = await once(child, 'close').catch(() => [null])
      logger.info({ project, code, said }, 'an import that the API ran has ended')
      if (!hasBegun) throw new HttpError(400, 'validation_error', 'invalid_input', /^(?:millrace|error): (.*)/m.exec(said)?.[1] ?? `The import ended with code ${code}.`)
      return null
    } finally {
      clearTimeout(timer)
      // One that stays stops working by itself.
      await sql`DELETE FROM personal_api_keys WHERE id = ${id}`.catch(() => {})
    }
  }

  return {
    list,
    async run (access, options) {
      const { projectId, scopes } = access
      for (const scope of SCOPES) requireScope(scopes, scope)
      if (folder === '') throw conflict('This API has no folder of exports (MILLRACE_IMPORT_FOLDER): run the command where the files are.')
      if (running.has(projectId) || running.size >= MAX_RUNNING) {
        throw conflict(`This API runs ${running.has(projectId) ? 'an import of this project' : `${MAX_RUNNING} imports`} already: wait for its end, or stop it.`)
      }
      return await new Promise((resolve, reject) => {
        const ended = execute(access, options, resolve).finally(() => { running.delete(projectId) })
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

function conflict (detail: string): HttpError {
  return new HttpError(409, 'invalid_request', 'conflict', detail)
}

/** Its state is beside the exports and hidden, so that the same import is resumed. */
function describeCommand (
  folder: string, projectId: number, { source, name = '', dry_run: isDryRun, persons, timezone, map, events_per_second: rate }: Options
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
