import t from 'tap'
import { startTestServer } from '../testing/start-test-server.ts'
import { loadAllowList } from './allow-list.ts'

const server = await startTestServer(t)
const allow = loadAllowList()
const ask = async (query: string): Promise<string[]> =>
  (await server.ask(`${query} FORMAT TSV`)).text.trim().split('\n')

t.test('every function of this engine was read: allowed, or refused with a reason', async (t) => {
  const names = await ask("SELECT DISTINCT lower(name) FROM system.functions WHERE origin = 'System'")
  const isRead = (name: string): boolean =>
    [allow.functions, allow.aggregateFunctions, allow.refusedFunctions].some((list) => list.has(name))

  // When this fails after an upgrade of the engine: read what they do, then put them into allow-list.txt.
  t.same(names.filter((name) => !isRead(name)), [])
  t.ok(names.length > 1500)
})

t.test('nothing is both allowed and refused, and nothing allowed is unknown to the engine', async (t) => {
  const functions = new Set(await ask('SELECT lower(name) FROM system.functions'))
  const tables = new Set(await ask("SELECT name FROM system.tables WHERE database = 'system'"))
  const tableFunctions = new Set(await ask('SELECT lower(name) FROM system.table_functions'))
  const settings = new Set(await ask('SELECT name FROM system.settings'))
  const missing = (names: Iterable<string>, known: Set<string>): string[] =>
    [...names].filter((name) => !known.has(name))

  t.same([...allow.functions].filter((name) => allow.refusedFunctions.has(name)), [])
  t.same(missing([...allow.functions, ...allow.aggregateFunctions], functions), [])
  t.same(missing(allow.tableFunctions, tableFunctions), [])
  t.same(missing([...allow.systemTables, ...allow.maskedSystemTables], tables), [])
  t.same(missing([...allow.settings, ...allow.ignoredSettings], settings), [])
  t.same([...allow.settings].filter((name) => allow.ignoredSettings.has(name)), [])
})

t.test('a function that nobody has read about is refused, as is one that only its case makes new', async (t) => {
  for (const query of ['SELECT FILE(1)', 'SELECT File(1)', 'SELECT fILE(1)']) {
    t.match(await server.ask(query, { user: 'analyst' }), { code: 497 }, query)
  }
  for (const query of ['SELECT notYetRead(1)', 'SELECT coun(*) FROM numbers(3)', 'SELECT * FROM fil(1)']) {
    const answer = await server.ask(query, { user: 'analyst' })
    t.match(answer, { code: 46, status: 404, text: /Function with name `\w+` does not exist\. \(UNKNOWN_FUNCTION\)/ }, `${query}: a typing error, told as one`)
  }
})
