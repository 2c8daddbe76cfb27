import { chmodSync, existsSync, writeFileSync } from 'node:fs'
import { appendFile, mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { jetstream, jetstreamManager } from '@nats-io/jetstream'
import { connect } from '@nats-io/transport-node'
import t, { type Test } from 'tap'
import { EVENTS_STREAM } from '../../schema/wire/streams.ts'
import { isFlushedWithin, watchFlushes } from '../../test/support/watch-flushes.ts'
import { type ManagedProcess, spawnProcess } from '../supervisor/processes/spawn-process.ts'
import { findNatsServer } from './find-nats-server.ts'
import { restartAfterFullDisk, startNatsServer } from './start-nats-server.ts'

async function startWatched (t: Test): Promise<{ server: ManagedProcess, folder: string }> {
  const folder = await mkdtemp(path.join(tmpdir(), 'millrace-test-disk-'))
  const server = await spawnProcess({
    name: 'nats-server',
    command: process.execPath,
    args: ['-e', 'setInterval(() => {}, 1000)'],
    env: {},
    logFile: path.join(folder, 'nats-server.log')
  })
  t.teardown(async () => {
    await server.stop()
    await rm(folder, { recursive: true, force: true })
  })
  return { server, folder }
}

/** Short, so that no test has to wait long for a poll. */
const POLL_MS = 5

/** As long as fifty polls take. That nothing happens has no event to wait for. */
async function somePolls (): Promise<'still runs'> {
  return await delay(50 * POLL_MS, 'still runs')
}

const FULL = "[ERR] JetStream failed to store a msg on stream '$G > EVENTS': write 1.blk: no space left on device\n"

t.test('ends a server that found no room, once there is room, and says why', async (t) => {
  const { server, folder } = await startWatched(t)
  restartAfterFullDisk(server, path.join(folder, 'not there yet'), POLL_MS)
  await appendFile(server.logFile, FULL)
  t.equal(await Promise.race([server.exited, somePolls()]), 'still runs', 'while nothing can be written')

  restartAfterFullDisk(server, folder, POLL_MS)
  await appendFile(server.logFile, FULL)

  t.match(await server.exited, { requested: true })
  t.match(await readFile(server.logFile, 'utf8'), /the disk has room again/)
})

t.test('leaves a server alone that found no room only before it was started', async (t) => {
  const { server, folder } = await startWatched(t)
  await appendFile(server.logFile, FULL)
  restartAfterFullDisk(server, folder, POLL_MS)

  t.equal(await Promise.race([server.exited, somePolls()]), 'still runs')
})

t.test('between a message and its acknowledgement nats-server flushes the block that has it', async (t) => {
  const dataDir = await mkdtemp(path.join(tmpdir(), 'millrace-flush-'))
  t.teardown(async () => await rm(dataDir, { recursive: true, force: true }))
  const server = await startNatsServer({ dataDir, port: 0 })
  t.teardown(async () => await server.stop())
  const connection = await connect({ servers: server.url })
  t.teardown(async () => await connection.close())
  await (await jetstreamManager(connection)).streams.add({ name: EVENTS_STREAM, subjects: ['events.>'] })
  const watch = await watchFlushes(t, server.pid)
  const options = watch === null ? { skip: 'this machine has no strace, or does not let it look at a process' } : {}

  const publishes: { from: number, to: number }[] = []
  for (let message = 0; message < 10; message++) {
    const from = Date.now()
    await jetstream(connection).publish('events.live.0', Buffer.alloc(1000))
    publishes.push({ from, to: Date.now() })
  }

  const flushes = await watch?.end() ?? []
  const block = new RegExp(`/streams/${EVENTS_STREAM}/msgs/\\d+\\.blk$`)
  t.same(publishes.filter((publish) => !isFlushedWithin(flushes, block, publish)), [], options)
})

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

t.test('uses the chosen binary, or explains why it cannot', async (t) => {
  const dir = t.testdir({ good: printVersion('2.15.1'), old: printVersion('2.10.27') })
  for (const name of ['good', 'old']) chmodSync(path.join(dir, name), 0o755)
  const options = { env: { PATH: '/bin', XDG_CACHE_HOME: dir }, dataDir: dir }

  t.equal(await findNatsServer({ ...options, chosen: path.join(dir, 'good') }), path.join(dir, 'good'))
  await t.rejects(findNatsServer({ ...options, chosen: path.join(dir, 'old') }),
    /is version 2\.10\.27, which may lose acknowledged events .*: use 2\.15\.1 or newer/)
  await t.rejects(findNatsServer({ ...options, chosen: path.join(dir, 'none') }), /is not a nats-server that can run here/)
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
