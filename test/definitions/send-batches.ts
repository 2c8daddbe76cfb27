import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import { type Stack } from '../start-stack.ts'

const BATCH = 1000
const CONCURRENCY = 4
const compress = promisify(gzip)

/**
 * Makes events and sends them in compressed batches, every tenth batch twice, as SDKs do that did not hear the answer.
 *
 * @param make  Makes the next events; each has a uuid of its own.
 * @throws when a batch is not answered with 200.
 */
export async function sendBatches (stack: Stack, make: (count: number) => object[], count: number): Promise<void> {
  const underway = new Set<Promise<void>>()
  for (let sent = 0; sent < count; sent += BATCH) {
    const batch = make(Math.min(BATCH, count - sent))
    const body = await compress(JSON.stringify({ api_key: stack.projectApiKey, batch }), { level: 1 })
    const copies = sent % (10 * BATCH) === 0 ? [body, body] : [body]
    const work = Promise.all(copies.map(async (copy) => await send(stack, copy))).then(() => { underway.delete(work) })
    underway.add(work)
    if (underway.size >= CONCURRENCY) await Promise.race(underway)
  }
  await Promise.all(underway)
}

async function send ({ url }: Stack, body: Buffer): Promise<void> {
  const headers = { 'content-type': 'application/json', 'content-encoding': 'gzip' }
  const response = await fetch(`${url}/batch/`, { method: 'POST', body, headers })
  if (response.status !== 200) throw new Error(`${response.status} ${await response.text()}`)
}
