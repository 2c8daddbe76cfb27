import t from 'tap'
import { freePort } from '../../test/support/local-ports.ts'
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
