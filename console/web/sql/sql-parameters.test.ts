import t from 'tap'
import { defaultValue, findParameters, readLink, writeLink } from './sql-parameters.ts'

t.test('parameters are found once each, and not in strings and comments', async (t) => {
  const query = "SELECT {day:Date}, {names:Array(String)}, {day:Date}, '{no:Int8}' -- {nor:Int8}\n, {project : UInt32}"

  t.same(findParameters(query), [{ name: 'day', type: 'Date' }, { name: 'names', type: 'Array(String)' }, { name: 'project', type: 'UInt32' }])
  t.same(findParameters('SELECT {open:'), [])
  t.same(findParameters("SELECT map('a', 1) AS m, {}, {x}"), [])
  const world = { project: 7, now: Date.UTC(2026, 2, 31) }
  t.same(['project', 'from', 'to', 'timezone', 'event'].map((name) => defaultValue(name, world)), ['7', '2026-03-01', '2026-04-01', 'UTC', ''])
})

t.test('a link has the query and a value for each parameter, whatever its name', async (t) => {
  const parameters = { sql: '3', param_x: 'a&b', n: '' }

  t.same(readLink(writeLink('SELECT {sql:UInt8} # %', parameters)), { query: 'SELECT {sql:UInt8} # %', parameters })
  t.same(readLink('sql=SELECT+1&from=2026-01-01&n=4'), { query: 'SELECT 1', parameters: { from: '2026-01-01', n: '4' } }, 'as links were before')
  t.equal(readLink('login=abc'), undefined)
})
