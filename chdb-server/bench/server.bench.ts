import { spawn } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import http from 'node:http'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { createInterface } from 'node:readline'
import zlib from 'node:zlib'

/**
 * What an insert of frames, a small query and a large result cost, in CPU of the server's process.
 *
 * `npm run bench -w chdb-server`; CPU is the stable number, wall clock depends on the
 * neighbours.
 */
const ROWS = 200_000
const ROWS_PER_FRAME = 500
/** One part for each insert, whatever its size. */
const SETTINGS = {
  async_insert: '0',
  input_format_parallel_parsing: '0',
  max_insert_block_size: '2000000',
  min_insert_block_size_rows: '2000000',
  min_insert_block_size_bytes: '0',
  optimize_on_insert: '0',
  deduplicate_blocks_in_dependent_materialized_views: '1'
}
const DATABASE = 'bench'
const PASSWORD = 'bench'

/** A table of events as analytics keep them, and a count by hour beside it. */
const TABLES = [
  `CREATE TABLE events (project_id UInt32, uuid UUID, event LowCardinality(String), distinct_id String,
    timestamp DateTime64(3, 'UTC'), received_at DateTime64(3, 'UTC'), groups Map(String, String), session_id String, window_id String,
    device_id String, current_url String, properties String CODEC(ZSTD(3)), property_types LowCardinality(String),
    host LowCardinality(String), browser LowCardinality(String), browser_version LowCardinality(String), os LowCardinality(String),
    device_type LowCardinality(String), lib LowCardinality(String), lib_version LowCardinality(String), ip String)
  ENGINE ReplacingMergeTree PARTITION BY toYYYYMM(timestamp) ORDER BY (project_id, event, toDate(timestamp), uuid)
  SETTINGS non_replicated_deduplication_window = 1000`,
  `CREATE TABLE hours (project_id UInt32, event LowCardinality(String), hour DateTime('UTC'), n UInt64)
  ENGINE SummingMergeTree ORDER BY (project_id, event, hour) SETTINGS non_replicated_deduplication_window = 1000`,
  `CREATE MATERIALIZED VIEW events_to_hours TO hours AS
  SELECT project_id, event, toStartOfHour(timestamp) AS hour, count() AS n FROM events GROUP BY project_id, event, hour`
]

const dataDir = mkdtempSync(path.join(tmpdir(), 'chdb-server-bench-'))
const main = path.join(import.meta.dirname, '..', 'main.ts')
const server = spawn(process.execPath, [main, '--data-dir', dataDir, '--port', '0', '--database', DATABASE], {
  stdio: ['ignore', 'pipe', 'inherit'],
  env: { ...process.env, CHDB_SERVER_PASSWORD: PASSWORD }
})
process.on('exit', () => {
  server.kill('SIGKILL')
  rmSync(dataDir, { recursive: true, force: true })
})
const port = await readPort()
const agent = new http.Agent({ keepAlive: true })

console.log(`memory when idle: ${memoryMb()} MB`)
for (const statement of TABLES) await ask(statement)
const frames: Buffer[] = []
let nativeBytes = 0
for (let from = 0; from < ROWS; from += ROWS_PER_FRAME) {
  const block = await ask(makeRows(from))
  nativeBytes += block.length
  frames.push(zlib.zstdCompressSync(block, { params: { [zlib.constants.ZSTD_c_compressionLevel]: 1 } }))
}
const frameBytes = frames.reduce((sum, frame) => sum + frame.length, 0)
console.log(`a row: ${Math.round(nativeBytes / ROWS)} bytes Native, ${Math.round(frameBytes / ROWS)} in frames`)

await ask('CREATE TABLE nowhere AS events ENGINE Null')
await ask('SYSTEM STOP MERGES')
for (const table of ['nowhere', 'events']) {
  for (const framesPerInsert of [20, 80, 400]) await benchInserts(table, framesPerInsert)
}
await benchQuestions()
await benchLargeResult()
agent.destroy()
server.kill('SIGTERM')

async function benchInserts (table: string, framesPerInsert: number): Promise<void> {
  if (table === 'events') await ask('TRUNCATE TABLE events')
  const started = { at: performance.now(), cpu: cpuMicroseconds() }
  for (let i = 0; i < frames.length; i += framesPerInsert) {
    const body = Buffer.concat(frames.slice(i, i + framesPerInsert))
    const token = `${table}-${framesPerInsert}-${i}`
    await ask(`INSERT INTO ${table} FORMAT Native`, body, { ...SETTINGS, insert_deduplication_token: token })
  }
  const cpu = cpuMicroseconds() - started.cpu
  const seconds = (performance.now() - started.at) / 1000
  const rows = `${framesPerInsert * ROWS_PER_FRAME} rows an insert`
  console.log(`${table}, ${rows}: ${(cpu / ROWS).toFixed(1)} CPU us a row, ${Math.round(cpu / (frameBytes / 1e6))} a MB, ` +
    `${Math.round(ROWS / seconds)} rows/s, ${(frameBytes / 1e6 / seconds).toFixed(1)} MB/s, memory ${memoryMb()} MB`)
}

async function benchQuestions (): Promise<void> {
  const times: number[] = []
  const cpu = cpuMicroseconds()
  for (let i = 0; i < 1000; i++) {
    const startedAt = performance.now()
    await ask('SELECT 1')
    times.push(performance.now() - startedAt)
  }
  times.sort((a, b) => a - b)
  console.log(`SELECT 1: p50 ${times[500]!.toFixed(2)} ms, p99 ${times[990]!.toFixed(2)} ms, ` +
    `${Math.round((cpuMicroseconds() - cpu) / 1000)} CPU us`)
}

async function benchLargeResult (): Promise<void> {
  const started = { at: performance.now(), cpu: cpuMicroseconds() }
  const bytes = (await ask('SELECT * FROM events FORMAT JSONEachRow')).length
  const seconds = (performance.now() - started.at) / 1000
  console.log(`result of ${Math.round(bytes / 1e6)} MB: ${Math.round(bytes / 1e6 / seconds)} MB/s, ` +
    `${((cpuMicroseconds() - started.cpu) / 1e6 / (bytes / 1e9)).toFixed(1)} CPU s a GB, memory ${memoryMb()} MB`)
}

/** Realistic rows in the frame's columns: about 600 bytes of properties, eight event names, 20,000 persons. */
function makeRows (from: number): string {
  const uuid = (seed: number): string => `reinterpretAsUUID(sipHash128(number, ${seed}))`
  const url = "concat('https://app.example.com/projects/', toString(cityHash64(number) % 5000), '/insights')"
  const names = ['$pageview', '$autocapture', 'order paid', '$feature_flag_called', 'signup', 'video played', '$identify', 'search']
  return `SELECT toUInt32(1 + number % 3) AS project_id, ${uuid(1)} AS uuid,
    toLowCardinality(['${names.join("','")}'][1 + cityHash64(number) % 8]) AS event,
    concat('user-', toString(cityHash64(number, 1) % 20000), '-', hex(cityHash64(number % 20000))) AS distinct_id,
    toDateTime64('2026-11-20 00:00:00', 3, 'UTC') + toIntervalMillisecond(number * 17 % 86400000) AS timestamp,
    now64(3, 'UTC') AS received_at, map('company', concat('acme-', toString(number % 50))) AS groups,
    toString(${uuid(2)}) AS session_id, toString(${uuid(3)}) AS window_id, toString(${uuid(4)}) AS device_id, ${url} AS current_url,
    concat('{"$session_id":"', session_id, '","$window_id":"', window_id, '","$device_id":"', device_id, '","$current_url":"', current_url,
      '","$host":"app.example.com","$browser":"Chrome","$browser_version":', toString(110 + number % 10), ',"$os":"Mac OS X",',
      '"$device_type":"Desktop","$lib":"web","$lib_version":"1.', toString(number % 40), '.0","$screen_height":1080,"plan":"',
      ['free', 'pro', 'enterprise'][1 + number % 3], '","amount":', toString(cityHash64(number, 5) % 100000 / 100),
      ',"$referrer":"https://www.google.com/","$insert_id":"', lower(hex(cityHash64(number, 9))), '"}') AS properties,
    toLowCardinality('eS$session_id') AS property_types, toLowCardinality('app.example.com') AS host, toLowCardinality('Chrome') AS browser,
    toLowCardinality(toString(110 + number % 10)) AS browser_version, toLowCardinality('Mac OS X') AS os,
    toLowCardinality('Desktop') AS device_type, toLowCardinality('web') AS lib,
    toLowCardinality(concat('1.', toString(number % 40), '.0')) AS lib_version, '10.0.0.1' AS ip
    FROM numbers(${from}, ${ROWS_PER_FRAME}) FORMAT Native`
}

async function ask (query: string, rows?: Buffer, settings: Record<string, string> = {}): Promise<Buffer> {
  const search = new URLSearchParams({ database: DATABASE, ...settings, ...(rows === undefined ? {} : { query }) })
  const encoding = rows === undefined ? {} : { 'content-encoding': 'zstd' }
  const headers = { 'x-clickhouse-user': 'default', 'x-clickhouse-key': PASSWORD, ...encoding }
  return await new Promise((resolve, reject) => {
    const request = http.request({ host: '127.0.0.1', port, agent, method: 'POST', path: `/?${search}`, headers }, (response) => {
      const chunks: Buffer[] = []
      response.on('data', (chunk: Buffer) => chunks.push(chunk))
      response.on('end', () => {
        const bytes = Buffer.concat(chunks)
        if (response.statusCode === 200) resolve(bytes)
        else reject(new Error(bytes.toString()))
      })
    })
    request.on('error', reject)
    request.end(rows ?? query)
  })
}

async function readPort (): Promise<number> {
  for await (const line of createInterface(server.stdout!)) {
    const { port } = JSON.parse(line) as { port?: number }
    if (port !== undefined) return port
  }
  throw new Error('the server did not start')
}

/** Ticks of /proc are hundredths of a second. */
function cpuMicroseconds (): number {
  const [user, system] = readFileSync(`/proc/${server.pid}/stat`, 'utf8').split(') ')[1]!.split(' ').slice(11, 13)
  return (Number(user) + Number(system)) * 10_000
}

function memoryMb (): number {
  return Math.round(Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${server.pid}/status`, 'utf8'))![1]) / 1024)
}
