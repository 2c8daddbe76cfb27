import t from 'tap'
import { startTestServer } from '../testing/start-test-server.ts'

const server = await startTestServer(t)
await server.ask(`CREATE TABLE shop.t (a UInt32, b String, c Array(UInt32), ts DateTime64(3, 'UTC'), j String, m Map(String, UInt32),
  n Nullable(Float64), l LowCardinality(String), \`$price\` Float64, \`odd name\` UInt8, date Date) ENGINE ReplacingMergeTree ORDER BY a`)
await server.ask(`INSERT INTO shop.t SELECT number, concat('b', toString(number % 3)), range(number % 4), toDateTime64('2026-01-01 00:00:00', 3, 'UTC') + number * 3600,
  concat('{"plan":"p', toString(number % 2), '","n":', toString(number), '}'), map('x', number), if(number % 5 = 0, NULL, number), 'l', number / 3, number % 7,
  '2026-01-01' FROM numbers(50)`)
await server.ask('CREATE VIEW shop.above AS SELECT a FROM shop.t WHERE a > 40')
await server.ask('CREATE FUNCTION linear AS (x, k, b) -> k * x + b')

/** What people and tools ask. Each must give an analyst what it gives the owner, names of columns included. */
const QUERIES = [
  // Expressions, and how the engine writes them.
  'SELECT a + 1, a - -1, -a, -(-1), a / 3, a % 2, a DIV 2, NOT a, a = 1 OR a > 5 AND a < 9, a BETWEEN 2 AND 4, a NOT IN (1, 2) FROM t ORDER BY a LIMIT 3',
  'SELECT 0x1F, 0b101, 1e3, .5, 1., 1e-7, 18446744073709551615, -9223372036854775808, 340282366920938463463374607431768211455, inf, nan, NULL, true',
  "SELECT 'it''s', 'back\\\\slash', 'tab\\there', '\\x41\\x00\\xff', x'4142', b'01000001', $$here; doc$$, 'größe 日本', '--', '/*', '#', '`', '\"'",
  "SELECT CASE a WHEN 1 THEN 'one' WHEN 2 THEN 'two' ELSE 'many' END, CASE WHEN a > 1 THEN 1 END, a > 3 ? 'x' : 'y', if(a > 2, 1, 2), multiIf(a = 1, 'a', a = 2, 'b', 'c') FROM t ORDER BY a LIMIT 4",
  'SELECT CAST(a AS String), a::Nullable(UInt64), CAST(a, \'Float64\'), toDecimal64(a, 2), [1, 2]::Array(UInt8) FROM t ORDER BY a LIMIT 2',
  "SELECT untuple((a, b)), untuple((1, 'x') AS p) FROM t ORDER BY a LIMIT 2",
  'SELECT a AS x, x + 1 AS "my value (€)", `odd name`, `$price`, t.`odd name` FROM shop.t AS t ORDER BY x LIMIT 2',
  "SELECT b LIKE 'b%', b NOT ILIKE 'B1', b || '-' || l, match(b, '^b\\\\d+$'), b REGEXP 'b', b IS NULL, n IS NOT NULL, n <=> 1 FROM t ORDER BY a LIMIT 3",
  // Time.
  "SELECT ts + INTERVAL 7 DAY, ts - INTERVAL '1 hour', toStartOfInterval(ts, INTERVAL 15 MINUTE), date_trunc('month', ts), dateDiff('day', ts, ts + 86400 * 3), EXTRACT(YEAR FROM ts), DATE '2026-01-01', TIMESTAMP '2026-01-01 00:00:00', dateadd(week, 1, ts), formatDateTime(ts, '%Y-%m') FROM t ORDER BY a LIMIT 2",
  // Aggregates, combinators, groups.
  'SELECT b, count(), count(DISTINCT a), uniq(a), sum(a), avg(n), median(a), quantile(0.9)(a), quantiles(0.1, 0.9)(a), min(ts), max(ts), any(l), argMax(a, ts), groupArray(3)(a), topK(2)(b) FROM t GROUP BY b ORDER BY b',
  'SELECT countIf(a > 3), sumIf(a, b = \'b1\'), avgOrNull(n), sumArray(c), sumMap(m), uniqExactIf(a, a > 1), countArrayIf(c, a > 2), sumForEach(c), quantileIf(0.5)(a, a > 1), count() FILTER (WHERE a > 3), sumOrDefaultIf(a, 0), groupArrayDistinct(b) AS d, argMinOrNull(a, b), uniqMerge(s) FROM (SELECT *, uniqState(a) OVER () AS s FROM t)',
  'SELECT b, sum(a) FROM t GROUP BY b WITH ROLLUP ORDER BY b', 'SELECT b, l, sum(a) FROM t GROUP BY CUBE(b, l) ORDER BY b, l', 'SELECT b, grouping(b), sum(a) FROM t GROUP BY GROUPING SETS ((b), ()) ORDER BY b',
  'SELECT b, count() AS n FROM t GROUP BY ALL HAVING n > 2 ORDER BY ALL', 'SELECT b, sum(a) FROM t GROUP BY b WITH TOTALS ORDER BY b',
  "SELECT windowFunnel(86400)(toDateTime(ts), b = 'b1', b = 'b2'), retention(b = 'b0', b = 'b1'), sequenceMatch('(?1).*(?2)')(toDateTime(ts), b = 'b0', b = 'b1') FROM t",
  "SELECT arrayReduce('sum', [1, 2]), arrayReduce('quantileIf(0.5)', [1, 2], [1, 1]), initializeAggregation('count', 1)",
  // Windows.
  'SELECT a, row_number() OVER (PARTITION BY b ORDER BY ts DESC), rank() OVER w, lagInFrame(a, 1, 0) OVER w, sum(a) OVER (ORDER BY a ROWS BETWEEN 2 PRECEDING AND CURRENT ROW), first_value(a) IGNORE NULLS OVER w FROM t WINDOW w AS (PARTITION BY b ORDER BY a) ORDER BY a LIMIT 5',
  'SELECT a, row_number() OVER (PARTITION BY b ORDER BY a) AS r FROM t QUALIFY r = 1 ORDER BY a',
  // Joins, sets, unions, subqueries, CTEs.
  'SELECT x.a, y.b FROM t AS x INNER JOIN t AS y ON x.a = y.a AND y.a > 3 ORDER BY x.a LIMIT 3', 'SELECT a, q FROM t LEFT JOIN (SELECT a, 1 AS q FROM t WHERE a < 3) AS s USING (a) ORDER BY a LIMIT 5',
  'SELECT count() FROM t AS x ASOF JOIN t AS y ON x.b = y.b AND x.ts >= y.ts', 'SELECT count() FROM t AS x, t AS y WHERE x.a = y.a', 'SELECT count() FROM t SEMI JOIN (SELECT 1 AS a) AS s USING a', 'SELECT count() FROM t CROSS JOIN numbers(3) AS n',
  'SELECT a, v FROM t ARRAY JOIN c AS v ORDER BY a, v LIMIT 5', 'SELECT arrayJoin(c) AS v, count() FROM t GROUP BY v ORDER BY v', 'SELECT a, i FROM t LEFT ARRAY JOIN c AS v, arrayEnumerate(c) AS i ORDER BY a, i LIMIT 5',
  'WITH x AS (SELECT a FROM t WHERE a < 5), (SELECT max(a) FROM t) AS top SELECT a, top FROM x ORDER BY a', 'WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 5) SELECT sum(n) FROM r', 'WITH y(p, q) AS (SELECT 1, 2) SELECT p + q FROM y',
  'SELECT * FROM ((SELECT 1 AS x) UNION ALL (SELECT 2)) ORDER BY x', 'SELECT 1 AS x UNION DISTINCT SELECT 1 INTERSECT SELECT 1 EXCEPT SELECT 2', 'SELECT a FROM t WHERE a IN (SELECT a FROM t WHERE a < 3) AND EXISTS (SELECT 1) AND (a, b) IN ((1, \'b1\'), (2, \'b2\')) ORDER BY a',
  'SELECT a FROM t WHERE a >= ALL (SELECT a FROM t)', 'SELECT a FROM t WHERE a = ANY (SELECT 1)', 'FROM t SELECT count()', 'SELECT (SELECT count() FROM t), 1 WHERE 1', 'SELECT 1 IN t.c FROM t ORDER BY a LIMIT 2',
  // Lambdas, arrays, maps, tuples, JSON.
  'SELECT arrayMap((x, y) -> x + y, c, c), arrayFilter(x -> x > 1, c), arrayMap(upper, [b]), arraySort(x -> -x, c), c[1], c[-1], m[\'x\'], (1, \'a\').1, mapKeys(m), [a, 1], arrayFold((acc, x) -> acc + x, c, 0::UInt64) AS folded FROM t ORDER BY a LIMIT 3',
  'WITH (x -> x + 1) AS plus_one SELECT plus_one(a) FROM t ORDER BY a LIMIT 2', 'SELECT formatRow(\'CSV\', a, b) FROM t ORDER BY a LIMIT 2', 'SELECT linear(a, 2, 1) FROM t ORDER BY a LIMIT 2',
  "SELECT JSONExtractString(j, 'plan'), JSONExtractInt(j, 'n'), JSONExtract(j, 'n', 'Nullable(Float64)'), JSONExtractRaw(j), JSON_VALUE(j, '$.plan'), simpleJSONExtractString(j, 'plan'), JSONHas(j, 'x'), js.plan, js.n.:Int64 FROM (SELECT *, CAST(j AS JSON) AS js FROM t) ORDER BY a LIMIT 2",
  // What is bounded: names of columns stay.
  "SELECT editDistance(b, l), b AS x, jaroSimilarity(x, 'b1') > 0.5 AS y, damerauLevenshteinDistance(b, l), hasAny(c, [1]), (hasAll(c, [1, 2])), `odd name` FROM t WHERE editDistance(b, 'b1') < 2 ORDER BY a",
  "SELECT DISTINCT levenshteinDistance(b, 'größe 日本'), replaceRegexpAll(b, '\\\\d', 'x'), extractAll(b, '\\\\w') FROM t ORDER BY 1", 'SELECT b, arrayFilter(x -> hasAny(c, [x]), c) AS filtered, repeat(b, 3), max(arrayFold((acc, x) -> acc + x, c, 0::UInt64)) AS folded, max(hasAny(c, [1])) FROM t GROUP BY b, c ORDER BY ALL',
  'WITH hasAny(c, [1]) AS one SELECT countIf(one) FROM t GROUP BY hasAny(c, [2]) ORDER BY hasAny(c, [2])', "SELECT windowFunnel(86400, 'strict_increase')(toDateTime(ts), b = 'b1', b = 'b2'), kolmogorovSmirnovTest('two-sided')(a, a % 2) FROM t",
  // Columns by pattern.
  'SELECT * EXCEPT (a, b) REPLACE (1 AS n) FROM t ORDER BY ts LIMIT 1', "SELECT COLUMNS('^(a|n)$') APPLY sum FROM t", 'SELECT * EXCEPT ts APPLY toString FROM t ORDER BY a LIMIT 1', "SELECT COLUMNS('^a$') APPLY (x -> x + 1) FROM t ORDER BY 1 LIMIT 1", 'SELECT t.* FROM t ORDER BY a LIMIT 1', "SELECT COLUMNS('^a$') APPLY quantile(0.5) FROM t",
  // Order, limits, samples of the grammar.
  'SELECT DISTINCT b FROM t ORDER BY b DESC NULLS LAST LIMIT 1, 2', 'SELECT DISTINCT ON (b) b, a FROM t ORDER BY a', 'SELECT b, a FROM t ORDER BY a LIMIT 1 BY b LIMIT 5', 'SELECT a FROM t ORDER BY a LIMIT 2 WITH TIES', 'SELECT a FROM t ORDER BY a OFFSET 45 ROWS FETCH NEXT 2 ROWS ONLY',
  'SELECT a, sum(a) AS s FROM t WHERE a IN (1, 4) GROUP BY a ORDER BY a WITH FILL FROM 0 TO 6 STEP 1 INTERPOLATE (s AS s + 1)', 'SELECT a FROM t PREWHERE a > 3 WHERE b = \'b1\' ORDER BY a', 'SELECT count() FROM shop.t FINAL', 'SELECT TOP 2 a FROM t ORDER BY a',
  'SELECT 1 -- a comment', '/* a comment */ SELECT 1', 'SELECT 1 # a comment', '\n\n  select\t1\n;', 'SELECT “a” FROM (SELECT ‘x’ AS a)',
  'SELECT first, last, date, left, right, index, key, type, user, values, format, settings, final FROM (SELECT 1 AS first, 2 AS last, 3 AS date, 4 AS left, 5 AS right, 6 AS index, 7 AS key, 8 AS type, 9 AS user, 10 AS values, 11 AS format, 12 AS settings, 13 AS final)',
  // Tables that are none.
  'SELECT sum(number) FROM numbers(10)', "SELECT * FROM values('a UInt8, b String', (1, 'x'), (2, 'y'))", 'SELECT * FROM generateSeries(1, 5, 2)', 'SELECT * FROM view(SELECT 1 AS a)', 'SELECT * FROM above ORDER BY a', 'SELECT * FROM above ORDER BY a', 'SELECT toTypeName(number) FROM system.numbers LIMIT 1',
  // Formats and settings of the statement.
  'SELECT a, b FROM t ORDER BY a LIMIT 2 FORMAT JSON', 'SELECT a FROM t ORDER BY a LIMIT 2 FORMAT Null', 'SELECT a FROM t ORDER BY a LIMIT 2 FORMAT CSVWithNames;', 'SELECT 1 FORMAT TSV -- end', 'SELECT 1 FORMAT Values', 'SELECT 1 FORMAT Pretty',
  'SELECT count() FROM t SETTINGS final = 1 FORMAT JSONEachRow', 'SELECT count() FROM t FORMAT JSONEachRow SETTINGS final = 1',
  // What tools ask before their first query.
  'DESCRIBE TABLE t', 'DESC shop.t', 'DESCRIBE (SELECT 1 AS a, \'x\' AS b)', 'EXISTS t', 'EXISTS TABLE shop.t', 'EXISTS DATABASE shop', 'SHOW DATABASES LIKE \'mill%\' FORMAT CSV', 'SHOW TABLES FROM shop', "SHOW TABLES LIKE 't'", 'SHOW COLUMNS FROM t', 'SHOW FULL COLUMNS FROM t FROM shop', 'SHOW CREATE TABLE t', 'SHOW CREATE VIEW above', "SHOW FUNCTIONS LIKE 'arrayMap'", "SHOW SETTINGS LIKE 'max_parser_depth'", 'SHOW INDEXES FROM t',
  'EXPLAIN SYNTAX SELECT a FROM t', 'EXPLAIN AST SELECT 1', 'EXPLAIN header = 1, actions = 1 SELECT 1', 'EXPLAIN PIPELINE SELECT 1', 'EXPLAIN QUERY TREE SELECT 1', 'EXPLAIN ESTIMATE SELECT a FROM t',
  "SELECT name, type, comment FROM system.columns WHERE database = 'shop' AND table = 't' ORDER BY position", "SELECT name FROM system.functions WHERE name = 'plus'", "SELECT table_name, column_name FROM INFORMATION_SCHEMA.COLUMNS WHERE table_schema = 'shop' AND table_name = 't' ORDER BY ordinal_position", "SELECT table_name FROM information_schema.tables WHERE table_schema = 'shop' AND table_name = 't'",
  'SELECT currentDatabase(), version(), timezone(), hostName(), uptime() > 0, 1'
]

t.test('answers an analyst what it answers the owner, column names included', async (t) => {
  for (const query of QUERIES) {
    const params = { database: 'shop', default_format: 'TSVWithNamesAndTypes', output_format_write_statistics: '0' }
    const [owner, analyst] = [await server.ask(query, { params }), await server.ask(query, { params, user: 'analyst' })]

    t.equal(owner.status, 200, `${query}: ${owner.code === 0 ? '' : owner.text}`)
    t.same(analyst.bytes, owner.bytes, query, { owner: owner.text, analyst: analyst.text })
  }
})

t.test('answers queries with parameters, of names and of values', async (t) => {
  const query = 'SELECT {c:Identifier} AS v, {s:String}, {l:Array(Tuple(String, Nullable(UInt8)))}, {at:DateTime64(3, \'UTC\')} FROM {d:Identifier}.{t:Identifier} ORDER BY v LIMIT {n:UInt8}'
  const params = {
    param_c: 'odd name', param_s: "it's \\\\x66 `file` -- {c:Identifier}", param_l: "[('file', NULL)]", param_at: '2026-01-01 00:00:00', param_d: 'shop', param_t: 't', param_n: '1'
  }
  const [owner, analyst] = [await server.ask(query, { params }), await server.ask(query, { params, user: 'analyst' })]

  t.equal(owner.status, 200, owner.text)
  t.same(analyst.text, owner.text)
})

t.test('tells a syntax error as the engine tells it', async (t) => {
  const [owner, analyst] = [await server.ask('SELECT 1 FORMAT TSV x'), await server.ask('SELECT 1 FORMAT TSV x', { user: 'analyst' })]

  t.match(analyst, { code: 62, status: 400, text: /^Code: 62\. DB::Exception: Syntax error: failed at position \d+ \(x\)/ })
  t.notMatch(analyst.text, 'formatQuery')
  t.match(owner, { code: 62 })
})
