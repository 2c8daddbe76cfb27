import { useEffect, useRef, useState } from 'preact/hooks'
import { ApiError, request, type RequestOptions, toQuery } from './api-client.ts'

/** State of a fetched value: the previous value stays while it is fetched again. */
export interface Loaded<T> {
  value: T | undefined
  error: ApiError | undefined
  isLoading: boolean
  reload: () => void
}

interface State<T> {
  key: string
  value?: T
  error?: ApiError
  isLoading: boolean
}

/**
 * Fetches something for a component, again whenever the key changes.
 *
 * @param key    Identifies the request: the answer to an earlier key is dropped.
 * @param fetch  Gets a signal that ends the request when nobody waits for it any more.
 * @param options.everyMs  Refresh interval while the tab is visible.
 */
export function useLoaded<T> (
  key: string, fetch: (signal: AbortSignal) => Promise<T>, { everyMs }: { everyMs?: number } = {}
): Loaded<T> {
  const [state, setState] = useState<State<T>>({ key, isLoading: true })
  const [round, setRound] = useState(0)
  const fetching = useRef(fetch)
  fetching.current = fetch

  useEffect(() => {
    const ended = new AbortController()
    let timer: ReturnType<typeof setTimeout> | undefined

    async function run (): Promise<void> {
      try {
        const value = await fetching.current(ended.signal)
        if (!ended.signal.aborted) setState({ key, value, isLoading: false })
      } catch (error) {
        if (ended.signal.aborted) return
        const failed = { error: asApiError(error), isLoading: false }
        setState((before) => before.key === key ? { ...before, ...failed } : { key, ...failed })
      }
      if (everyMs !== undefined && !ended.signal.aborted) timer = setTimeout(() => { void runWhenVisible() }, everyMs)
    }

    async function runWhenVisible (): Promise<void> {
      if (document.visibilityState === 'visible') {
        await run()
        return
      }
      document.addEventListener('visibilitychange', () => { void runWhenVisible() }, { once: true, signal: ended.signal })
    }

    setState((before) => before.key === key ? { ...before, isLoading: true } : { key, isLoading: true })
    void run()
    return () => {
      ended.abort()
      clearTimeout(timer)
    }
  }, [key, round, everyMs])

  const isCurrent = state.key === key
  return {
    value: isCurrent ? state.value : undefined,
    error: isCurrent ? state.error : undefined,
    isLoading: !isCurrent || state.isLoading,
    reload: () => setRound((before) => before + 1)
  }
}

/** Fetches what the API answers at a path, again whenever that or the query changes. */
export function useAnswer<T> (path: string, query?: RequestOptions['query'], options?: { everyMs?: number }): Loaded<T> {
  return useLoaded(`${path}${toQuery(query)}`, async (signal) => await request<T>(path, { query, signal }), options)
}

/** A bug of the console is shown like a failure of the server, and not hidden. */
export function asApiError (error: unknown): ApiError {
  return error instanceof ApiError ? error : new ApiError(0, 'console_error', `The console failed: ${String(error)}`)
}
