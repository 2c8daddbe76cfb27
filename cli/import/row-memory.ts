/** What an import remembers of rows and events. It is on disk: memory does not grow with their number. */
import { rmSync } from 'node:fs'
import { DatabaseSync } from 'node:sqlite'
import { parseStoredJson } from '../../engines/body/parse-json.ts'
import { stringifyJson } from '../../engines/body/stringify-json.ts'
import { fieldsOf } from '../../engines/fields.ts'
import { checked, type ImportedEvent, type RowsBefore, uuidOf } from '../../engines/import/imported-event.ts'
import { type EventContent, nameCopy } from './event-digest.ts'

/** Pages of this many KiB are in memory. Rows of a file come roughly by time, and so do those that are looked for. */
const CACHE_KIB = 16_000

/** Columns that are named; JSON may have any number. */
const MAX_COLUMNS = 1000

const MAX_KEYS = 10_000

/**
 * Per row without an id, 24 bytes: its time and 96 bits of the hash of its content. Per person whose properties events
 * tell, the latest of them for each set of names that it had.
 */
const TABLES = `
  CREATE TABLE counts (at INTEGER, high INTEGER, low INTEGER, rows INTEGER, PRIMARY KEY (at, high, low)) WITHOUT ROWID;
  CREATE TABLE persons (id TEXT, names INTEGER, at INTEGER, properties TEXT, PRIMARY KEY (id, names))`

/** It is needed in one run only: each reads all files. */
export class RowMemory implements RowsBefore {
  readonly #path: string
  readonly #database: DatabaseSync
  readonly #count
  readonly #addPerson
  /** Of sets of names. */
  readonly #keys = new Map<string, number>()
  #lastKey = 0

  /** Columns that were noted. */
  readonly unread = new Set<string>()

  constructor (path: string) {
    this.#path = path
    rmSync(path, { force: true })
    this.#database = new DatabaseSync(path)
    // Nothing is committed, so that what fits into the cache is never written.
    this.#database.exec(`PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA locking_mode = EXCLUSIVE;
      PRAGMA cache_size = -${CACHE_KIB}; BEGIN; ${TABLES}`)
    this.#count = this.#database.prepare(
      'INSERT INTO counts VALUES (?, ?, ?, 1) ON CONFLICT DO UPDATE SET rows = rows + 1 RETURNING rows')
    this.#addPerson = this.#database.prepare(`INSERT INTO persons VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE
      SET at = excluded.at, properties = excluded.properties WHERE (excluded.at, excluded.properties) > (at, properties)`)
  }

  /** Rows are counted in each file of its own, also in a zip. */
  beginFile (): void {
    this.#database.exec('DELETE FROM counts')
  }

  count (uuid: string, timestamp: number): number {
    const [high, low] = [uuid.slice(0, 8) + uuid.slice(9, 13), uuid.slice(24)]
    return Number(this.#count.get(timestamp, parseInt(high, 16), parseInt(low, 16))?.['rows'])
  }

  noteColumns (fields: Record<string, unknown>, read: ReadonlySet<string>): void {
    for (const column in fields) if (!read.has(column) && this.unread.size < MAX_COLUMNS) this.unread.add(column)
  }

  /** Adds what an event says of its person. */
  addPerson ({ distinct_id: id, timestamp, personProperties }: ImportedEvent): void {
    if (personProperties === undefined) return
    const names = Object.keys(personProperties).sort().join('\0')
    let key = this.#keys.get(names)
    if (key === undefined) {
      // One that has several keys costs a row more.
      if (this.#keys.size === MAX_KEYS) this.#keys.clear()
      this.#keys.set(names, key = ++this.#lastKey)
    }
    this.#addPerson.run(id, key, timestamp, stringifyJson(personProperties))
  }

  /** Events that set each property of a person as it was last, at the time of that; each time in the same order. */
  * listPersons (): Generator<ImportedEvent> {
    const rows = this.#database.prepare('SELECT id, at, properties FROM persons ORDER BY id, at DESC, properties DESC').iterate()
    let [id, known] = ['', new Set<string>()]
    for (const row of rows) {
      if (row['id'] !== id) [id, known] = [String(row['id']), new Set()]
      const entries = Object.entries(fieldsOf(parseStoredJson(String(row['properties'])))).filter(([name]) => !known.has(name))
      if (entries.length === 0) continue
      for (const [name] of entries) known.add(name)
      const $set = Object.fromEntries(entries)
      const timestamp = Number(row['at'])
      yield checked({
        uuid: uuidOf('person properties', id, String(timestamp), stringifyJson($set)),
        event: '$set', distinct_id: id, timestamp, properties: { $set }, isOfPerson: true
      })
    }
  }

  close (): void {
    this.#database.close()
    rmSync(this.#path, { force: true })
  }
}

/**
 * Why copies of events were refused as too large. It stays for the next run, which sends them again, and for a proof,
 * which misses none of them.
 */
export class RefusedEvents {
  readonly #database: DatabaseSync
  readonly #find
  /** Copies that are sent again, with the marks of the file that is read. */
  readonly #sent = new Map<string, number>()
  /** Whether no copy was refused, so that none needs a name. */
  isEmpty: boolean

  constructor (path: string) {
    this.#database = new DatabaseSync(path)
    // The folder is locked, so nobody else has it open. A kill loses nothing, a power failure the last ones.
    this.#database.exec(`PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;
      CREATE TABLE IF NOT EXISTS refused (copy TEXT PRIMARY KEY, reason TEXT NOT NULL) WITHOUT ROWID`)
    this.#find = this.#database.prepare('SELECT reason FROM refused WHERE copy = ?')
    this.isEmpty = this.#database.prepare('SELECT 1 FROM refused LIMIT 1').get() === undefined
  }

  /** Why this copy was refused, if it was. @param of  A copy, or its name. */
  reasonOf (of: EventContent | string): string | undefined {
    const found = this.isEmpty ? undefined : this.#find.get(typeof of === 'string' ? of : nameCopy(of))
    return found === undefined ? undefined : String(found['reason'])
  }

  add (event: EventContent, reason: string): void {
    const copy = nameCopy(event)
    this.#sent.delete(copy)
    this.#database.prepare('INSERT OR REPLACE INTO refused VALUES (?, ?)').run(copy, reason)
    this.isEmpty = false
  }

  /** Until it is answered, it stays refused. */
  sendAgain (event: EventContent, mark: number): void {
    this.#sent.set(nameCopy(event), mark)
  }

  /** Forgets the copies up to a mark that were sent again, and not refused. */
  acknowledge (upTo: number): void {
    for (const [copy, mark] of this.#sent) {
      if (mark > upTo) return
      this.#sent.delete(copy)
      this.#database.prepare('DELETE FROM refused WHERE copy = ?').run(copy)
    }
  }

  close (): void {
    // Answers may still come, to an import that ends with an error.
    this.#sent.clear()
    this.#database.close()
  }
}
