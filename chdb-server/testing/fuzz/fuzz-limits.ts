/**
 * `npm run fuzz:limits -- --seconds 2`: asks what costs most, as an analyst, beside inserts and ordinary queries. Ends
 * with status 1 when a query goes on for more than five seconds after its limit, an insert is lost or held up, or an
 * ordinary query ends without an error that says why.
 */
import { readFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { setTimeout as delay } from 'node:timers/promises'
import { listCostlyQueries } from './costly-queries.ts'
import { startTestServer } from '../start-test-server.ts'
import { waitFor } from '../wait-for.ts'

const { values } = parseArgs({
  options: { seconds: { type: 'string', default: '2' }, from: { type: 'string', default: '0' }, to: { type: 'string', default: '9999' } }
})
const seconds = Number(values.seconds)
/** What the machine is given beside: it may be busy with others. */
const GRACE_SECONDS = 5
const LONGEST_INSERT_SECONDS = 10

const cleanUp: Array<() => unknown> = []
const server = await startTestServer({ after: (work) => cleanUp.unshift(work) })
await server.ask('CREATE TABLE shop.beside (a UInt64) ENGINE MergeTree ORDER BY a SETTINGS non_replicated_deduplication_window = 10000')
const beside = { inserts: 0, slowestInsert: 0, ordinary: 0, told: 0, refused: 0, cut: 0, unexplained: [] as string[] }
const problems: string[] = []
const over = new AbortController()

async function insertBeside (): Promise<void> {
  while (!over.signal.aborted) {
    const startedAt = performance.now()
    const params = { insert_deduplication_token: `batch-${beside.inserts}` }
    const insert = async (): Promise<boolean> => (await server.ask('INSERT INTO shop.beside FORMAT CSV', { body: String(beside.inserts), params })).status === 200
    await waitFor(insert)
    beside.inserts++
    beside.slowestInsert = Math.max(beside.slowestInsert, (performance.now() - startedAt) / 1000)
    await delay(100)
  }
}

async function askBeside (user: 'analyst' | 'owner'): Promise<void> {
  while (!over.signal.aborted) {
    beside.ordinary++
    try {
      const { status, text } = await server.ask('SELECT sum(cityHash64(number)) FROM numbers(300000)', { user })
      if (/restarts, because a query of user analyst/.test(text)) beside.told++
      else if (status !== 200) beside.unexplained.push(text)
    } catch (error) {
      if (String(error).includes('ECONNREFUSED')) beside.refused++
      // What the kernel has not handed over yet when the port is closed; whatever the server has taken has an answer.
      else if (String(error).includes('ECONNRESET')) beside.cut++
      else beside.unexplained.push(String(error))
    }
    await delay(200)
  }
}

/** Names the queries that restarts ended: another one after each restart. */
function readProcess (): string {
  return /CHDB_SERVER_ENDED_QUERIES=[^\0]*/.exec(readFileSync(`/proc/${server.pid}/environ`, 'utf8'))?.[0] ?? ''
}

async function askCostly (query: string, id: string): Promise<void> {
  const startedAt = performance.now()
  const since = (): number => (performance.now() - startedAt) / 1000
  const before = readProcess()
  const answer = server.ask(query, { user: 'analyst', params: { max_execution_time: values.seconds, query_id: id, wait_end_of_query: '1' } })
    .catch((error: unknown) => ({ code: String(error), text: '' }))
  void answer.then(() => { answeredAt = since() })
  let answeredAt = 0
  const { code, text } = await answer
  const isReplaced = (): boolean => readProcess() !== before
  await waitFor(async () => isReplaced() || (await server.ask(`SELECT count() FROM system.processes WHERE query_id = '${id}'`)).text === '0\n', { everyMs: 200 })
  const endedAt = since()
  const isLate = endedAt > seconds + GRACE_SECONDS
  const isCut = isReplaced()
  if (isCut) restarts++
  await waitFor(async () => (await server.ask('SELECT 1')).status === 200)
  if (isLate) problems.push(`${id} ended after ${endedAt.toFixed(1)} s: ${query.slice(0, 200)}`)
  console.log([id, code, answeredAt.toFixed(1), endedAt.toFixed(1), isLate ? 'LATE' : '', isCut ? 'RESTART' : '', text.slice(0, 120).replaceAll('\n', ' '), query.slice(0, 160)].join('\t'))
}

let restarts = 0
const others = [insertBeside(), askBeside('analyst'), askBeside('owner')]
const queries = listCostlyQueries().slice(Number(values.from), Number(values.to))
for (const [i, query] of queries.entries()) await askCostly(query, `costly-${Number(values.from) + i}`)
over.abort()
await Promise.all(others)
const stored = Number((await server.ask('SELECT uniqExact(a) * (count() = uniqExact(a)) FROM shop.beside')).text)
for (const work of cleanUp) await work()

if (stored !== beside.inserts) problems.push(`${beside.inserts} inserts were acknowledged, ${stored} are stored`)
if (beside.slowestInsert > LONGEST_INSERT_SECONDS) problems.push(`an insert took ${beside.slowestInsert.toFixed(1)} s`)
if (beside.cut > restarts) problems.push(`${beside.cut} connections were cut by ${restarts} restarts`)
for (const text of beside.unexplained) problems.push(`an ordinary query ended without a reason: ${text}`)
for (const problem of problems) console.log('PROBLEM', problem)
console.log(`${queries.length} costly queries, ${restarts} ended by a restart; beside them ${beside.inserts} inserts, the slowest of ` +
  `${beside.slowestInsert.toFixed(1)} s, and ${beside.ordinary} ordinary queries, of which ${beside.told} were told of a restart and ${beside.refused} found no server`)
process.exitCode = problems.length === 0 ? 0 : 1
