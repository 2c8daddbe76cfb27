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

/** Where a page begins, as the link to it says; empty for the first one. */
export interface PageStart extends Record<string, string | undefined> { offset?: string, after?: string }

/** The way to the pages before and after a page; undefined on the first and the last. */
interface Ways { onBack: (() => void) | undefined, onNext: (() => void) | undefined }

/** A page of a list, and the items before it. */
export interface Pages<T> extends Loaded<T>, Ways { offset: number }

/** Fetches a list by pages, starting over whenever the key changes. By cursors, nothing is missed while others add. */
export function usePages<T extends { next: string | null }> (
  key: string, fetch: (start: PageStart, signal: AbortSignal) => Promise<T>, options?: { everyMs?: number }
): Pages<T> {
  const [at, setAt] = useState<{ key: string, starts: PageStart[] }>({ key, starts: [] })
  const starts = at.key === key ? at.starts : []
  const start = starts.at(-1) ?? {}
  const loaded = useLoaded(`${key} ${toQuery(start)}`, async (signal) => await fetch(start, signal), options)
  const next = loaded.value?.next ?? undefined
  return {
    ...loaded,
    offset: Number(start.offset ?? 0),
    onBack: starts.length === 0 ? undefined : () => setAt({ key, starts: starts.slice(0, -1) }),
    onNext: next === undefined ? undefined : () => setAt({ key, starts: [...starts, readStart(next)] })
  }
}

function readStart (link: string): PageStart {
  return Object.fromEntries([...new URL(link).searchParams].filter(([name]) => name === 'offset' || name === 'after'))
}

export function useList<T> (path: string, query: RequestOptions['query'] = {}, options?: { everyMs?: number }): Pages<Page<T>> {
  return usePages(`${path}${toQuery(query)}`, async (start, signal) =>
    await request<Page<T>>(path, { query: { ...query, limit: PAGE, ...start }, signal }), options)
}

interface PagedProps<T> {
  of: Pages<Page<T>>
  what: string
  empty: ComponentChildren
  children: (results: T[], page: Page<T>) => ComponentChildren
}

/** A page of a list in one of its states, below the way to the other pages. */
export function Paged<T> ({ of, what, empty, children }: PagedProps<T>) {
  return (
    <Show of={of} what={what}>
      {(page) => page.count === 0
        ? empty
        : <><Pager of={of}><Place offset={of.offset} shown={page.results.length} count={page.count} /></Pager>{children(page.results, page)}</>}
    </Show>
  )
}

/** Which rows of how many are shown. */
export function Place ({ offset, shown, count }: { offset: number, shown: number, count: number }) {
  return <span role='status'>{formatCount(offset + 1)} to {formatCount(offset + shown)} of {formatCount(count)}</span>
}

/** The way to the pages before and after, when there are any. */
export function Pager (
  { of: { onBack, onNext }, words = ['Previous', 'Next'], children }: { of: Ways, words?: [string, string], children?: ComponentChildren }
) {
  return (
    <div class='toolbar'>
      {children}
      {(onBack ?? onNext) !== undefined && (
        <>
          <button type='button' aria-disabled={onBack === undefined} onClick={onBack}>{words[0]}</button>
          <button type='button' aria-disabled={onNext === undefined} onClick={onNext}>{words[1]}</button>
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
