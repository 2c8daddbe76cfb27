import type { ComponentChildren } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { type Page, request, type RequestOptions, toQuery } from './api-client.ts'
import { formatCount } from './format.ts'
import { type Loaded, useAnswer, useLoaded } from './load.ts'
import { projectId, query, setQuery } from './router.ts'
import { Show } from './states.tsx'

export const PAGE = 50

/** Debounce of typing, ms. */
const TYPING_MS = 150

/**
 * Text that is typed, and a parameter of the address when the typing pauses.
 *
 * @returns the text, which is the address's whenever nobody is typing, and a function that takes what was typed.
 */
export function useTypedParameter (name: string): [text: string, type: (text: string) => void] {
  const [typed, setTyped] = useState<string>()
  useEffect(() => {
    if (typed === undefined) return
    const timer = setTimeout(() => {
      setQuery({ [name]: typed })
      setTyped(undefined)
    }, TYPING_MS)
    return () => clearTimeout(timer)
  }, [typed])
  return [typed ?? query.value.get(name) ?? '', setTyped]
}

/** A search whose text is in the address. */
export function Search ({ label }: { label: string }) {
  const [text, type] = useTypedParameter('search')
  return <input type='search' aria-label={label} placeholder={label} value={text} onInput={(event) => type(event.currentTarget.value)} />
}

/** A page of a list, and the way to the others. */
export interface Pages<T> extends Loaded<Page<T>> {
  offset: number
  onOffset: (offset: number) => void
}

/** Fetches a list by pages, starting over whenever the key changes. */
export function usePages<T> (
  key: string, fetch: (page: { limit: number, offset: number }, signal: AbortSignal) => Promise<Page<T>>, options?: { everyMs?: number }
): Pages<T> {
  const [at, setAt] = useState({ key, offset: 0 })
  const offset = at.key === key ? at.offset : 0
  const loaded = useLoaded(`${key} ${offset}`, async (signal) => await fetch({ limit: PAGE, offset }, signal), options)
  return { ...loaded, offset, onOffset: (offset) => setAt({ key, offset }) }
}

export function useList<T> (path: string, query: RequestOptions['query'] = {}, options?: { everyMs?: number }): Pages<T> {
  return usePages(`${path}${toQuery(query)}`, async (page, signal) => await request<Page<T>>(path, { query: { ...query, ...page }, signal }), options)
}

interface PagedProps<T> {
  of: Pages<T>
  what: string
  empty: ComponentChildren
  children: (results: T[], page: Page<T>) => ComponentChildren
}

/** A page of a list in one of its states, below the way to the other pages. */
export function Paged<T> ({ of, what, empty, children }: PagedProps<T>) {
  return (
    <Show of={of} what={what}>
      {(page) => page.count === 0 ? empty : <><Pager page={page} offset={of.offset} onOffset={of.onOffset} />{children(page.results, page)}</>}
    </Show>
  )
}

interface PagerProps {
  page: { count: number, next: string | null, results: readonly unknown[] }
  offset: number
  onOffset: (offset: number) => void
  children?: ComponentChildren
}

/** Which rows of how many are shown, and the way to the others when there are any. */
export function Pager ({ page: { count, next, results }, offset, onOffset, children }: PagerProps) {
  return (
    <div class='toolbar'>
      <span role='status'>{formatCount(offset + 1)} to {formatCount(offset + results.length)} of {formatCount(count)}</span>
      {(offset > 0 || next !== null) && (
        <>
          <button type='button' disabled={offset === 0} onClick={() => onOffset(Math.max(0, offset - PAGE))}>Previous</button>
          <button type='button' disabled={next === null} onClick={() => onOffset(offset + PAGE)}>Next</button>
        </>
      )}
      {children}
    </div>
  )
}

/** A page of a list that is not counted: the others are reached by cursors. */
export interface CursorPages<T> extends Loaded<T> {
  /** To the page before; undefined on the first. */
  onNewer: (() => void) | undefined
  onOlder: (() => void) | undefined
}

/** Fetches a list by cursors, starting over whenever the key changes. */
export function useCursorPages<T extends { next: string | null }> (
  key: string, fetch: (after: string | undefined, signal: AbortSignal) => Promise<T>
): CursorPages<T> {
  const [at, setAt] = useState<{ key: string, cursors: string[] }>({ key, cursors: [] })
  const cursors = at.key === key ? at.cursors : []
  const loaded = useLoaded(`${key} ${cursors.at(-1) ?? ''}`, async (signal) => await fetch(cursors.at(-1), signal))
  const next = loaded.value?.next == null ? null : new URL(loaded.value.next).searchParams.get('after')
  return {
    ...loaded,
    onNewer: cursors.length === 0 ? undefined : () => setAt({ key, cursors: cursors.slice(0, -1) }),
    onOlder: next === null ? undefined : () => setAt({ key, cursors: [...cursors, next] })
  }
}

/** The way to the pages before and after, when there are any. */
export function OlderNewer ({ of: { onNewer, onOlder }, children }: { of: CursorPages<unknown>, children?: ComponentChildren }) {
  return (
    <div class='toolbar'>
      {children}
      {(onNewer !== undefined || onOlder !== undefined) && (
        <>
          <button type='button' aria-disabled={onNewer === undefined} onClick={onNewer}>Newer</button>
          <button type='button' aria-disabled={onOlder === undefined} onClick={onOlder}>Older</button>
        </>
      )}
    </div>
  )
}

/** A filter that is typed, and a parameter of the address. */
export function TypedFilter ({ name, label, list }: { name: string, label: string, list?: string | undefined }) {
  const [text, type] = useTypedParameter(name)
  return <label>{label} <input value={text} maxLength={400} list={list} onInput={(event) => type(event.currentTarget.value)} /></label>
}

/** Names of stored events to choose from, for inputs with the list `event-names`. */
export function EventNames ({ search }: { search: string }) {
  const names = useAnswer<Page<{ name: string }>>(`/api/projects/${projectId.value}/event_definitions/`, { search, limit: 20 })
  return <datalist id='event-names'>{names.value?.results.map(({ name }) => <option key={name} value={name} />)}</datalist>
}
