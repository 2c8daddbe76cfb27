import t from 'tap'
import { waitFor } from '../testing/wait-for.ts'
import { type AskOptions, startTestServer } from '../testing/start-test-server.ts'

const server = await startTestServer(t)
const ask = async (query: string, options: AskOptions = {}): Promise<string> => (await server.ask(query, options)).text
const asAnalyst = async (query: string, params: Record<string, string> = {}): Promise<string> => await ask(query, { user: 'analyst', params })

t.test('names the user who asks, and the column as it was asked for', async (t) => {
  const query = 'SELECT currentUser(), user() AS me, upper(current_user()), authUser() = currentUser() AS same FORMAT TSVWithNames'

  t.equal(await ask(query), 'currentUser()\tme\tupper(current_user())\tsame\nowner\towner\tOWNER\t1\n')
  t.equal(await asAnalyst(query), 'currentUser()\tme\tupper(current_user())\tsame\nanalyst\tanalyst\tANALYST\t1\n')
  t.equal(await ask("SELECT 'currentUser()', toString(1) AS user"), 'currentUser()\t1\n')
})

t.test('tells what a user may do', async (t) => {
  t.equal(await ask('SHOW GRANTS'), 'GRANT ALL ON *.* TO owner\n')
  t.equal(await asAnalyst('SHOW GRANTS FORMAT JSONEachRow'), '{"GRANTS":"GRANT SHOW, SELECT ON shop.* TO analyst"}\n')
})

t.test('lists the queries that run by the ids and texts of their clients; to an analyst those of analysts', async (t) => {
  const owners = server.ask("SELECT sleepEachRow(0.1), 'owner' FROM numbers(30) SETTINGS max_block_size = 1", { params: { query_id: 'owners' } })
  const analysts = server.ask('SELECT count(), 7 FROM numbers(1000000000000)', { user: 'analyst', params: { query_id: 'analysts' } })
  const list = 'SELECT query_id, user, query FROM system.processes WHERE query_id IN (\'owners\', \'analysts\') ORDER BY query_id'
  const expected = 'analysts\tanalyst\tSELECT count(), 7 FROM numbers(1000000000000)\n'

  await waitFor(async () => (await ask(list)).split('\n').length === 3)
  t.equal(await ask(list), `${expected}owners\towner\tSELECT sleepEachRow(0.1), \\'owner\\' FROM numbers(30) SETTINGS max_block_size = 1\n`)
  t.equal(await asAnalyst(list), expected)
  t.match(await asAnalyst('SHOW PROCESSLIST FORMAT JSONEachRow'), /"query":"SHOW PROCESSLIST FORMAT JSONEachRow"/)
  t.notMatch(await ask('SHOW PROCESSLIST'), /OUTFILE|session-/)
  for (const id of ['owners', 'analysts']) await ask(`KILL QUERY WHERE query_id = '${id}'`)
  await Promise.all([owners, analysts])
})

t.test('keeps a query in system.query_log when its client asks for it', async (t) => {
  await ask('SELECT 4711', { params: { query_id: 'kept', log_queries: '1' } })
  await ask('SELECT 4712', { params: { query_id: 'not-kept' } })
  await ask('SYSTEM FLUSH LOGS')

  const log = "SELECT type, query, initial_query_id, user FROM system.query_log WHERE query_id IN ('kept', 'not-kept')"
  t.equal(await ask(log), 'QueryFinish\tSELECT 4711\tkept\towner\n')
  t.match(await server.ask(log, { user: 'analyst' }), { code: 497 })
})

t.test('calls a typing error a syntax error, and a change a change', async (t) => {
  for (const user of ['analyst', 'owner']) {
    for (const query of ['selct 1', 'SELECT 1 FROMM x y', 'foobar FORMAT JSON', 'JSON']) {
      const answer = await server.ask(query, { user })
      t.match(answer, { code: 62, status: 400, text: /^Code: 62\. DB::Exception: Syntax error[^(]*failed at position/ }, query)
      t.equal(/\((?=[A-Z0-9_]*[A-Z]{3})([A-Z0-9_]+)\)/.exec(answer.text)?.[1], 'SYNTAX_ERROR', query)
      t.notMatch(answer.text, /OUTFILE '/)
    }
  }
  for (const query of ['DROP TABLE x', 'INSERT INTO x SELECT 1', 'INSERT INTO x VALUES (1)', 'SYSTEM FLUSH LOGS']) {
    t.match(await server.ask(query, { user: 'analyst' }), { code: 164 }, query)
  }
})

t.test('takes times with a zone in parameters and comparisons', async (t) => {
  const params = {
    param_a: '2026-01-31T12:00:00Z', param_b: '2026-01-31T12:00:00.120Z', param_c: "['2026-01-31T12:00:00.5+02:00','2026-01-31 12:00:00']", param_d: '2026-01-31T12:00:00.000001-0130'
  }
  const query = "SELECT {a:DateTime('UTC')}, {b:DateTime64(3, 'UTC')}, {c:Array(DateTime64(3, 'UTC'))}, {d:Nullable(DateTime64(6, 'UTC'))}"
  const given = "2026-01-31 12:00:00\t2026-01-31 12:00:00.120\t['2026-01-31 10:00:00.500','2026-01-31 12:00:00.000']\t2026-01-31 13:30:00.000001\n"
  // The engine itself fails with a column of such a table.
  await server.ask(`CREATE TABLE shop.divided (t DateTime64(3, 'UTC'), n UInt8, INDEX n_index n TYPE minmax)
    ENGINE MergeTree PARTITION BY toYYYYMM(t) ORDER BY n`)
  await server.ask("INSERT INTO shop.divided VALUES ('2026-01-31 12:00:00', 1), ('2026-01-31 11:59:59', 2)")
  for (const user of ['owner', 'analyst']) {
    const count = async (condition: string, params = {}): Promise<string> =>
      (await server.ask(`SELECT count() FROM shop.divided WHERE ${condition}`, { user, params })).text
    t.equal(await count("t >= '2026-01-31T12:00:00.000Z'"), '1\n', user)
    t.equal(await count("t < '2026-01-31T13:00:00+01:00'"), '1\n')
    t.equal(await count("t BETWEEN '2026-01-31T11:59:59Z' AND '2026-01-31T12:00:00Z'"), '2\n')
    // The one form that README.md names as not taken.
    t.match(await count("t IN ('2026-01-31T12:00:00Z')"), /^Code: \d+\. DB::Exception/)
    t.equal(await count("t >= parseDateTime64BestEffort('2026-01-31T12:00:00.000Z')"), '1\n')
    t.equal(await count('t >= {since:DateTime64(3)}', { param_since: '2026-01-31T12:00:00.000Z' }), '1\n')
    t.match(await count("t >= '2026-01-31T12:00:00.000X'"), /^Code: 41\b/, 'any other text is an error still')
    t.equal(await server.ask("SELECT getSetting('use_skip_indexes')", { user }).then(({ text }) => text), 'true\n', 'for this query alone')
  }

  // A view over a join, of a table whose merged parts have statistics, as events_with_person is.
  await server.ask(`CREATE TABLE shop.joined (t DateTime64(3, 'UTC'), received DateTime64(3, 'UTC'), n UInt32, INDEX received_index received TYPE minmax)
    ENGINE ReplacingMergeTree PARTITION BY toYYYYMM(t) ORDER BY n`)
  await server.ask("INSERT INTO shop.joined SELECT toDateTime64('2026-01-30 00:00:00', 3, 'UTC') + number * 60 AS t, t, number FROM numbers(5000)")
  await server.ask('OPTIMIZE TABLE shop.joined FINAL')
  await server.ask(`CREATE VIEW shop.joined_view AS SELECT event.* REPLACE (coalesce(nullIf(other.m, 0), event.n) AS n) FROM shop.joined AS event
    ANY LEFT JOIN (SELECT n, m FROM (SELECT 1 AS n, 9 AS m)) AS other ON event.n = other.n`)
  for (const user of ['owner', 'analyst']) {
    for (const column of ['t', 'received']) {
      const count = `SELECT count() FROM shop.joined_view WHERE ${column} >= '2026-01-31T12:00:00.000Z'`
      t.equal(await ask(count, { user }), '2840\n', `${user}: ${column}`)
      t.equal(await ask(`SELECT * FROM (${count})`, { user }), '2840\n')
      t.match(await ask(`EXPLAIN ${count}`, { user }), /^Output|Expression/)
      t.equal(await ask(count.replace(/'.*'/, '{s:String}'), { user, params: { param_s: '2026-01-31T12:00:00.000Z' } }), '2840\n')
    }
  }

  const compare = "SELECT toDateTime64('2026-01-31 12:00:00.120', 3, 'UTC') AS t, t = '2026-01-31T12:00:00.120Z', t >= '2026-01-31T12:00:00.120Z', t < '2026-01-31T12:00:00.121Z'"

  for (const user of ['owner', 'analyst']) {
    t.equal(await ask(query, { user, params }), given, user)
    // DateTime takes no fraction, and every client of JavaScript writes one.
    const whole = { param_s: '2026-01-31T12:00:00.000Z', param_l: "['2026-01-31T12:00:00.999Z']" }
    t.equal(await ask("SELECT {s:DateTime('UTC')}, {s:Nullable(DateTime('UTC'))}, {l:Array(DateTime('UTC'))}, {l:Array(Nullable(DateTime('UTC')))}", { user, params: whole }),
      "2026-01-31 12:00:00\t2026-01-31 12:00:00\t['2026-01-31 12:00:00']\t['2026-01-31 12:00:00']\n", user)
    t.equal(await ask('SELECT {s:String}', { user, params: { param_s: '2026-01-31T12:00:00Z' } }), '2026-01-31T12:00:00Z\n')
    t.equal(await ask(compare, { user }), '2026-01-31 12:00:00.120\t1\t1\t1\n', user)
  }
})

t.test('leaves out what only tunes, and brings in what an analyst may set, in URL and clause', async (t) => {
  const tuning = { join_algorithm: 'hash', max_insert_threads: '4', connect_timeout: '3', allow_experimental_object_type: '1', async_insert: '1' }

  t.equal(await asAnalyst("SELECT getSetting('join_algorithm') != 'hash' OR 1", tuning), '1\n')
  t.equal(await asAnalyst("SELECT getSetting('max_threads') SETTINGS join_algorithm = 'hash', max_threads = 1, compile_expressions = 1"), '1\n')
  t.equal(await asAnalyst("SELECT getSetting('max_threads') SETTINGS max_threads = 1, join_algorithm = 'hash' FORMAT JSONCompactEachRow"), '[1]\n')
  t.equal(await asAnalyst("SELECT * FROM (SELECT 7 SETTINGS join_algorithm = 'hash') SETTINGS compile_expressions = 1"), '7\n')
  t.match(await server.ask('SELECT 1 SETTINGS allow_ddl = 1', { user: 'analyst' }), { code: 164 })
  t.match(await server.ask('SELECT 1 SETTINGS max_threads = 1, max_memory_usage = 0', { user: 'analyst' }), { code: 497 })
  t.match(await server.ask('SELECT 1', { user: 'analyst', params: { allow_introspection_functions: '1' } }), { code: 164 })
})

t.test('counts the files that its disk can hold, as system.asynchronous_metrics of a server does', async (t) => {
  const metrics = "SELECT metric, value > 0 FROM system.asynchronous_metrics WHERE metric LIKE '%INodes' ORDER BY metric"

  t.equal(await ask(metrics), 'FilesystemMainPathTotalINodes\t1\nFilesystemMainPathUsedINodes\t1\n')
  t.match(await server.ask(metrics, { user: 'analyst' }), { code: 497 })
})
