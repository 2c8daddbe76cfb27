import t from 'tap'
import { LINEAR_GROWTH, measureGrowth } from '../testing/cpu-time.ts'
import { normalizeTimes } from './adapt-to-engine.ts'
import { buildSelectInto, fillParams, readStatement, type Statement } from './read-statement.ts'
import { fillServerFacts } from './server-facts.ts'

t.test('knows what a statement does', async (t) => {
  const cases: Array<[string, Statement['kind']]> = [
    ['SELECT 1', 'select'],
    ['  -- c\n select 1;  -- end', 'select'],
    ['(SELECT 1)', 'select'],
    ['FROM t SELECT 1', 'select'],
    ['WITH x AS (SELECT 1) SELECT * FROM x', 'select'],
    ['WITH x AS (SELECT 1) INSERT INTO t SELECT * FROM x', 'command'],
    ['SHOW TABLES', 'show'],
    ['DESCRIBE t', 'show'],
    ['EXPLAIN SELECT 1', 'show'],
    ['SET a = 1', 'session'],
    ['USE shop', 'session'],
    ['CREATE TEMPORARY TABLE t (a UInt8)', 'session'],
    ['CREATE OR REPLACE TEMPORARY VIEW v AS SELECT 1', 'session'],
    ['CREATE TABLE t (a UInt8) ENGINE Memory', 'command'],
    ['INSERT INTO t SELECT 1', 'command'],
    ['ALTER TABLE t DELETE WHERE 1', 'command']
  ]
  for (const [sql, kind] of cases) t.equal(readStatement(sql).kind, kind, sql)
})

t.test('finds the format only where it is a clause', async (t) => {
  const cases: Array<[string, string | undefined]> = [
    ['SELECT 1 FORMAT JSON', 'JSON'],
    ['SELECT 1 format jsoneachrow', 'jsoneachrow'],
    ['SELECT 1 FORMAT JSON;', 'JSON'],
    ['SELECT 1 FORMAT JSON SETTINGS max_threads = 1', 'JSON'],
    ['SELECT 1 SETTINGS max_threads = 1 FORMAT CSV', 'CSV'],
    ['SELECT 1 AS format', undefined],
    ['SELECT format FROM t', undefined],
    ["SELECT format('{}', 1)", undefined],
    ["SELECT 'FORMAT JSON'", undefined],
    ['SELECT 1 -- FORMAT JSON', undefined],
    ['SELECT 1 FORMAT /* x */ TSV -- y', 'TSV']
  ]
  for (const [sql, format] of cases) t.equal(readStatement(sql).format?.name, format, sql)
})

t.test('puts the file where the grammar wants it', async (t) => {
  const build = (sql: string): string => buildSelectInto(readStatement(sql), 'X', '/p').replace(/\s+/g, ' ').trim()

  t.equal(build('SELECT 1'), "SELECT 1 INTO OUTFILE '/p' APPEND FORMAT X")
  t.equal(build('SELECT 1 -- c'), "SELECT 1 -- c INTO OUTFILE '/p' APPEND FORMAT X")
  t.equal(build('SELECT 1 FORMAT JSON SETTINGS a = 1'), "SELECT 1 INTO OUTFILE '/p' APPEND FORMAT X SETTINGS a = 1")
  t.equal(build('SELECT 1 SETTINGS a = 1 FORMAT JSON;'), "SELECT 1 SETTINGS a = 1 INTO OUTFILE '/p' APPEND FORMAT X")
})

t.test('refuses what a server would not take, or what would reach past the server', async (t) => {
  const cases: Array<[string, number]> = [
    ['', 62], ['  ', 62], ['-- c', 62], [';', 62], ['SELECT 1; SELECT 2', 62], ['SELECT 1; -- c\n;DROP TABLE t', 62],
    ['exit', 62], ['quit;', 62], ['\\q', 62], [':q', 62], ["'x'", 62], ['q', 62],
    ["SELECT 1 INTO OUTFILE 'x'", 344], ["SELECT 1 into /* c */ outfile 'x'", 344], ["INSERT INTO t FROM INFILE 'x'", 344],
    ['SYSTEM SHUTDOWN', 344], ['system kill', 344], ['KILL QUERY WHERE 1 SYNC', 344]
  ]
  for (const [sql, code] of cases) t.throws(() => readStatement(sql), { code }, sql)
  t.doesNotThrow(() => readStatement("SELECT ';', '; DROP', $$;$$ -- ; x"))
  t.doesNotThrow(() => readStatement("SELECT 'INTO OUTFILE' AS outfile"))
})

t.test('takes no more than the length of a statement, and of the values in it', async (t) => {
  const cases: Record<string, (size: number) => void> = {
    'names of the user': (size) => fillServerFacts(readStatement(`SELECT ${'user(),'.repeat(size / 7)} 1`), 'analyst', '/'),
    'a long value in many places': (size) => {
      const sql = `SELECT ${'{a:String},{b:Array(DateTime)},'.repeat(size / 100)} 1`
      const { tokens } = readStatement(sql)
      const params = new Map([['a', 'x'.repeat(size)], ['b', `[${"'2026-01-01',".repeat(size / 13)}]`]])
      t.ok(fillParams(sql, tokens, params).length < 3 * size)
      normalizeTimes(sql, tokens, params)
    }
  }
  for (const [name, work] of Object.entries(cases)) {
    const growth = measureGrowth(work, 800_000)
    t.ok(growth < LINEAR_GROWTH, `${name}: ${growth} times the CPU`)
  }
})
