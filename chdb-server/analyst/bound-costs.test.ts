import t from 'tap'
import { waitFor } from '../testing/wait-for.ts'
import { type HttpAnswer, startTestServer, TEST_PASSWORDS } from '../testing/start-test-server.ts'

const server = await startTestServer(t)

const ask = async (query: string, params: Record<string, string> = {}): Promise<HttpAnswer> =>
  await server.ask(query, { user: 'analyst', params })

/** Queries of analysts that the engine is at work on. */
async function countRunning (): Promise<number> {
  return Number((await server.ask("SELECT countIf(user = 'analyst') FROM system.processes")).text)
}

const TEXTS = '(SELECT repeat(toString(number), 150) AS a, repeat(toString(number + 1), 150) AS b FROM numbers(1000000))'
const SLOW = [
  `SELECT sum(editDistance(a, b)) FROM ${TEXTS}`,
  `SELECT sum(damerauLevenshteinDistance(a, b)) FROM ${TEXTS}`,
  `SELECT sum(editDistanceUTF8(x.a, y.b)) FROM ${TEXTS} AS x JOIN ${TEXTS} AS y ON length(x.a) = length(y.a)`,
  `SELECT a FROM ${TEXTS} ORDER BY jaroWinklerSimilarity(a, b) LIMIT 1`,
  "SELECT sum(length(replaceRegexpAll(repeat('ab', 1000), '(a|b)*?c|b', 'x'))) FROM numbers(1000000)",
  'SELECT sum(hasAll(range(1000), range(number % 1000))) FROM numbers(100000000)',
  'SELECT sum(arrayFold((acc, x) -> acc + x * number, range(9999), 0::UInt64)) FROM numbers(10000000)'
]

t.test('what costs much is ended by the engine itself when its time is over', async (t) => {
  for (const query of SLOW) {
    const answer = await ask(query, { max_execution_time: '1' })
    // "elapsed" is in the engine's text alone, not in that of the server, which ends what the engine does not.
    t.match(answer, { code: 159, text: /Timeout exceeded/ }, query)
    t.equal(await countRunning(), 0, query)
  }
})

const TOO_LARGE = [
  "SELECT editDistance(repeat('a', 2000), repeat('b', 2000))", "SELECT editDistance(materialize(repeat('a', 1001)), repeat('b', 1000))",
  'SELECT hasAny(range(2000), range(2000))', 'SELECT arrayFold((acc, x) -> acc + x, range(20000), 0::UInt64)',
  "SELECT countMatches(repeat('a', 40000), 'a')", "SELECT WORD FROM (SELECT levenshteinDistance(repeat('a', 2000), repeat('b', 1000)) AS WORD)"
]
const NOT_BOUNDED = [
  "SELECT arrayMap(x -> editDistance(x, 'abc'), ['abd'])", "WITH (x -> editDistance(x, 'a')) AS f SELECT f('b')", "SELECT arrayMap(editDistance, ['a'], ['b'])",
  "SELECT arrayMap(x -> length(arrayFilter(y -> EDITDISTANCE(x, y) > 1, ['a'])), ['abd'])", "SELECT editDistance((SELECT repeat('a', 5)), 'b')",
  "SELECT editDistance(toString(editDistance('a', 'b')), 'b')", "SELECT * APPLY editDistance FROM (SELECT 'a')", 'SELECT polygonsUnionCartesian([[[(0., 0.)]]], [[[(0., 0.)]]])',
  "SELECT windowFunnel(10, 'strict_once')(number, 1, 1) FROM numbers(3)", "SELECT windowFunnelIf(10, 'strict_once')(number, 1, 1, 1) FROM numbers(3)",
  "SELECT arrayReduce('windowFunnel(10, \\'strict_once\\')', [1], [1], [1])", "SELECT kolmogorovSmirnovTest('two-sided', 'exact')(number, number % 2) FROM numbers(9)"
]

t.test('refuses by size what one row could hold a core with, and by place what no block limits', async (t) => {
  for (const query of TOO_LARGE) t.match(await ask(query), { code: 395, text: / is above \d+/ }, query)
  for (const query of NOT_BOUNDED) t.match(await ask(query), { code: 497 }, query)
  t.match(await ask('SELECT length(range(1000000))'), { code: 69 })
})

t.test('blocks have the fewer rows the more a function makes of one', async (t) => {
  const rows = async (expression: string): Promise<number> =>
    Number((await ask(`SELECT max(blockSize()), any(${expression}) FROM numbers(5000)`)).text.split('\t')[0])
  const expected: Array<[string, number]> = [
    ['range(500000)', 1], ['arraySort(x -> -x, range(100000))[1]', 2], ['range(1000)', 250], ['arrayResize([number], 1000, 7)', 250], ["repeat('ab', 100000)", 2],
    ["range(toUInt32('30'))", 1], ['range(number % 3)', 256], ['arrayMap(x -> arrayMap(y -> x * y, range(500)), range(500))', 16],
    ['arrayMap(x -> x + number, range(30))', 5000], ["leftPad(toString(number), 5, '0')", 5000], ['arrayWithConstant(3, number)', 5000]
  ]
  for (const [expression, most] of expected) t.equal(await rows(expression), most, expression)
})

t.test('nobody waits while a long query is judged', async (t) => {
  const list = (count: number, write: (i: number) => string): string =>
    Array.from({ length: count }, (_, i) => write(i)).join()
  const long = [
    `SELECT ${list(8000, (i) => `hasAny(c, [${i}])`)} FROM t`,
    `SELECT ${list(20_000, (i) => `range(${i})`)}`,
    `SELECT ${list(20_000, () => "CAST(a, 'UInt8')")}`,
    `WITH ${list(10_000, (i) => `foo${i}(1) AS b${i}`)} SELECT 1`,
    `SELECT ${list(5000, () => '(SELECT 1 SETTINGS final = 1)')}`
  ]
  for (const query of long) {
    const over = new AbortController()
    const answer = ask(query).finally(() => over.abort())
    let longestMs = 0
    while (!over.signal.aborted) {
      const askedAt = performance.now()
      await fetch(`http://127.0.0.1:${server.port}/ping`)
      longestMs = Math.max(longestMs, performance.now() - askedAt)
    }
    await answer
    t.ok(longestMs < 5000, `${Math.round(longestMs)} ms: ${query.slice(0, 60)}`)
  }
})

t.test('nobody waits for queries that go on in the engine although their clients have gone', async (t) => {
  // Constants are computed in one piece.
  const constant = (n: number): string => `arraySum(arrayMap(x -> arraySum(arrayMap(y -> y * x + ${n}, range(3000))), range(3000)))`
  const endless = `SELECT ${Array.from({ length: 100 }, (_, i) => constant(i)).join()}`
  const gone = new AbortController()
  const clients = Array.from({ length: 4 }, async () => await fetch(`http://127.0.0.1:${server.port}/`, {
    method: 'POST', body: endless, signal: gone.signal, headers: { 'x-clickhouse-user': 'analyst', 'x-clickhouse-key': TEST_PASSWORDS.analyst }
  }).catch(() => {}))
  await waitFor(async () => await countRunning() === 4)
  gone.abort()
  await Promise.all(clients)

  t.equal((await ask('SELECT 1')).text, '1\n')
  t.equal(await countRunning(), 4, 'they do go on')
  const late = await ask(endless, { max_execution_time: '1' })
  t.match(late, { code: 159, status: 408 })
  t.equal(await countRunning(), 5, 'its client has the error, and the engine goes on until the process is restarted')
})

t.end()
