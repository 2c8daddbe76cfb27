import t from 'tap'
import { applySuggestion, type Catalog, findPlace, suggestNames } from './complete-sql.ts'
import { defaultValue, findParameters } from './sql-parameters.ts'

const column = (name: string): Catalog['tables'][number]['columns'][number] => ({ name, type: 'String', comment: '' })
const CATALOG: Catalog = {
  tables: [
    { name: 'events', comment: 'All events', columns: [column('event'), column('distinct_id'), column('$plan'), column('timestamp')] },
    { name: 'persons', comment: 'People', columns: [column('person_id'), column('properties')] }
  ]
}

/** What is offered where the bar stands. */
function offer (text: string): string[] {
  const place = findPlace(text.replace('|', ''), text.indexOf('|'))
  return place === null ? [] : suggestNames(place, CATALOG).map((each) => each.text)
}

function placeIn (text: string): string | undefined {
  const place = findPlace(text.replace('|', ''), text.indexOf('|'))
  return place === null ? undefined : `${place.inside}: ${place.typed}`
}

t.test('tables are offered where a table is meant, columns of the tables of the query elsewhere', async (t) => {
  t.same(offer('SELECT * FROM |'), ['events', 'persons'])
  t.same(offer('SELECT 1 FROM events JOIN per|'), ['persons'])
  t.same(offer('SELECT dist| FROM events').slice(0, 2), ['distinct_id', 'DISTINCT'])
  t.ok(offer('SELECT | FROM persons').indexOf('person_id') < offer('SELECT | FROM persons').indexOf('count'))
  t.notOk(offer('SELECT even| FROM persons').includes('event'), 'no columns of other tables')
  t.same(offer('SELECT p.| FROM events AS e JOIN persons FINAL AS p'), ['person_id', 'properties'])
  t.same(offer('SELECT e.t| FROM millrace.events e'), ['timestamp', 'event', 'distinct_id'].filter((name) => name.includes('t')))
  t.same(offer('SELECT count| FROM events').slice(0, 2), ['count', 'countIf'])
})

t.test('nothing is offered in comments and numbers', async (t) => {
  t.same(offer('SELECT 1 -- fro|'), [])
  t.same(offer('SELECT 12|'), [])
})

t.test('between quotes stands an event, a property, or either', async (t) => {
  t.equal(placeIn("WHERE event = 'pai|'"), 'event: pai')
  t.equal(placeIn("WHERE event = 'pai|"), 'event: pai', 'also before the quote is closed')
  t.equal(placeIn("WHERE event IN ('a', 'b', '|')"), 'event: ')
  t.equal(placeIn("SELECT JSONExtractString(properties, 'pl|') FROM events"), 'property: pl')
  t.equal(placeIn("WHERE JSONExtractString(properties, 'plan') = 'p|'"), 'string: p')
  t.equal(placeIn("WHERE x = '|'"), 'string: ')
})

t.test('what is put in stays what it is, whatever its name', async (t) => {
  t.same(applySuggestion({ text: "it's \\", kind: 'event', detail: '' }), { text: "it\\'s \\\\", back: 0 })
  t.same(applySuggestion({ text: '$plan', kind: 'column', detail: '' }), { text: '`$plan`', back: 0 })
  t.same(applySuggestion({ text: 'a`b', kind: 'column', detail: '' }), { text: '`a\\`b`', back: 0 })
  t.same(applySuggestion({ text: 'uniq', kind: 'function', detail: '' }), { text: 'uniq()', back: 1 })
  t.same(applySuggestion({ text: 'event', kind: 'column', detail: '' }), { text: 'event', back: 0 })
})

t.test('parameters are found once each, and not in strings and comments', async (t) => {
  const query = "SELECT {day:Date}, {names:Array(String)}, {day:Date}, '{no:Int8}' -- {nor:Int8}\n, {project : UInt32}"

  t.same(findParameters(query), [{ name: 'day', type: 'Date' }, { name: 'names', type: 'Array(String)' }, { name: 'project', type: 'UInt32' }])
  t.same(findParameters('SELECT {open:'), [])
  t.same(findParameters("SELECT map('a', 1) AS m, {}, {x}"), [])
  const world = { project: 7, now: Date.UTC(2026, 2, 31) }
  t.same(['project', 'from', 'to', 'timezone', 'event'].map((name) => defaultValue(name, world)), ['7', '2026-03-01', '2026-04-01', 'UTC', ''])
})
