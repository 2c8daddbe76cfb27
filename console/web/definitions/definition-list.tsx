import type { ComponentChildren } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { request, type Page } from '../api-client.ts'
import { type Loaded, useLoaded } from '../load.ts'
import { PAGE, Pager, Search } from '../paging.tsx'
import { projectId, query, setQuery } from '../router.ts'
import { Empty, Failed, Show } from '../states.tsx'

export interface DefinitionListProps<T> {
  title: string
  /** Part of the path of the API: `event_definitions`. */
  resource: string
  /** Order by default, and those to choose from with their names. */
  orderings?: Record<string, string>
  hint: ComponentChildren
  head: ComponentChildren
  row: (definition: T, onChanged: (changed: T) => void, volumes: Volumes | undefined) => ComponentChildren
  /** Whether the API counts them by day. */
  hasVolumes?: boolean
}

/** Events of each of the last 30 days, by the id of their definition. */
export type Volumes = ReadonlyMap<string, readonly number[]>

/** A list of definitions with search, order and pages; all three are in the address. */
export function DefinitionList<T extends { id: string, name: string }> (props: DefinitionListProps<T>) {
  const { title, resource, orderings, hint } = props
  const search = query.value.get('search') ?? ''
  const ordering = query.value.get('ordering') ?? Object.keys(orderings ?? {})[0] ?? ''
  const [offset, setOffset] = useState(0)
  useEffect(() => { setOffset(0) }, [search, ordering, projectId.value])
  const page = useLoaded(`${resource} ${projectId.value} ${search} ${ordering} ${offset}`, async (signal) =>
    await request<Page<T>>(`/api/projects/${projectId.value}/${resource}/`, { query: { search, ordering, limit: PAGE, offset }, signal }))
  return (
    <section>
      <h1>{title}</h1>
      <p class='hint'>{hint}</p>
      <div class='toolbar'>
        <Search value={search} label={`Search ${title.toLowerCase()}`} />
        {orderings !== undefined && (
          <label>
            Order{' '}
            <select value={ordering} onChange={(event) => setQuery({ ordering: event.currentTarget.value })}>
              {Object.entries(orderings).map(([value, name]) => <option key={value} value={value}>{name}</option>)}
            </select>
          </label>
        )}
      </div>
      <Show of={page} what={title}>
        {(value) => value.count === 0
          ? <Nothing title={title} search={search} />
          : <Rows {...props} page={page} offset={offset} onOffset={setOffset} />}
      </Show>
    </section>
  )
}

async function loadVolumes (resource: string, ids: string, signal: AbortSignal): Promise<Volumes> {
  const { results } = await request<{ results: { id: string, volumes: number[] }[] }>(
    `/api/projects/${projectId.value}/${resource}/volumes/`, { query: { ids }, signal })
  return new Map(results.map(({ id, volumes }) => [id, volumes]))
}

function Nothing ({ title, search }: { title: string, search: string }) {
  return (
    <Empty>
      <p>{search === ''
        ? `There are no ${title.toLowerCase()} yet: they appear some seconds after the first event.`
        : `No name has all these words: ${search}`}
      </p>
    </Empty>
  )
}

function Rows<T extends { id: string, name: string }> (
  { title, resource, head, row, hasVolumes = false, page, offset, onOffset }:
    DefinitionListProps<T> & { page: Loaded<Page<T>>, offset: number, onOffset: (offset: number) => void }
) {
  const { results } = page.value!
  const [changed, setChanged] = useState<ReadonlyMap<string, T>>(new Map())
  const ids = hasVolumes ? results.map(({ id }) => id).join() : ''
  const volumes = useLoaded(ids, async (signal) => ids === '' ? new Map() : await loadVolumes(resource, ids, signal))
  return (
    <>
      <Pager page={page.value!} offset={offset} onOffset={onOffset} />
      {volumes.error !== undefined && <Failed error={volumes.error} onRetry={volumes.reload} />}
      <div class='scroll' role='region' aria-label={title} tabIndex={0}>
        <table>
          <thead>{head}</thead>
          <tbody>
            {results.map((each) => row(changed.get(each.id) ?? each, (now) => setChanged(new Map([...changed, [now.id, now]])), volumes.value))}
          </tbody>
        </table>
      </div>
    </>
  )
}
