import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, existsSync, openSync } from 'node:fs'
import path from 'node:path'
import { text } from 'node:stream/consumers'
import { pino } from 'pino'
import t from 'tap'
import { MillraceError } from '../engines/errors.ts'
import { waitFor } from '../test/support/wait-for.ts'
import { formatLogLine, timeOf } from '../engines/log-lines.ts'
import { createRepeatedLinesHook } from './logger.ts'
import { isUnavailable } from './store-errors.ts'

const ERRORS = JSON.stringify(path.join(import.meta.dirname, '..', 'engines', 'errors.ts'))
const LOGGER = JSON.stringify(path.join(import.meta.dirname, 'logger.ts'))

async function run (script: string, stdout: number | 'pipe'): Promise<{ code: unknown, out: string, err: string }> {
  const child = spawn(process.execPath, ['--input-type=module', '-e', `
    import { createLogger } from ${LOGGER}
    const logger = createLogger({ component: 'test', level: 'info' })
    ${script}`], { stdio: ['ignore', stdout, 'pipe'] })
  const [[code], out, err] = await Promise.all([
    once(child, 'exit'), child.stdout === null ? '' : text(child.stdout), text(child.stderr!)
  ])
  return { code, out, err }
}

t.test('writes one fact a line, without secrets', async (t) => {
  const { code, out } = await run("logger.info({ password: 'p', token: 't', rows: 3 }, 'stored')", 'pipe')

  t.equal(code, 0)
  t.match(JSON.parse(out), { component: 'test', password: '[redacted]', token: '[redacted]', rows: 3, msg: 'stored' })
})

t.test('writes no keys and no payloads that errors and requests carry along', async (t) => {
  const { out } = await run(`
    const err = Object.assign(new Error('refused'), { code: 'X', parameters: ['secret'], payload: 'secret', password: 'secret' })
    const req = { url: '/batch/', headers: { authorization: 'secret', cookie: 'secret' } }
    logger.error({ err, req, message: { api_key: 'secret', properties: { name: 'secret' } } }, 'failed')`, 'pipe')

  t.notMatch(out, /secret/)
  t.match(JSON.parse(out), { err: { code: 'X', message: 'refused' }, req: { url: '/batch/' } })
})

t.test('goes on while its output is on a full disk', { skip: !existsSync('/dev/full') }, async (t) => {
  const full = openSync('/dev/full', 'w')
  t.teardown(() => closeSync(full))
  const { code, err } = await run(`
    for (let line = 0; line < 20_000; line++) logger.info({ text: 'x'.repeat(100) }, 'stored')
    setTimeout(() => { console.error('still runs') }, 100)`, full)

  t.equal(code, 0)
  t.equal(err, 'still runs\n')
})

t.test('a line that comes again and again is written once, and then counted', async (t) => {
  const { out } = await run(`
    const err = Object.assign(new Error('connect ECONNREFUSED'), { code: 'ECONNREFUSED' })
    for (let attempt = 0; attempt < 10_000; attempt++) {
      logger.warn({ err, partition: 'live.0', attempt }, 'insert failed')
      if (attempt % 100 === 0) logger.error({ err, partition: 'live.1', attempt }, 'insert failed')
      logger.info({ attempt }, 'stored')
    }`, 'pipe')

  const lines = out.trim().split('\n').map((line) => JSON.parse(line)).filter(({ level }) => level > 30)
  t.match(lines, [
    { level: 40, partition: 'live.0', attempt: 0, msg: 'insert failed', err: { code: 'ECONNREFUSED' } },
    { level: 50, partition: 'live.1', attempt: 0, msg: 'insert failed' },
    { level: 40, partition: 'live.0', repeated: 9999, since: /Z$/, until: /Z$/, msg: 'insert failed (repeated 9999 times)' },
    { level: 50, partition: 'live.1', repeated: 99, msg: 'insert failed (repeated 99 times)' }
  ])
  t.equal(lines.length, 4)
  t.equal(out.match(/"msg":"stored"/g)?.length, 10_000, 'info lines are never left out')
})

t.test('an error of a service that is unavailable has no stack, a bug has one', async (t) => {
  const { out } = await run(`
    const { HttpError, MillraceError } = await import(${ERRORS})
    const cause = Object.assign(new Error('timeout'), { name: 'TimeoutError' })
    logger.error({ err: new Error('lookup failed', { cause }) }, 'a')
    logger.error({ err: new MillraceError('MILLRACE_INSERT_FAILED', 'memory', { action: 'retry' }) }, 'b')
    logger.error({ err: new HttpError(503, 'server_error', 'stream_unavailable', 'later') }, 'c')
    logger.error({ err: new TypeError('x is not a function') }, 'd')`, 'pipe')

  const stacks = out.trim().split('\n').map((line) => JSON.parse(line)).map(({ msg, err }) => [msg, err.stack !== undefined])
  t.same(stacks, [['a', false], ['b', false], ['c', false], ['d', true]])
})

const WINDOW_MS = 20

interface Written {
  msg: string
  repeated?: number
  since?: string
}

function createLines (now: () => number = Date.now): { logger: pino.Logger, lines: Written[] } {
  const lines: Written[] = []
  const logger = pino({ hooks: { logMethod: createRepeatedLinesHook(now, WINDOW_MS) } },
    { write: (line) => { lines.push(JSON.parse(line) as Written) } })
  return { logger, lines }
}

t.test('says after each window how often a line came, and is quiet when it stopped', async (t) => {
  const { logger, lines } = createLines(() => 0)

  for (let i = 0; i < 5; i++) logger.warn('nats is unavailable')
  await waitFor(() => lines.length === 2)
  logger.warn('nats is unavailable')
  await waitFor(() => lines.length === 3)

  t.match(lines, [
    { msg: 'nats is unavailable' },
    { msg: 'nats is unavailable (repeated 4 times)', repeated: 4, since: '1970-01-01T00:00:00.000Z' },
    { msg: 'nats is unavailable (repeated 1 time)', repeated: 1 }
  ])
})

t.test('a line is new again after a window without it', async (t) => {
  const { logger, lines } = createLines()

  logger.warn('nats is unavailable')
  await waitFor(() => {
    logger.warn('nats is unavailable')
    // Written again with its own text, not as a count.
    return lines.filter(({ repeated }) => repeated === undefined).length === 2
  }, { everyMs: WINDOW_MS * 20 })

  t.equal(lines.at(-1)!.msg, 'nats is unavailable')
})

t.test('other subjects, codes, levels and messages are other lines', async (t) => {
  const { logger, lines } = createLines()
  const [refused, reset] = ['ECONNREFUSED', 'ECONNRESET'].map((code) => Object.assign(new Error('no'), { code }))

  for (const round of [1, 2]) {
    for (const partition of ['live.0', 'live.1']) logger.warn({ partition, round }, 'waits')
    for (const err of [refused, reset]) logger.warn({ err, round }, 'waits')
    logger.error({ round }, 'waits')
    logger.error(new RangeError('beyond'))
  }

  t.equal(lines.length, 6)
})

t.test('remembers a thousand lines at most, and counts of what it forgets are written', async (t) => {
  const { logger, lines } = createLines()

  logger.error({ file: 'first' }, 'damaged')
  logger.error({ file: 'first' }, 'damaged')
  for (let i = 0; i < 1000; i++) logger.error({ file: String(i) }, 'damaged')

  t.equal(lines.length, 1002)
  t.match(lines.find(({ repeated }) => repeated === 1), { file: 'first' })
})

const line = (fields: object): string => JSON.stringify({ level: 40, time: Date.UTC(2026, 0, 2, 14, 3, 7, 123), component: 'pipeline', pid: 1, ...fields })

t.test('a line of JSON is one line for people, with its fields', async (t) => {
  t.equal(formatLogLine(line({ msg: 'an insert failed', partition: 'live.0', rows: 3 })),
    '14:03:07.123 WARN  pipeline   an insert failed  partition=live.0  rows=3')
  t.equal(timeOf(line({})), Date.UTC(2026, 0, 2, 14, 3, 7, 123))
})

t.test('the stack of an error stands below, and colours are for terminals that want them', async (t) => {
  t.equal(formatLogLine(line({ level: 50, msg: 'failed', err: { message: 'no', stack: 'Error: no\n    at a.ts:1' } }), { isColored: true }),
    '14:03:07.123 \u001b[31mERROR\u001b[0m pipeline   failed\n  Error: no\n      at a.ts:1')
  t.match(formatLogLine(line({ msg: 'failed', err: { message: 'away', code: 'ECONNREFUSED' } })), /failed\n {2}away ECONNREFUSED$/)
})

t.test('lines that are not JSON keep their text, and control characters do not reach a terminal', async (t) => {
  t.equal(formatLogLine('2026-01-02 LOG:  started', { source: 'postgres' }), 'postgres   2026-01-02 LOG:  started')
  t.equal(formatLogLine('{"half'), '{"half')
  for (const odd of ['{"time":1,"err":null}', '{"time":1e300}', '{"time":1,"component":3}', '{"time":1,"err":{"stack":5}}', '{"time":1,"level":{"toString":1}}', '{"time":1,"msg":{"toString":1}}']) t.equal(formatLogLine(odd), odd)
  t.equal(timeOf('plain'), undefined)
  t.notMatch(formatLogLine(line({ msg: 'a\u001b[2Jb\nc', name: '\u0007' })), /[\u0000-\u0008\u001b\n]/) // eslint-disable-line no-control-regex
})

function coded (code: unknown, name = 'Error'): Error {
  return Object.assign(new Error('failed'), { code, name })
}

t.test('knows an unavailable service by the tables of the stores, by names of NATS, and by causes', async (t) => {
  const cases: [unknown, boolean][] = [
    [coded('ECONNREFUSED'), true], [coded('MILLRACE_POSTGRES_CONNECTION_LOST'), true], [coded('57P03'), true], [coded('53300'), true],
    [coded('668'), true], [Object.assign(new Error('insert'), { clickhouseCode: 0 }), true],
    [coded(undefined, 'NoRespondersError'), true], [new Error('Timeout error.'), true],
    [new MillraceError('MILLRACE_X', 'x', { cause: new Error('y', { cause: coded('ECONNRESET') }) }), true],
    // Busy, wrong or unknown is not unavailable.
    [coded('241'), false], [coded('60'), false], [coded('42P01'), false], [coded('40001'), false], [coded('ENOENT'), false],
    [coded('ERR_INVALID_ARG_TYPE'), false], [new TypeError('bug'), false], [{}, false], ['text', false], [undefined, false]
  ]

  for (const [error, expected] of cases) t.equal(isUnavailable(error), expected, JSON.stringify(error))
})
