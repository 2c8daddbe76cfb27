/**
 * An import from its files to the proof: what `millrace import` does. Events go through capture, under uuids equal in
 * every run: rules, schemas, receipts and exactly-once apply without a second way into the table.
 */
import { closeSync, openSync, renameSync, writeFileSync } from 'node:fs'
import { mkdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { errorCode, MillraceError } from '../../engines/errors.ts'
import { tryLockFile } from '../../platform/durable-folder.ts'
import { type Digest, DigestCollector, type EventContent, formatDay, keyOf } from './event-digest.ts'
import { type ImportOptions, type ImportResult, IMPORTED_WITH_DIFFERENCES } from './import-options.ts'
import { type Proof, proveImport } from './prove-import.ts'
import type { SourceFile } from './list-files.ts'
import { personsOf, readEvents } from './read-events.ts'
import { RefusedEvents, RowMemory } from './row-memory.ts'
import { createSender, type SenderOptions } from './send-events.ts'

interface FileProgress {
  file: string
  /** Those that are acknowledged. */
  rows: number
}

const SAVE_INTERVAL_MS = 1000

/** The store has so long to show what was acknowledged, in milliseconds, without moving. */
const STORE_PATIENCE_MS = 300_000

/**
 * Runs an import, or goes on with one that was interrupted: events that were acknowledged are read again for the
 * proof, and sent again only where it finds them missing.
 *
 * @throws {MillraceError} `MILLRACE_IMPORT_REFUSED`, `MILLRACE_IMPORT_GAVE_UP`, `MILLRACE_IMPORT_NOT_STORED`,
 *   `MILLRACE_IMPORT_UNVERIFIED`, `MILLRACE_IMPORT_STATE`, `MILLRACE_IMPORT_STOPPED`.
 */
export async function runImport (options: ImportOptions): Promise<ImportResult> {
  const { stateFolder } = options
  await mkdir(stateFolder, { recursive: true }).catch((cause: Error) => { throw stateError(stateFolder, cause) })
  try {
    // Of two that save their progress here, the one behind would send again what the other has sent.
    const lock = tryLockFile(path.join(stateFolder, 'lock'))
    if (lock === null) throw new MillraceError('MILLRACE_IMPORT_STATE', `another import uses ${stateFolder}; wait until it ends, or choose another folder with --state`)
    if (options.mode !== 'dry run') await rm(path.join(stateFolder, 'proof.json'), { force: true })
    const memory = new RowMemory(path.join(stateFolder, 'rows.sqlite'))
    const refused = new RefusedEvents(path.join(stateFolder, 'refused.sqlite'))
    const rejects = openSync(path.join(stateFolder, 'rejected.ndjson'), 'w')
    try {
      return await importFiles(options, { memory, refused }, (rejected, result) => {
        result.rejected++
        options.reporter?.addRejected(rejected.error)
        writeFileSync(rejects, `${JSON.stringify(rejected)}\n`)
      })
    } catch (error) {
      await options.reporter?.end({ error })
      throw error
    } finally {
      closeSync(rejects)
      memory.close()
      refused.close()
      lock.release()
    }
  } catch (cause) {
    throw isOfState(cause) ? stateError(stateFolder, cause) : cause
  }
}

function stateError (folder: string, cause: Error): MillraceError {
  return new MillraceError('MILLRACE_IMPORT_STATE', `cannot write to ${folder}: ${cause.message}; make it writable, then run the same command again`, { cause })
}

/** Files of an export are only read: what cannot be written, or locked, is in the folder of the state. */
function isOfState (error: unknown): error is Error {
  return ['ENOSPC', 'EDQUOT', 'EROFS', 'ERR_SQLITE_ERROR'].includes(errorCode(error) ?? '')
}

interface RejectedRow { file: string, row: number, error: string, text?: string | undefined }

async function importFiles (
  options: ImportOptions, { memory, refused }: { memory: RowMemory, refused: RefusedEvents },
  reject: (rejected: RejectedRow, result: ImportResult) => void
): Promise<ImportResult> {
  const { source: product, project, url, files, stateFolder, mode, store, reporter } = options
  const sources = [...files, personsOf(files)]
  const progress = await openProgress(options)
  const digests = new DigestCollector(path.join(stateFolder, 'digests'))
  const result: ImportResult = {
    source: product, project, url, files, mode, finishedAt: '', exitCode: 0, rows: 0, events: 0, duplicates: 0, rejected: 0,
    altered: 0, conflicts: {}, sentNow: 0, storedNow: 0, unread: [], empty: [], broken: [], days: null, proof: null
  }
  const sentBefore = new Map<SourceFile, number>()
  const mapperOf = options.createMapperOf()
  let answeredAt = 0
  // What the proof sends once more is not among the unsent ones: it was accepted before.
  let [acknowledged, unsent, bytesBefore, reading] = [0, 0, 0, files[0]]
  reporter?.begin(stateFolder, () => ({
    state: reading === undefined ? 'proving' : 'running', rows: result.rows, rejected: result.rejected, sent: acknowledged,
    accepted: mode === 'import' ? digests.events - unsent : 0,
    bytesRead: bytesBefore + (reading?.bytesRead?.() ?? 0)
  }))
  const completeBefore = mode === 'import' ? await store.completeThrough() : 0
  const refuse = (file: SourceFile) => (row: number, event: EventContent, error: string): void => {
    digests.events--
    refused.add(event, error)
    reject({ file: file.name, row, error }, result)
  }

  for (const file of sources) {
    const done = progress.of(file)
    const onAcknowledged = (mark: number, events: number): void => {
      acknowledged += events
      unsent -= events
      refused.acknowledge(mark)
      done.rows = Math.max(done.rows, mark)
      progress.save(SAVE_INTERVAL_MS)
    }
    const sender = createSender({ ...options, onAcknowledged, onRefused: refuse(file) })
    const [alreadySent, rowsBefore] = [done.rows, result.rows]
    if (mode === 'import') sentBefore.set(file, alreadySent)
    reading = file
    try {
      await readEvents(file, { mapperOf, memory }, (event, position) => {
        reporter?.throwIfStopped()
        digests.add(event)
        memory.addPerson(event)
        if (event.isAltered === true) result.altered++
        const error = refused.reasonOf(event)
        if (mode !== 'import' && error !== undefined) refuse(file)(position, event, error)
        if (mode !== 'import' || (position <= alreadySent && error === undefined)) return
        if (error !== undefined) refused.sendAgain(event, position)
        result.sentNow++
        unsent++
        return sender.add(event, position)
      }, ({ position, ...read }) => {
        reporter?.throwIfStopped()
        result.rows++
        if ('error' in read) reject({ file: file.name, row: position, ...read }, result)
        if (result.rows % 100_000 === 0) options.onProgress(file.name, result.rows)
      })
      if (await hasChanged(file)) throw new Error('it changed during the import; run the same command again')
      if (file.path !== '' && result.rows === rowsBefore) result.empty.push(file.name)
    } catch (error) {
      if (errorCode(error) === 'MILLRACE_IMPORT_STOPPED') await sender.finish().then(() => { progress.save() })
      if (error instanceof MillraceError || isOfState(error)) throw error
      result.broken.push({ file: file.name, error: (error as Error).message })
    }
    answeredAt = Math.max(answeredAt, await sender.finish())
    progress.save()
    bytesBefore += file.bytes
    reading = undefined
  }

  const sent = { digests, memory, answeredAt, sentBefore, completeBefore, refused, refuse }
  await conclude({ ...options, files: sources }, result, sent)
  progress.save()
  return result
}

/** Since the files were listed. */
const hasChanged = async ({ path, bytes }: SourceFile): Promise<boolean> =>
  path !== '' && (await stat(path).catch(() => null))?.size !== bytes

interface Sent {
  digests: DigestCollector
  memory: RowMemory
  /** Time of the server at the last answer. */
  answeredAt: number
  /** Rows of each file that an earlier run sent. */
  sentBefore: ReadonlyMap<SourceFile, number>
  /** All that was received up to here was stored when the import began. */
  completeBefore: number
  refused: RefusedEvents
  refuse: (file: SourceFile) => NonNullable<SenderOptions['onRefused']>
}

/** Sums up what was read, proves that it is stored, and writes down how the import ended. */
async function conclude (options: ImportOptions, result: ImportResult, sent: Sent): Promise<void> {
  const { stateFolder, mode, store, reporter } = options
  const { digests, memory, completeBefore, refused } = sent
  const source = digests.finish(refused.isEmpty ? undefined : (copy) => refused.reasonOf(copy) !== undefined)
  const added = digests.events
  result.unread = [...memory.unread]
  result.events = source.reduce((sum, { count }) => sum + count, 0)
  result.duplicates = digests.events - result.events
  result.conflicts = Object.fromEntries(digests.conflicts)
  const [first, last] = [source[0], source.at(-1)]
  if (first !== undefined && last !== undefined) result.days = [formatDay(first.day), formatDay(last.day)]
  if (mode !== 'dry run') {
    await awaitStored(options, sent.answeredAt)
    result.proof = await proveAndMend(source, options, sent, result)
    result.proof.isComplete &&= result.broken.length === 0
    result.events += digests.events - added
    const groups = new Set(source.map(keyOf))
    const received = result.sentNow > 0 && first && last ? await store.digests(first.day, last.day, completeBefore) : []
    for (const digest of received) if (groups.has(keyOf(digest))) result.storedNow += digest.count
  }
  const { proof, broken, rejected, altered } = result
  const isDifferent = rejected + altered + (proof?.differing.length ?? 0) > 0 || digests.conflicts.size > 0
  // No row is an event when the files are of another product.
  const isComplete = broken.length === 0 && proof?.isComplete !== false && (rejected === 0 || result.events > 0)
  result.exitCode = !isComplete ? 1 : isDifferent ? IMPORTED_WITH_DIFFERENCES : 0
  result.finishedAt = new Date().toISOString()
  if (mode !== 'dry run') await writeFile(path.join(stateFolder, 'proof.json'), `${JSON.stringify(result, null, 2)}\n`)
  await reporter?.end({ result, source })
}

/**
 * Sends once more what an earlier run sent and the store does not have, such as events that were deleted meanwhile.
 * What this run has sent and is missing was dropped: to repeat it would change nothing.
 */
async function proveAndMend (
  source: readonly Digest[], options: ImportOptions, sent: Sent, result: ImportResult
): Promise<Proof> {
  const { memory, refused, sentBefore, refuse } = sent
  const mapperOf = options.createMapperOf()
  let [mended, answeredAt] = [0, 0]
  const proof = await proveImport(source, options.store, async (isMissing) => {
    for (const file of options.files) {
      const sender = createSender({ ...options, onAcknowledged: () => {}, onRefused: refuse(file) })
      try {
        await readEvents(file, { mapperOf, memory }, (event, position) => {
          options.reporter?.throwIfStopped()
          if (refused.reasonOf(event) !== undefined || !isMissing(event)) return
          if (position > (sentBefore.get(file) ?? 0)) return
          mended++
          return sender.add(event, position)
        })
      } catch (error) {
        // Reported when the file was first read.
        if (error instanceof MillraceError) throw error
      }
      answeredAt = Math.max(answeredAt, await sender.finish())
    }
  })
  result.sentNow += mended
  if (mended === 0) return proof
  await awaitStored(options, answeredAt)
  return await proveAndMend(source, options, { ...sent, sentBefore: new Map() }, result)
}

async function openProgress ({ stateFolder, personsFrom }: ImportOptions) {
  const file = path.join(stateFolder, 'progress.json')
  const saved = await readFile(file, 'utf8').catch(() => '{}')
  let files: Record<string, Partial<FileProgress>>
  try {
    files = JSON.parse(saved)
  } catch (cause) {
    throw new MillraceError('MILLRACE_IMPORT_STATE', `${file} is damaged; delete it and run the same command again: stored events are not stored twice`, { cause })
  }
  let savedAt = performance.now()
  return {
    of ({ name, bytes }: SourceFile): FileProgress {
      // Another answer to who changes persons sends the events again; other content is found by the proof.
      const done = files[`${name} ${bytes} ${personsFrom}`] ??= {}
      return Object.assign(done, { file: name, rows: 0, ...done })
    },
    /** Replaces the whole file: a crash leaves the previous one. Synchronous, so that two saves never interleave. */
    save (intervalMs = 0): void {
      if (performance.now() - savedAt < intervalMs) return
      savedAt = performance.now()
      writeFileSync(`${file}.new`, JSON.stringify(files))
      renameSync(`${file}.new`, file)
    }
  }
}

/** Waits until everything that was acknowledged up to a moment of the server is stored. */
async function awaitStored ({ store, reporter }: ImportOptions, answeredAt: number): Promise<void> {
  let [through, movedAt] = [0, performance.now()]
  for (;;) {
    reporter?.throwIfStopped()
    const now = await store.completeThrough()
    // The time of an answer has whole seconds.
    if (now > answeredAt + 1000) return
    if (now > through) [through, movedAt] = [now, performance.now()]
    if (performance.now() - movedAt > STORE_PATIENCE_MS) {
      throw new MillraceError('MILLRACE_IMPORT_NOT_STORED', 'every event was acknowledged, but the watermark is stuck; check npx millrace status, then run again with --verify')
    }
    await sleep(1000)
  }
}
