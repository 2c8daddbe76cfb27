/** Reports an import to the management API, so that a team sees it. The import does not depend on that. */
import { createHash, randomUUID } from 'node:crypto'
import { readFileSync, renameSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { errorCode, HttpError, MillraceError } from '../../engines/errors.ts'
import { readVersion } from '../../schema/version.ts'
import type { ManagementClient } from '../management-client.ts'
import { type Digest, formatDay } from './event-digest.ts'
import { type ImportCounts, type ImportOptions, type ImportReporter, type ImportResult, IMPORTED_WITH_DIFFERENCES } from './import-options.ts'

const INTERVAL_MS = 3000

/** The last report is repeated for so long: an API that is started again is away for less. */
const END_PATIENCE_MS = 30_000

/** What the API takes of each list. */
const MOST = { files: 500, options: 20, reasons: 50, notices: 50, broken: 100, rows: 500, differences: 100 }

/** States of an import that ended with a result, by its exit code. */
const END_STATES = { 0: 'complete', 1: 'incomplete', [IMPORTED_WITH_DIFFERENCES]: 'complete_with_differences' } as const

/** Answers to a report that end the import, by their status. */
const REFUSALS: Record<number, string> = { 401: 'the personal API key is no longer accepted', 404: 'the record of the import was deleted' }

interface ReporterOptions extends Pick<ImportOptions, 'source' | 'project' | 'mode' | 'files'> {
  options: readonly string[]
  /** What the command has said so far. */
  notices: ReadonlySet<string>
  /** Called once, with the reason why a report failed. */
  tell: (why: string) => void
}

/** An API process that runs this one gets the id of the record as a message; it may have ended meanwhile. */
export function createReporter (api: ManagementClient, of: ReporterOptions): ImportReporter {
  const { project, source, mode, files, notices, tell } = of
  const params = { project_id: project }
  const reasons = new Map<string, number>()
  const ended = new AbortController()
  /** Of the record; null: the API takes no reports. */
  let id: number | null | undefined
  let [wasTold, last] = [false, { at: performance.now(), sent: 0 }]
  let stopped: string | undefined
  let checkpoint: ReturnType<typeof openCheckpoint>
  let count: () => ImportCounts
  let reporting: Promise<void> | undefined

  /** @returns whether the API has it, or takes none. */
  async function report (end: object = {}): Promise<boolean> {
    if (id === null) return true
    try {
      id ??= (await api.post('/api/projects/{project_id}/imports', { params, body: describeBegin(checkpoint.id, of) })).id
      process.send?.({ importId: id }, () => {})
      const { state, sent, bytesRead, ...counts } = count()
      const now = performance.now()
      const perSecond = Math.round((sent - last.sent) * 1000 / (now - last.at))
      last = { at: now, sent }
      const listed = [...reasons].map(([reason, rows]) => ({ reason, rows }))
      const progress = { ...counts, bytes_read: Math.round(bytesRead), events_per_second: perSecond, reasons: listed }
      const { stop } = await api.post('/api/projects/{project_id}/imports/{id}/report', {
        params: { ...params, id }, body: { state, progress, ...end }
      })
      if (stop) stopped = 'the import was stopped over the management API'
      return true
    } catch (error) {
      const status = error instanceof HttpError ? error.status : 500
      // Nobody could stop it any more, and capture goes on to take its events by the key of the project.
      if (id !== undefined) stopped ??= REFUSALS[status]
      // What else it refuses it refuses again, such as a key without the scope.
      if (status < 500 && status !== 429) id = null
      if (!wasTold && stopped === undefined) tell(error instanceof Error ? error.message : String(error))
      wasTold = true
      return id === null
    }
  }

  return {
    throwIfStopped () {
      if (stopped !== undefined) throw new MillraceError('MILLRACE_IMPORT_STOPPED', `${stopped}; run the same command to resume it`)
    },
    begin (stateFolder, look) {
      count = look
      checkpoint = openCheckpoint(stateFolder, [mode, source, files.map(({ name, bytes }) => [name, bytes])])
      reporting = (async () => {
        while (!ended.signal.aborted) {
          await report()
          await sleep(INTERVAL_MS, null, { signal: ended.signal }).catch(() => {})
        }
      })()
    },
    addRejected (text) {
      const isListed = reasons.has(cut(text)) || reasons.size < MOST.reasons - 1
      const reason = isListed ? cut(text) : 'other reasons'
      reasons.set(reason, (reasons.get(reason) ?? 0) + 1)
    },
    async end (end) {
      if (reporting === undefined) return
      ended.abort()
      await reporting
      if ('error' in end) {
        await report({ state: 'interrupted', error: /^[A-Z_]+$/.exec(errorCode(end.error))?.[0] ?? null })
        return
      }
      const last = { state: END_STATES[end.result.exitCode], result: describe(end.result, end.source, notices) }
      const isReported = await repeat(async () => await report(last))
      // Else the record would stay without its end: the same command goes on in it.
      if (isReported && end.result.exitCode !== 1) checkpoint.forget()
    }
  }
}

function describeBegin (checkpoint: string, { source, mode, options, files }: ReporterOptions): object {
  return {
    checkpoint, source, mode: mode.replace(' ', '_'), version: readVersion(),
    options: options.slice(0, MOST.options).map(cut),
    file_count: files.length, bytes: files.reduce((sum, { bytes }) => sum + bytes, 0),
    files: files.slice(0, MOST.files).map(({ name, bytes }) => ({ name: cut(name), bytes }))
  }
}

/** @returns whether it worked at last. */
async function repeat (attempt: () => Promise<boolean>): Promise<boolean> {
  const givesUpAt = performance.now() + END_PATIENCE_MS
  while (!await attempt()) {
    if (performance.now() > givesUpAt) return false
    await sleep(INTERVAL_MS)
  }
  return true
}

/** The checkpoint of an import that is resumed, or a new one. @param identity  What has to be the same. */
function openCheckpoint (stateFolder: string, identity: unknown): { id: string, forget: () => void } {
  const file = path.join(stateFolder, 'reports.json')
  const key = createHash('sha256').update(JSON.stringify(identity)).digest('hex')
  let known: Record<string, string> = {}
  try {
    known = { ...JSON.parse(readFileSync(file, 'utf8')) as typeof known }
  } catch {
    // Nothing was reported from here.
  }
  const id = known[key] ??= randomUUID()
  // Replaced as a whole: half of it would be the end of all records that can be resumed here.
  const save = (changes = {}): void => {
    writeFileSync(`${file}.new`, JSON.stringify({ ...known, ...changes }))
    renameSync(`${file}.new`, file)
  }
  save()
  return { id, forget: () => { save({ [key]: undefined }) } }
}

function describe (result: ImportResult, source: readonly Digest[], said: ReadonlySet<string>): object {
  const { events, duplicates, altered, conflicts, storedNow: stored, broken, proof } = result
  const conflicting = Object.values(conflicts).reduce((sum, rows) => sum + rows, 0)
  const names = broken.slice(0, MOST.broken).map(({ file, error }) => cut(`${file.slice(-100)}: ${error}`))
  const notices = [...describeUnread(result.unread), ...said].slice(0, MOST.notices).map(cut)
  const counts = { events, duplicates, altered, stored, conflicting, broken: names, notices }
  if (proof === null) return { ...counts, proof }
  const { isComplete, groups, equal, differing, differences } = proof
  const rows = differing.slice(0, MOST.rows).map(({ day, event, source, missing, changed, otherProperties }) =>
    ({ day, event: cut(event), events: source, missing, changed, other_properties: otherProperties }))
  const known = new Set(differing.map(({ day, event }) => `${day} ${event}`))
  for (const { day, event, count } of source) {
    if (rows.length >= MOST.rows) break
    if (known.has(`${formatDay(day)} ${event}`)) continue
    rows.push({ day: formatDay(day), event: cut(event), events: count, missing: 0, changed: 0, other_properties: 0 })
  }
  const listed = differences.slice(0, MOST.differences)
    .map(({ uuid, day, event, what }) => ({ uuid, day, event: cut(event), what }))
  return { ...counts, proof: { is_complete: isComplete, groups, equal, rows, differences: listed } }
}

/** Says which columns nothing reads, in texts that the API takes whole. */
export function describeUnread (unread: readonly string[]): string[] {
  const texts: string[] = []
  for (const column of unread) {
    const name = column === 'person_properties' ? `${column} (read with --persons events)` : cut(column).slice(0, 100)
    const last = texts.pop()
    if (last === undefined) texts.push(`Columns that the import ignores: ${name}`)
    else if (last.length + name.length <= 196) texts.push(`${last}, ${name}`)
    else texts.push(last, `Columns that the import ignores: ${name}`)
  }
  return texts
}

/** What the API takes of a text: no NUL, no half of a character, at most 200 code units. */
function cut (text: string): string {
  return text.replaceAll('\0', '\ufffd').slice(0, 200).toWellFormed()
}
