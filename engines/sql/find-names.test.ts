import { readdir, readFile } from 'node:fs/promises'
import path from 'node:path'
import t from 'tap'
import { findNames } from './find-names.ts'

const properties = (query: string): Record<string, string[]> =>
  Object.fromEntries(findNames(query).properties.map(({ property, kinds }) => [property, kinds.toSorted()]))

t.test('finds literals, and no comments, names or properties among them', async (t) => {
  const query = `/* 'in a comment' */ SELECT "quoted", \`also quoted\` -- 'neither'
    FROM events WHERE event IN ('order paid', 'it''s', 'tab\\t', $$here$$) AND JSONExtractString(properties, 'plan') != '' # 'nor'`

  t.same([...findNames(query).texts], ['order paid', "it's", 'tab\t', 'here', ''])
  t.same([...findNames("SELECT count() FROM events WHERE event = 'cut sho").texts], ['cut sho'])
  t.same([...findNames('').texts], [])
})

t.test('finds properties by the functions that read them, each of its table', async (t) => {
  t.same(properties("SELECT jsonextractstring(properties, 'plan'), JSONExtract(properties, 'a', 'b', 'Int8') FROM millrace.events FINAL"),
    { plan: ['event'], a: ['event'] })
  t.same(properties("SELECT JSONExtractString(p.properties, 'email') FROM events e JOIN persons FINAL AS p USING person_id"),
    { email: ['person'] })
  t.same(properties("SELECT JSONExtractString(properties, 'email') FROM events JOIN persons USING person_id"), { email: ['event', 'person'] })
  t.same(properties("SELECT x FROM events WHERE person_id IN (SELECT person_id FROM persons WHERE JSONHas(properties, 'email'))"),
    { email: ['person'] })
  t.same(properties("SELECT JSONExtractString(any(of.properties), 'industry') FROM events LEFT JOIN (SELECT * FROM groups FINAL) of ON 1"),
    { industry: ['group'] })
  t.same(properties("WITH paid AS (SELECT properties FROM events) SELECT JSONExtractFloat(properties, 'a') FROM paid"), { a: ['event'] })
  t.same(properties("SELECT visitParamExtractString(properties, 'a') FROM (SELECT properties FROM events_with_person)"), { a: ['event'] })
  t.same(properties('SELECT JSON_VALUE(properties, \'$.plan\'), JSON_VALUE(properties, \'$."order id".x\'), JSON_VALUE(properties, \'$[\'\'k\'\']\') FROM events'),
    { plan: ['event'], 'order id': ['event'], k: ['event'] })
  t.same(properties("SELECT JSONExtractString(payload, 'plan') FROM other"), {})
  t.same(properties("SELECT JSONExtractKeys(properties), JSONExtractString('plan') FROM events"), {})
})

t.test('takes names that every object has for tables without properties', async (t) => {
  for (const name of ['toString', 'constructor', '__proto__', 'valueOf', 'hasOwnProperty']) {
    const query = `SELECT JSONExtractString(properties, 'plan') FROM events WHERE event IS DISTINCT FROM ${name}(event) AND x = trim(BOTH ' ' FROM ${name}(x))`
    t.same(properties(query), { plan: ['event'] }, name)
    t.same(properties(`SELECT JSONExtractString(${name}.properties, 'plan') FROM ${name}`), {}, name)
  }
})

t.test('finds columns, tables and projects', async (t) => {
  const names = findNames(`WITH RECURSIVE x AS (SELECT 1 FROM x) SELECT browser, e.p_plan, os(1), 2 AS host FROM events AS e
    WHERE project_id IN (1, 2) AND event.project_id = 3`)

  t.ok(['browser', 'p_plan'].every((column) => names.columns.has(column)))
  t.notOk(['os', 'host'].some((column) => names.columns.has(column)))
  t.same([...names.tables].sort(), ['events', 'x'])
  t.same([...names.projects!], [1, 2, 3])
  t.equal(findNames('SELECT project_id FROM events GROUP BY project_id').projects, undefined)
})

t.test('understands every sample query', async (t) => {
  const folder = path.join(import.meta.dirname, '..', '..', 'docs', 'query', 'queries')
  for (const file of (await readdir(folder)).filter((name) => name.endsWith('.sql'))) {
    const query = (await readFile(path.join(folder, file), 'utf8')).replaceAll('{property:String}', "'plan'")
    const kinds = { 'persons.sql': ['person'], 'groups.sql': ['group'], 'property_breakdown.sql': ['event'] }[file]
    t.same(properties(query), kinds === undefined ? {} : { plan: kinds }, file)
  }
})
