import { readFile, stat } from 'node:fs/promises'
import path from 'node:path'
import t from 'tap'
import { startStackOnSharedStores } from '../start-stack.ts'
import { startTestNats } from '../support/test-processes.ts'
import { waitFor } from '../support/wait-for.ts'

const TIERS = ['ingest', 'pipeline', 'api'] as const

/** Long enough for every loop that tries again to have failed many times, in milliseconds. */
const OUTAGE_MS = 8000

/** Of all tiers: the first failure of each loop. Measured: 2 KB; with a line for every failure, 22 KB. */
const MAX_LOG_BYTES = 8000

t.test('an outage of the stream is some lines in the log, without stacks', async (t) => {
  const nats = await startTestNats(t)
  const stack = await startStackOnSharedStores(t, { NATS_URL: nats.url })
  const fileOf = (tier: string): string => path.join(stack.dataDir, 'logs', `${tier}.log`)
  const sizes = async (): Promise<number[]> =>
    await Promise.all(TIERS.map(async (tier) => (await stat(fileOf(tier))).size))
  const send = async (): Promise<number> => (await fetch(`${stack.url}/capture/`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ api_key: stack.projectApiKey, event: 'seen', distinct_id: 'u' })
  })).status

  const before = await sizes()
  await nats.kill('SIGKILL')
  const killedAt = performance.now()
  let outageMs = 0
  await waitFor(async () => {
    const status = await send()
    if (status !== 200) t.fail(`answered with ${status}`)
    outageMs = performance.now() - killedAt
    return outageMs > OUTAGE_MS
  }, { everyMs: 200 })
  const after = await sizes()

  const written = await Promise.all(TIERS.map(async (tier, index) =>
    (await readFile(fileOf(tier), 'utf8')).slice(before[index]).trim()))
  const bytes = after.reduce((sum, size, index) => sum + size - before[index]!, 0)
  t.comment(`${bytes} bytes: ${TIERS.map((tier, index) => `${tier} ${after[index]! - before[index]!}`).join(', ')}`)
  t.ok(bytes > 0 && bytes < MAX_LOG_BYTES * outageMs / OUTAGE_MS, `${bytes} bytes`)
  t.notMatch(written.join('\n'), /"stack"/)
  await nats.restart()
})
