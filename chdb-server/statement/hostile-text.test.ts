import { existsSync } from 'node:fs'
import path from 'node:path'
import fc from 'fast-check'
import t from 'tap'
import { startTestServer } from '../testing/start-test-server.ts'

const server = await startTestServer(t)

/** Values of simple types travel in the URL in the escaping of TSV, those of composed types as their literals. */
function escapeTsv (text: string): string {
  return text.replace(/[\\\t\n\r\0\b\f']/g, (char) => `\\${{ '\t': 't', '\n': 'n', '\r': 'r', '\0': '0', '\b': 'b', '\f': 'f' }[char] ?? char}`)
}

function quoteInArray (text: string): string {
  return `'${text.replace(/[\\']/g, '\\$&')}'`
}

const nastyText = fc.oneof(
  fc.string({ unit: 'binary' }),
  fc.string({ unit: 'grapheme' }),
  fc.array(fc.constantFrom("'", '\\', '"', '`', ';', '--', '/*', '*/', '\n', '\t', '\0', '$$', '{x:String}', '’', ' ', '%', '\\\\', "\\'", 'DROP'), { maxLength: 12 }).map((parts) => parts.join(''))
).map((text) => text.toWellFormed())

t.test('gives back every text that a parameter can hold', async (t) => {
  await fc.assert(fc.asyncProperty(nastyText, fc.array(nastyText, { maxLength: 4 }), async (text, list) => {
    const params = {
      param_text: escapeTsv(text),
      param_maybe: escapeTsv(text),
      param_list: `[${list.map(quoteInArray).join()}]`,
      param_map: `{${quoteInArray(text)}:1}`,
      param_tuple: `(${quoteInArray(text)},1)`,
      param_name: escapeTsv(`c${text}`)
    }
    const answer = await server.ask(`SELECT {text:String} AS a, {maybe:LowCardinality(Nullable(String))} AS b, {list:Array(String)} AS c,
      mapKeys({map:Map(String, UInt8)})[1] AS d, tupleElement({tuple:Tuple(String, UInt8)}, 1) AS e FORMAT JSONEachRow`, { params })
    t.same(JSON.parse(answer.text), { a: text, b: text, c: list, d: text, e: text })
  }), { numRuns: 300 })
})

t.test('takes every text as the name of a database or a setting value for what it is', async (t) => {
  await fc.assert(fc.asyncProperty(nastyText, async (text) => {
    const unknown = await server.ask('SELECT 1', { params: { database: `no ${text}` } })
    const comment = await server.ask("SELECT getSetting('format_csv_null_representation') FORMAT JSONCompactEachRow", {
      params: { format_csv_null_representation: text }
    })
    // A name with the text in it would reach the runner, whose protocol is made of lines.
    t.ok([81, 60].includes(unknown.code), 'no such database')
    t.same(JSON.parse(comment.text), [text])
  }), { numRuns: 100 })
})

t.test('never lets an analyst write a file, whatever the text', async (t) => {
  const target = path.join(server.dataDir, 'stolen')
  const piece = fc.constantFrom(
    'SELECT 1', ' INTO OUTFILE ', ' into/**/outfile ', `'${target}'`, ` INTO OUTFILE '${target}'`, ' FORMAT TSV', ';', '\n\n', "'", '"', '`', '\\', '‘', '’',
    '“', '”', '--', '#', '# ', '#!', '//', '/*', '*/', '\n', '\r', '\0', '\u00a0', '\u200b', '\ufeff', '$$', '$a$', "x'", "b'", '1e', '0x', '(', ')', '{', '}', ',', ' AS x',
    ' UNION ALL ', 'EXPLAIN ', 'SHOW DATABASES', 'FROM system.one ', '−', '\\G', ' SETTINGS max_threads=1', ' TRUNCATE', '\u2028', '\u0085', 'é'
  )
  const text = fc.array(piece, { minLength: 1, maxLength: 10 }).map((pieces) => `SELECT 1 ${pieces.join('')}`)
  await fc.assert(fc.asyncProperty(text, async (query) => {
    await server.ask(query, { user: 'analyst' })
    if (existsSync(target)) throw new Error(`written by ${JSON.stringify(query)}`)
  }), { numRuns: 3000 })
  t.equal((await server.ask('SELECT 1', { user: 'analyst' })).text, '1\n')
})
