import t from 'tap'
import { buildSelectInto, readStatement, type Statement } from './read-statement.ts'

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
