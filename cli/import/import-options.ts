/** What an import is asked for, what it counts, and how it ends. */
import type { MapRow } from '../../engines/import/imported-event.ts'
import type { Digest } from './event-digest.ts'
import type { SourceFile } from './list-files.ts'
import type { Proof } from './prove-import.ts'
import type { StoredEvents } from './query-store.ts'
import type { SenderOptions } from './send-events.ts'

/** Makes the mapper of a file, of which it may ask the columns. */
export type MapperOf = (listColumns: () => Promise<string[]>) => Promise<MapRow>

export interface ImportOptions extends Omit<SenderOptions, 'onAcknowledged'> {
  source: string
  project: number
  files: readonly SourceFile[]
  /** Called before the files are read, and again before they are read a second time. */
  createMapperOf: () => MapperOf
  /** Folder for what was sent, what was rejected, and the proof. */
  stateFolder: string
  store: StoredEvents
  /** A dry run reads and counts only, a verification compares only. */
  mode: 'import' | 'dry run' | 'verification'
  /** @param rows  Of all files. */
  onProgress: (file: string, rows: number) => void
  reporter?: ImportReporter
}

/** Exit code of an import that is complete, with differences of content; documented in docs/run/import.md. */
export const IMPORTED_WITH_DIFFERENCES = 5

/** The content of `proof.json`. */
export interface ImportResult extends Pick<ImportOptions, 'source' | 'project' | 'url' | 'files' | 'mode'> {
  finishedAt: string
  exitCode: 0 | 1 | typeof IMPORTED_WITH_DIFFERENCES
  rows: number
  events: number
  /** Events that the files have more than once. */
  duplicates: number
  rejected: number
  /** Events with a text or number that is stored as U+FFFD or null, as it cannot be stored as it is. */
  altered: number
  /** By day and name: rows whose event the files also have with another time or other properties. */
  conflicts: Record<string, number>
  sentNow: number
  /** Events of days and names in the files that were received since the run began, and are stored. */
  storedNow: number
  /** Columns, or fields of JSON, that nothing reads: at most 1,000. */
  unread: string[]
  empty: string[]
  /** Files that could not be read to their end, with the reason. */
  broken: { file: string, error: string }[]
  /** First and last UTC day of the events; null without events. */
  days: [first: string, last: string] | null
  proof: Proof | null
}

export interface ImportCounts {
  state: 'running' | 'proving'
  rows: number
  rejected: number
  /** Acknowledged in this run. */
  sent: number
  /** In this run and earlier ones. */
  accepted: number
  bytesRead: number
}

export interface ImportReporter {
  /** Begins to report every few seconds. */
  begin: (stateFolder: string, count: () => ImportCounts) => void
  addRejected: (reason: string) => void
  /** @throws {MillraceError} `MILLRACE_IMPORT_STOPPED` when somebody asked for the end over the API. */
  throwIfStopped: () => void
  /** Reports the end, unless the API does not answer. @param source  All days and names in the files. */
  end: (end: { result: ImportResult, source: readonly Digest[] } | { error: unknown }) => Promise<void>
}
