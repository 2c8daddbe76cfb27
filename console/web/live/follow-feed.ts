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
    let ended = new AbortController()
    const follow = (): void => {
      ended.abort()
      ended = new AbortController()
      if (document.visibilityState !== 'visible') setFeed({ state: 'hidden', error: undefined })
      else void followAgain(path, ended.signal, listener, setFeed)
    }
    follow()
    document.addEventListener('visibilitychange', follow)
    return () => {
      document.removeEventListener('visibilitychange', follow)
      ended.abort()
    }
  }, [path])
  return feed
}

async function followAgain (
  path: string, signal: AbortSignal, listener: { current: { batch: (batch: FeedBatch) => void } },
  show: (feed: Feed) => void
): Promise<void> {
  while (!signal.aborted) {
    show({ state: 'connecting', error: undefined })
    let error: ApiError | undefined
    try {
      const body = await openStream(path, signal)
      show({ state: 'open', error })
      for await (const batch of readBatches(body)) listener.current.batch(batch)
    } catch (cause) {
      // What breaks in the middle is tried again like what ended.
      if (cause instanceof ApiError) error = cause
    }
    if (signal.aborted) return
    show({ state: 'ended', error })
    await new Promise((resolve) => setTimeout(resolve, error === undefined ? AGAIN_MS : REFUSED_MS))
  }
}

/** The messages of a stream of server-sent events, a line each; comments, which only keep it alive, are left out. */
async function * readBatches (body: ReadableStream<Uint8Array<ArrayBuffer>>): AsyncGenerator<FeedBatch> {
  for await (const lines of readLines(body)) {
    for (const line of lines) if (line.startsWith('data: ')) yield JSON.parse(line.slice(6)) as FeedBatch
  }
}
