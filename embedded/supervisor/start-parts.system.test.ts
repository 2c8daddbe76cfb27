import { spawn } from 'node:child_process'
import { once } from 'node:events'
import path from 'node:path'
import { text } from 'node:stream/consumers'
import t from 'tap'
import { freePort } from '../../test/support/local-ports.ts'
import { startNatsOfVersion } from '../../test/support/nats-of-version.ts'
import { startTestNats } from '../../test/support/test-processes.ts'
import { startTier } from './start-parts.ts'
import { chooseSettings, makeDataDir, runMain } from './testing/run-main.ts'

t.test('an ingest process that is started again while NATS is away is left running', async (t) => {
  const dataDir = await makeDataDir(t)
  const port = await freePort()
  const ingest = await startTier({
    name: 'ingest',
    port,
    host: '127.0.0.1',
    dataDir,
    env: {
      PATH: process.env.PATH,
      NATS_URL: 'nats://127.0.0.1:1',
      DATABASE_URL: 'postgres://nobody@127.0.0.1:1/none',
      MILLRACE_DATA_DIR: dataDir,
      MILLRACE_PORT: String(port)
    },
    stopTimeoutMs: 4000,
    signal: new AbortController().signal,
    onSpawn: () => {},
    mayBeStarting: true
  })
  t.teardown(async () => { await ingest.stop() })

  t.match(await (await fetch(`http://127.0.0.1:${port}/_readiness`)).json(), { status: 'starting', pid: ingest.pid })
})

t.test('a login that the NATS of NATS_URL refuses ends the start with a sentence', async (t) => {
  const nats = await startTestNats(t)
  await nats.setPassword('right')
  const main = runMain(t, {
    ...await chooseSettings(await makeDataDir(t)), NATS_URL: nats.url.replace('//', '//tester:secret@')
  })

  t.equal(await main.exited, 1)
  t.match(main.output(), /NATS refused the login of NATS_URL; correct the user or the password/)
  t.notMatch(main.output(), /secret|\n +at /)
})

t.test('a NATS of NATS_URL that may lose events at a power cut ends the start, and each tier that hands events to it, with a sentence', async (t) => {
  const { url } = await startNatsOfVersion(t, (await startTestNats(t)).port, '2.10.27')
  const sentence = /could not start: nats-server 2\.10\.27 at 127\.0\.0\.1:\d+ is older than 2\.15\.1 .* Replace it by 2\.15\.1 or newer/
  const main = runMain(t, { ...await chooseSettings(await makeDataDir(t)), NATS_URL: url })

  t.equal(await main.exited, 1)
  t.match(main.output(), sentence)
  t.notMatch(main.output(), /\n +at /)

  for (const tier of ['ingest', 'pipeline']) {
    const child = spawn(process.execPath, [path.join(import.meta.dirname, '..', '..', tier, 'main.ts')], {
      env: { PATH: process.env.PATH, NATS_URL: url, DATABASE_URL: 'postgres://nobody@127.0.0.1:1/none', MILLRACE_DATA_DIR: await makeDataDir(t) },
      stdio: ['ignore', 'ignore', 'pipe']
    })
    const [stderr, [code]] = await Promise.all([text(child.stderr), once(child, 'exit')])
    t.equal(code, 1, tier)
    t.match(stderr, sentence, tier)
  }
})
