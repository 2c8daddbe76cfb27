import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, existsSync, openSync } from 'node:fs'
import path from 'node:path'
import { text } from 'node:stream/consumers'
import t from 'tap'

const ERRORS = JSON.stringify(path.join(import.meta.dirname, 'errors.ts'))
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
  t.equal(out.match(/"msg":"stored"/g)?.length, 10_000, 'what is no trouble is never left out')
})

t.test('an error of a service that is unavailable has no stack, a bug has one', async (t) => {
  const { out } = await run(`
    const { HttpError, MillraceError } = await import(${ERRORS})
    const cause = Object.assign(new Error('timeout'), { name: 'TimeoutError' })
    logger.error({ err: new Error('lookup failed', { cause }) }, 'a')
    logger.error({ err: new MillraceError('PIPE_INSERT_FAILED', 'memory', { action: 'retry' }) }, 'b')
    logger.error({ err: new HttpError(503, 'server_error', 'stream_unavailable', 'later') }, 'c')
    logger.error({ err: new TypeError('x is not a function') }, 'd')`, 'pipe')

  const stacks = out.trim().split('\n').map((line) => JSON.parse(line)).map(({ msg, err }) => [msg, err.stack !== undefined])
  t.same(stacks, [['a', false], ['b', false], ['c', false], ['d', true]])
})
