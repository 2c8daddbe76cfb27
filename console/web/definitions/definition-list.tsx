import type { ComponentChildren } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { request, type Page } from '../api-client.ts'
import { formatCount, showText, UNKNOWN } from '../format.ts'
import { useLoaded } from '../load.ts'
import { Paged, Search, usePages } from '../paging.tsx'
import { linkTo, projectId, query, setQuery } from '../router.ts'
import { type Columns, Empty, Failed, Select, Sparkline, Table } from '../states.tsx'
import { ChangeDialog } from './change-dialog.tsx'
import type { Noted } from './definition.ts'

export interface DefinitionListProps<T> {
  title: string
  /** Part of the path of the API: `event_definitions`. */
  resource: string
  /** Order by default, and those to choose from with their names. */
  orderings?: Record<string, string>
  hint: ComponentChildren
  head: Columns
  /** The cells of a definition. */
  row: (definition: T, onChanged: (changed: T) => void, volumes: Volumes | undefined) => ComponentChildren
  /** Whether they may be changed. */
  mayWrite: boolean
  /** Further parameters of the list. */
  filter?: Record<string, string>
  /** Further choices above the list. */
  choices?: ComponentChildren
}

/** Events of each of the last 30 days, by the id of their definition. */
export type Volumes = ReadonlyMap<string, readonly number[]>

/** A list of definitions with search, order and pages; all three are in the address. */
export function DefinitionList<T extends Noted> (props: DefinitionListProps<T>) {
  const { title, resource, orderings, hint, filter, choices } = props
  const showsHidden = query.value.get('hidden') === 'shown'
  const further = { ...filter, exclude_hidden: showsHidden ? undefined : 'true' }
  const search = query.value.get('search') ?? ''
  const ordering = query.value.get('ordering') ?? Object.keys(orderings ?? {})[0] ?? ''
  const definitions = usePages(`${resource} ${projectId.value} ${search} ${ordering} ${JSON.stringify(further)}`, async (page, signal) =>
    await request<Page<T>>(`/api/projects/${projectId.value}/${resource}/`, { query: { search, ordering, ...page, ...further }, signal }))
  return (
    <section>
      <h1>{title}</h1>
      <p class='hint'>{hint}</p>
      <div class='toolbar'>
        <Search label={`Search ${title.toLowerCase()}`} />
        {orderings !== undefined && (
          <Select label='Order' value={ordering} options={Object.entries(orderings)} onChange={(value) => setQuery({ ordering: value })} />
        )}
        {choices}
        <label>
          <input type='checkbox' checked={showsHidden} onChange={(event) => setQuery({ hidden: event.currentTarget.checked ? 'shown' : '' })} /> Show hidden
        </label>
      </div>
      <Paged of={definitions} what={title} empty={<Nothing title={title} search={search} />}>
        {(results) => <Rows {...props} results={results} reload={definitions.reload} />}
      </Paged>
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

function Rows<T extends Noted> (
  { title, resource, head, row, mayWrite, results, reload }: DefinitionListProps<T> & { results: readonly T[], reload: () => void }
) {
  const [changed, setChanged] = useState<ReadonlyMap<string, T>>(new Map())
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set())
  const [isChanging, setChanging] = useState(false)
  const ids = results.map(({ id }) => id).join()
  // Only what is on the page is ever changed.
  const here = results.filter(({ id }) => chosen.has(id))
  // What was changed here is older than a page that was read after it.
  useEffect(() => { setChanged(new Map()) }, [results])
  const volumes = useLoaded(ids, async (signal) => ids === '' ? new Map() : await loadVolumes(resource, ids, signal))
  return (
    <>
      {mayWrite && (
        <p class='toolbar'>
          <button type='button' aria-disabled={here.length === 0} onClick={() => { if (here.length > 0) setChanging(true) }}>Change {here.length === 0 ? 'chosen' : `${here.length} chosen`} …</button>
        </p>
      )}
      {isChanging && (
        <ChangeDialog resource={resource} definitions={here} onClose={() => setChanging(false)} onChanged={reload} />
      )}
      {volumes.error !== undefined && <Failed error={volumes.error} onRetry={volumes.reload} />}
      <Table
        label={title} head={head} class='dense'
        first={mayWrite && (
          <th scope='col'>
            <Check
              label='Choose all on this page' isChecked={here.length === results.length}
              onChange={(isChecked) => setChosen(new Set(isChecked ? results.map(({ id }) => id) : []))}
            />
          </th>
        )}
      >
        {results.map((each) => (
          <tr key={each.id}>
            {mayWrite && (
              <td>
                <Check
                  label={`Choose ${showText(each.name, 60)}`} isChecked={chosen.has(each.id)}
                  onChange={(isChecked) => setChosen(new Set(isChecked ? [...chosen, each.id] : [...chosen].filter((id) => id !== each.id)))}
                />
              </td>
            )}
            {row(changed.get(each.id) ?? each, (now) => setChanged(new Map([...changed, [now.id, now]])), volumes.value)}
          </tr>
        ))}
      </Table>
    </>
  )
}

function Check ({ label, isChecked, onChange }: { label: string, isChecked: boolean, onChange: (isChecked: boolean) => void }) {
  return <input type='checkbox' aria-label={label} checked={isChecked} onChange={(event) => onChange(event.currentTarget.checked)} />
}

/** The name of a definition, which leads to all that is known of it, with what people say about it. */
export function NameCell ({ definition, screen }: { definition: Noted, screen: 'events' | 'properties' }) {
  const { id, name, description, verified, hidden } = definition
  return (
    <td class='wide'>
      <a {...linkTo(`/projects/${projectId.value}/${screen}/${id}`)}>{showText(name)}</a>
      {verified && <> <span class='tag'>verified</span></>}
      {hidden && <> <span class='tag'>hidden</span></>}
      {description !== '' && <div class='hint'>{showText(description, 120)}</div>}
    </td>
  )
}

/** Events of each of the last 30 days as a picture. */
export function ByDay ({ volumes }: { volumes: readonly number[] | undefined }) {
  if (volumes === undefined) return <>{UNKNOWN}</>
  return <Sparkline values={volumes} label={`${formatCount(volumes.at(-1))} today, at most ${formatCount(Math.max(...volumes))} on a day`} />
}
