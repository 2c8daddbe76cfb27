/**
 * Exports of other products, of any size, in the shape of the real ones (the sources of `engines/import` cite it), with
 * events that come twice, merges that come late, and rows that are no events.
 */
import { createWriteStream } from 'node:fs'
import { mkdir } from 'node:fs/promises'
import path from 'node:path'
import { Readable, type Transform } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { pipeline } from 'node:stream/promises'
import zlib from 'node:zlib'
import { type BasicType, fileWriter, ParquetWriter, schemaFromColumnData } from 'hyparquet-writer'
import { createRandom, pickOne, type Random } from '../support/random.ts'

export const HISTORY_SOURCES = ['posthog', 'mixpanel', 'amplitude', 'files'] as const
export type HistorySource = typeof HISTORY_SOURCES[number]

/** Files of an export take turns. */
export const FORMATS: Readonly<Record<HistorySource, readonly HistoryFormat[]>> = {
  posthog: ['jsonl.gz', 'parquet', 'csv.zst', 'jsonl.br'],
  mixpanel: ['json.gz'],
  amplitude: ['zip'],
  files: ['csv.gz', 'ndjson.zst', 'parquet']
}
export type HistoryFormat = 'jsonl.gz' | 'jsonl.br' | 'json.gz' | 'ndjson.zst' | 'csv.gz' | 'csv.zst' | 'parquet' | 'zip'

/** Options that the command needs to read the export of a source. */
export const IMPORT_ARGUMENTS: Readonly<Record<HistorySource, readonly string[]>> = {
  posthog: [], mixpanel: [], amplitude: [], files: ['--map', 'event=what', '--map', 'distinct_id=who']
}

export interface GeneratedExport {
  /** Rows that an import has to reject. */
  hostile: number
  /** Rows of events that are in the export once more. */
  duplicates: number
}

export interface ExportOptions {
  source: HistorySource
  rows: number
  folder: string
  seed: number
  formats?: readonly HistoryFormat[]
  /** Of PostHog: events say what their persons were, and there are no rows of persons. */
  withPersons?: boolean
}

const START_MS = Date.UTC(2024, 0)
const DAYS = 90
const NAMES = ['$pageview', '$identify', ...Array.from({ length: 38 }, (_, i) => `event ${i} ✓`)]
const USERS = 20_000
const ROWS_PER_FILE = 250_000

/** Parts of all rows. */
const DUPLICATES = 0.01
const HOSTILE = 0.0005

/** Lines which no source has as an event. */
const NO_EVENTS = ['{"event": broken', '[]', '"text"', '{}', '{"event":"no id","event_type":"no id","properties":{}}', '\u0000']

type Fields = Record<string, unknown>

/** One of the rows of an export, as a source writes it: the same for the same number. */
type Row = (index: number) => Fields

/** Files below a folder. For the same seed the same. */
export async function generateExport (
  { source, rows, folder, seed, formats = FORMATS[source], withPersons = false }: ExportOptions
): Promise<GeneratedExport> {
  const random = createRandom(seed)
  const generated = { hostile: 0, duplicates: 0 }
  const row: Row = withPersons ? (index) => toRowWithPerson(ROWS.posthog(rows)(index), index) : ROWS[source](rows)
  await mkdir(folder, { recursive: true })
  for (let from = 0, file = 0; from < rows; from += ROWS_PER_FILE, file++) {
    const format = formats[file % formats.length] ?? 'jsonl.gz'
    // The same event has numbers in one format and texts in the other, so that it comes twice in one file only.
    const content = writeRows({ row, from, to: Math.min(from + ROWS_PER_FILE, rows), earliest: source === 'files' ? from : 0, random, generated })
    await writeFormat(path.join(folder, `events-${String(from).padStart(10, '0')}.${format}`), content, random)
  }
  if (source === 'posthog' && !withPersons) await compressLines(path.join(folder, 'persons.jsonl.gz'), writeLines(listPersons(), random))
  return generated
}

interface FileContent {
  row: Row
  from: number
  to: number
  /** The first event that may come again. */
  earliest: number
  random: Random
  generated: GeneratedExport
}

/** Null where something has to be that is no event. */
function * writeRows ({ row, from, to, earliest, random, generated }: FileContent): Generator<Fields | null> {
  for (let index = from; index < to; index++) {
    yield row(index)
    if (random() < DUPLICATES) {
      yield row(earliest + Math.floor(random() * (index + 1 - earliest)))
      generated.duplicates++
    }
    if (random() < HOSTILE) {
      yield null
      generated.hostile++
    }
  }
}

async function writeFormat (file: string, rows: Iterable<Fields | null>, random: Random): Promise<void> {
  if (file.endsWith('.parquet')) await writeParquet(file, rows)
  else if (/\.csv\.\w+$/.test(file)) await compressLines(file, writeCsv(rows))
  else if (file.endsWith('.zip')) {
    const inner = await buffer(Readable.from(writeLines(rows, random)).pipe(zlib.createGzip({ level: 1 })))
    await pipeline(Readable.from([writeZip({ '123/123_2024-01-01_0#0.json.gz': inner })]), createWriteStream(file))
  } else await compressLines(file, writeLines(rows, random))
}

async function compressLines (file: string, lines: Iterable<string>): Promise<void> {
  await pipeline(Readable.from(lines), compressorOf(file), createWriteStream(file))
}

function compressorOf (file: string): Transform {
  if (file.endsWith('.zst')) return zlib.createZstdCompress()
  if (file.endsWith('.br')) return zlib.createBrotliCompress({ params: { [zlib.constants.BROTLI_PARAM_QUALITY]: 1 } })
  return zlib.createGzip({ level: 1 })
}

function * writeLines (rows: Iterable<Fields | null>, random: Random): Generator<string> {
  let text = ''
  for (const row of rows) {
    text += `${row === null ? pickOne(NO_EVENTS, random) : JSON.stringify(row)}\n`
    if (text.length < 65_536) continue
    yield text
    text = ''
  }
  yield text
}

/** Objects are JSON texts, and rows that are not events have empty columns. */
function toCells (row: Fields): [column: string, value: unknown][] {
  return Object.entries(row).map(([column, value]) => [column, typeof value === 'object' ? JSON.stringify(value) : value])
}

function * writeCsv (rows: Iterable<Fields | null>): Generator<string> {
  let text = ''
  let isFirst = true
  for (const row of rows) {
    const cells = toCells(row ?? { text: 'not as many columns as the header' })
    if (isFirst) text = `${cells.map(([column]) => column).join(',')}\n`
    isFirst = false
    text += `${cells.map(([, value]) => `"${String(value).replaceAll('"', '""')}"`).join(',')}\n`
    if (text.length < 65_536) continue
    yield text
    text = ''
  }
  yield text
}

/** Rows that PostHog writes at a time are a group of up to 60 MiB. */
const GROUP_ROWS = 100_000

async function writeParquet (file: string, rows: Iterable<Fields | null>): Promise<void> {
  let writer: ParquetWriter | undefined
  let columns: { name: string, type: BasicType, data: unknown[], nullable: true, offsetIndex: false }[] = []
  const flush = async (): Promise<void> => {
    writer ??= new ParquetWriter({
      writer: fileWriter(file), schema: schemaFromColumnData({ columnData: columns }), codec: 'ZSTD',
      compressors: { ZSTD: (bytes) => zlib.zstdCompressSync(bytes) }
    })
    await writer.write({ columnData: columns, rowGroupSize: GROUP_ROWS })
    for (const column of columns) column.data = []
  }
  for (const row of rows) {
    const cells = new Map(toCells(row ?? {}))
    if (columns.length === 0) {
      columns = [...cells].map(([name, value]) => ({ name, type: TYPES[name] ?? (typeof value === 'number' ? 'DOUBLE' : 'STRING'), data: [], nullable: true, offsetIndex: false }))
    }
    for (const { name, type, data } of columns) {
      const value = cells.get(name) ?? null
      data.push(value === null ? value : type === 'TIMESTAMP' ? new Date(String(value)) : type === 'INT64' ? BigInt(Number(value)) : value)
    }
    if (columns[0]?.data.length === GROUP_ROWS) await flush()
  }
  await flush()
  await writer?.finish()
}

const TYPES: Readonly<Record<string, BasicType>> = { timestamp: 'TIMESTAMP', at: 'TIMESTAMP', quantity: 'INT64' }

/** Numbers that belong to an event, in no order of time. */
function describe (index: number, rows: number): { at: number, user: number, name: string } {
  const scattered = Math.imul(index + 1, 0x9e3779b1) >>> 0
  return {
    at: START_MS + Math.floor(index / rows * DAYS * 86_400_000) + scattered % 3_600_000,
    user: scattered % USERS,
    name: NAMES[Math.imul(index, 7) % NAMES.length] ?? '$pageview'
  }
}

function propertiesOf (index: number): Fields {
  return {
    amount: index / 7, url: `https://example.com/path/${index % 500}`, text: 'Straße "quoted" \n '.repeat(6), plan: index % 3,
    $browser: 'Chrome', list: [1, { deep: null }], id: index % 2 === 0 ? String(index) : index
  }
}

function uuidOf (index: number, version: string): string {
  return `${index.toString(16).padStart(8, '0')}-cccc-${version}bbb-8ccc-1234567890ab`
}

const ROWS: Record<HistorySource, (rows: number) => Row> = {
  posthog: (rows) => (index) => {
    const { at, user, name } = describe(index, rows)
    return {
      uuid: uuidOf(index, '4'), event: name, distinct_id: index % 5 === 0 ? `device-${user}` : `user-${user}`,
      timestamp: new Date(at).toISOString(), elements_chain: index % 9 === 0 ? 'button:text="Buy"' : '', team_id: 1,
      properties: { ...propertiesOf(index), ...name === '$identify' && { $anon_distinct_id: `device-${user}` }, $set: { plan: index % 3 } }
    }
  },
  mixpanel: (rows) => (index) => {
    const { at, user, name } = describe(index, rows)
    return {
      event: name === '$identify' ? 'Log in' : name,
      properties: {
        ...propertiesOf(index), time: Math.floor(at / 1000), distinct_id: index % 5 === 0 ? `$device:${user}` : `user-${user}`,
        $insert_id: `insert-${index}`, $device_id: String(user), ...index % 50 === 1 && { $user_id: `user-${user}` }, mp_lib: 'web'
      }
    }
  },
  amplitude: (rows) => (index) => {
    const { at, user, name } = describe(index, rows)
    return {
      uuid: uuidOf(index, '1'), event_type: name === '$identify' ? 'Log in' : name,
      event_time: new Date(at).toISOString().replace('T', ' ').replace('Z', '000'), device_id: `device-${user}`,
      user_id: index % 50 === 1 ? `user-${user}` : null, amplitude_id: user, event_properties: propertiesOf(index),
      user_properties: index % 20 === 0 ? { plan: index % 3 } : {}, groups: index % 30 === 0 ? { org: ['acme', 'other'] } : {}, os_name: 'iOS'
    }
  },
  files: (rows) => (index) => {
    const { at, user, name } = describe(index, rows)
    const { amount, text, url } = propertiesOf(index)
    return { id: `row ${index}`, what: name, at: new Date(at).toISOString(), who: `user-${user}`, amount, text, url, quantity: index % 7 }
  }
}

/** As exports of autumn 2026 have it: the person as it was at the event, and nothing that sets its properties. */
function toRowWithPerson (row: Fields, index: number): Fields {
  const { $set: _, ...properties } = { $set: null, ...row['properties'] as Fields }
  return { ...row, properties, person_properties: { index, plan: index % 3, city: `Straße ${index % 7}` } }
}

/** The latest of the events of some distinct ids: the number that their person has as `index`. */
export function findLatest (ids: readonly string[], rows: number): number {
  let latest = { at: 0, index: -1 }
  for (let index = 0; index < rows; index++) {
    const { at, user } = describe(index, rows)
    if (at > latest.at && ids.includes(index % 5 === 0 ? `device-${user}` : `user-${user}`)) latest = { at, index }
  }
  return latest.index
}

function * listPersons (): Generator<Fields> {
  for (let user = 0; user < USERS; user++) {
    for (const id of user % 2 === 0 ? ['user'] : ['device', 'user']) {
      yield {
        team_id: 1, distinct_id: `${id}-${user}`, person_id: uuidOf(user, '5'), properties: { plan: user % 3 }, person_version: 1,
        is_deleted: false, created_at: '2024-01-01 00:00:00.000000'
      }
    }
  }
}

/** A zip of stored files (PKWARE APPNOTE 4.3). */
export function writeZip (files: Readonly<Record<string, Buffer>>): Buffer {
  const parts: Buffer[] = []
  const central: Buffer[] = []
  let at = 0
  for (const [name, content] of Object.entries(files)) {
    const local = Buffer.concat([describeFile({ name, content }), content])
    central.push(describeFile({ name, content, at }))
    parts.push(local)
    at += local.length
  }
  const size = central.reduce((sum, { length }) => sum + length, 0)
  const end = Buffer.alloc(22)
  end.writeUInt32LE(0x06054b50, 0)
  end.writeUInt16LE(central.length, 8)
  end.writeUInt16LE(central.length, 10)
  end.writeUInt32LE(size, 12)
  end.writeUInt32LE(at, 16)
  return Buffer.concat([...parts, ...central, end])
}

/** @param file.at  Where the file begins, in its entry of the central directory; none in the header before the file. */
function describeFile ({ name, content, at }: { name: string, content: Buffer, at?: number }): Buffer {
  const header = Buffer.alloc(at === undefined ? 30 : 46)
  header.writeUInt32LE(at === undefined ? 0x04034b50 : 0x02014b50, 0)
  const shared = at === undefined ? 14 : 16
  header.writeUInt32LE(zlib.crc32(content), shared)
  header.writeUInt32LE(content.length, shared + 4)
  header.writeUInt32LE(content.length, shared + 8)
  header.writeUInt16LE(Buffer.byteLength(name), shared + 12)
  if (at !== undefined) header.writeUInt32LE(at, 42)
  return Buffer.concat([header, Buffer.from(name)])
}
