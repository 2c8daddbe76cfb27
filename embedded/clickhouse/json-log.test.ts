import t from 'tap'
import { createLogger } from './json-log.ts'
import { waitFor } from './testing/wait-for.ts'

t.test('writes a line of JSON with the fields of pino, from its level on', async (t) => {
  const lines: string[] = []
  const logger = createLogger('warn', (line) => lines.push(line))

  logger.info({ port: 1 }, 'is listening')
  logger.warn({ err: Object.assign(new TypeError('no'), { code: 'X' }), file: 'a' }, 'could not')

  t.equal(lines.length, 1)
  t.match(JSON.parse(lines[0] ?? ''), {
    level: 40, time: Number, component: 'clickhouse', pid: process.pid, file: 'a', msg: 'could not', err: { type: 'TypeError', message: 'no', code: 'X', stack: /json-log/ }
  })
})

t.test('counts what comes again within a minute, and writes how often it came', async (t) => {
  const lines: string[] = []
  const logger = createLogger('info', (line) => lines.push(line), 20)

  for (const table of ['a', 'a', 'b', 'a']) logger.error({ table }, 'could not write')
  for (let i = 0; i < 2; i++) logger.info({}, 'is said each time')

  t.same(lines.map((line) => JSON.parse(line).msg), ['could not write', 'could not write', 'is said each time', 'is said each time'])
  await waitFor(() => lines.length === 5)
  t.match(JSON.parse(lines[4] ?? ''), { level: 50, repeated: 2, msg: 'could not write (repeated 2 times)' })
  logger.error({ table: 'a' }, 'could not write')
  t.equal(lines.length, 6, 'and is new afterwards')
})
