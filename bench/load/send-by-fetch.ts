import { type LoadResult } from './send-requests.ts'

/**
 * Sends JSON bodies as SDKs do, by `fetch`, so many at a time. The client costs several times what the server does,
 * so this shows what a client notices rather than what the server can do.
 */
export async function sendByFetch (
  url: string, bodies: readonly string[], concurrency: number
): Promise<LoadResult> {
  const result: LoadResult = { requests: 0, failed: 0, durationMs: 0, latenciesMs: [] }
  const headers = { 'content-type': 'application/json' }
  let next = 0
  const startedAt = performance.now()
  await Promise.all(Array.from({ length: concurrency }, async () => {
    for (let index = next++; index < bodies.length; index = next++) {
      const sentAt = performance.now()
      const response = await fetch(url, { method: 'POST', headers, body: bodies[index] as string })
      await response.arrayBuffer()
      result.latenciesMs.push(performance.now() - sentAt)
      result.requests++
      if (response.status !== 200) result.failed++
    }
  }))
  result.durationMs = performance.now() - startedAt
  return result
}
