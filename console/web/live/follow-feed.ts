import { useEffect, useRef, useState } from 'preact/hooks'
import { ApiError, openStream, readLines } from '../api-client.ts'
import type { FeedBatch } from './live-log.ts'

/** How the feed is: `hidden` while nobody can see the page, `ended` between two tries. */
export type FeedState = 'connecting' | 'open' | 'hidden' | 'ended'

export interface Feed {
  state: FeedState
  /** Why the last try failed; undefined while it goes on. */
  error: ApiError | undefined
}

/** Pause before the next try, in milliseconds: of a feed that ended, and of one that was refused. */
const AGAIN_MS = 1000
const REFUSED_MS = 5000

/**
 * Follows a feed while the page can be seen, again and again.
 *
 * @param path  Of the feed; another path begins another feed.
 * @param on.batch  Something came.
 */
export function useFeed (path: string, on: { batch: (batch: FeedBatch) => void }): Feed {
  const [feed, setFeed] = useState<Feed>({ state: 'connecting', error: undefined })
  const listener = useRef(on)
  listener.current = on

  useEffect(() => {
    const ended = new AbortController()
    const { signal } = ended
    void (async () => {
      while (!signal.aborted) {
        if (document.visibilityState !== 'visible') {
          setFeed({ state: 'hidden', error: undefined })
          await nextChange(signal)
          continue
        }
        setFeed((before) => ({ ...before, state: 'connecting' }))
        const error = await followOnce(path, signal, listener, () => setFeed({ state: 'open', error: undefined }))
        if (signal.aborted || document.visibilityState !== 'visible') continue
        setFeed({ state: 'ended', error })
        await pause(error === undefined ? AGAIN_MS : REFUSED_MS, signal)
      }
    })()
    return () => ended.abort()
  }, [path])
  return feed
}

/** Follows a feed to its end, or until the page is hidden. @returns why it could not; undefined when it did. */
async function followOnce (
  path: string, signal: AbortSignal,
  listener: { current: { batch: (batch: FeedBatch) => void } }, onOpen: () => void
): Promise<ApiError | undefined> {
  const ended = new AbortController()
  const end = (): void => ended.abort()
  const endWhenHidden = (): void => { if (document.visibilityState !== 'visible') end() }
  signal.addEventListener('abort', end)
  document.addEventListener('visibilitychange', endWhenHidden)
  try {
    const body = await openStream(path, ended.signal)
    onOpen()
    for await (const batch of readBatches(body)) listener.current.batch(batch)
    return undefined
  } catch (error) {
    if (ended.signal.aborted) return undefined
    // What breaks in the middle is tried again like what ended.
    return error instanceof ApiError ? error : undefined
  } finally {
    end()
    signal.removeEventListener('abort', end)
    document.removeEventListener('visibilitychange', endWhenHidden)
  }
}

/** The messages of a stream of server-sent events, a line each; comments, which only keep it alive, are left out. */
export async function * readBatches (body: ReadableStream<Uint8Array<ArrayBuffer>>): AsyncGenerator<FeedBatch> {
  for await (const lines of readLines(body)) {
    for (const line of lines) if (line.startsWith('data: ')) yield JSON.parse(line.slice(6)) as FeedBatch
  }
}

async function nextChange (signal: AbortSignal): Promise<void> {
  await new Promise<void>((resolve) => {
    document.addEventListener('visibilitychange', () => resolve(), { once: true, signal })
    signal.addEventListener('abort', () => resolve(), { once: true })
  })
}

async function pause (ms: number, signal: AbortSignal): Promise<void> {
  await new Promise<void>((resolve) => {
    const timer = setTimeout(resolve, ms)
    signal.addEventListener('abort', () => { clearTimeout(timer); resolve() }, { once: true })
  })
}
