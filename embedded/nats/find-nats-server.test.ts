import { chmodSync, existsSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import t from 'tap'
import { findNatsServer } from './find-nats-server.ts'

/** A program that knows its version only. */
function printVersion (version: string): string {
  return `#!/bin/sh\necho "nats-server: v${version}"\n`
}

t.test('takes the newest binary of PATH and cache that survives a power cut', async (t) => {
  const dir = t.testdir({
    old: { 'nats-server': printVersion('2.10.27') },
    first: { 'nats-server': printVersion('2.15.1') },
    second: { 'nats-server': printVersion('2.15.12') },
    equal: { 'nats-server': printVersion('2.15.12') }
  })
  for (const folder of ['old', 'first', 'second', 'equal']) chmodSync(path.join(dir, folder, 'nats-server'), 0o755)
  const env = { PATH: `${dir}/missing:${dir}/old:${dir}/first:${dir}/second:${dir}/equal:/bin`, XDG_CACHE_HOME: `${dir}/cache` }

  t.equal(await findNatsServer({ env, dataDir: dir }), path.join(dir, 'second', 'nats-server'))

  const cached = path.join(dir, 'cache', 'millrace', `nats-server-${process.platform}-${process.arch}`)
  writeFileSync(cached, printVersion('2.16.0'), { mode: 0o755 })
  t.equal(await findNatsServer({ env, dataDir: dir }), cached)
})

t.test('uses the chosen binary or says what is wrong with it', async (t) => {
  const dir = t.testdir({ good: printVersion('2.15.1'), old: printVersion('2.10.27'), older: printVersion('2.9.10'), forgetful: printVersion('2.10.21') })
  for (const name of ['good', 'old', 'older', 'forgetful']) chmodSync(path.join(dir, name), 0o755)
  const options = { env: { PATH: '/bin', XDG_CACHE_HOME: dir }, dataDir: dir }

  t.equal(await findNatsServer({ ...options, chosen: path.join(dir, 'good') }), path.join(dir, 'good'))
  const old = { ...options, chosen: path.join(dir, 'old') }
  await t.rejects(findNatsServer(old), /is version 2\.10\.27, which may lose acknowledged events .* 2\.15\.1 or newer, or set MILLRACE_OLD_NATS_SERVER=accept/)
  t.equal(await findNatsServer({ ...old, old: 'accept' }), path.join(dir, 'old'))
  await t.rejects(findNatsServer({ ...options, chosen: path.join(dir, 'older'), old: 'accept' }), /is version 2\.9\.10: 2\.15\.1 or newer/)
  await t.rejects(findNatsServer({ ...options, chosen: path.join(dir, 'forgetful'), old: 'accept' }), /is version 2\.10\.21, which can forget whole streams/)
  await t.rejects(findNatsServer({ ...options, chosen: path.join(dir, 'none') }), /is no nats-server that runs here/)
})

t.test('says what to install and where to put it when it cannot be fetched', async (t) => {
  const dir = t.testdir()
  const pathOfTheMachine = process.env.PATH
  // Fetching runs apt, which is looked up on the PATH of this process.
  process.env.PATH = dir
  t.teardown(() => { process.env.PATH = pathOfTheMachine })

  const finding = findNatsServer({ env: { PATH: dir, XDG_CACHE_HOME: dir }, dataDir: dir })

  await t.rejects(finding, {
    code: 'MILLRACE_SERVICE_START_FAILED',
    message: /no apt[\s\S]*on PATH[\s\S]*MILLRACE_NATS_SERVER=[\s\S]*copy it to .*millrace\/nats-server/
  })
  t.notOk(existsSync(path.join(dir, 'millrace', 'nats-server')))
})
