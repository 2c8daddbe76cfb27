import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, existsSync, openSync } from 'node:fs'
import path from 'node:path'
import { text } from 'node:stream/consumers'
import t from 'tap'

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
