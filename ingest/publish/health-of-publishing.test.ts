import t from 'tap'
import { waitFor } from '../../test/support/wait-for.ts'
import { PROJECT_KEY, startTestIngest } from '../testing/start-test-ingest.ts'

t.test('/_health names the stream and the spool from the first refused event until one is taken', async (t) => {
  const ingest = await startTestIngest(t, { MILLRACE_SPOOL_MAX_BYTES: '1' })
  const health = async (): Promise<unknown> => {
    const response = await fetch(`${ingest.url}/_health`)
    return [response.status, (await response.json() as { stuck: string[] }).stuck]
  }
  const send = async (): Promise<number> =>
    (await ingest.post('/capture/', { api_key: PROJECT_KEY, event: 'e', distinct_id: 'u' })).status
  t.equal(await send(), 200)
  t.same(await health(), [200, []])

  // Connected all the time, as a nats-server whose disk is full.
  await ingest.nats.kill('SIGSTOP')
  t.equal(await send(), 503)
  t.same(await health(), [503, ['nats', 'spool']])

  await ingest.nats.kill('SIGCONT')
  await waitFor(async () => await send() === 200)
  t.same(await health(), [200, []])
})
