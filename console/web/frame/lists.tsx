/** What the lists of a project share: a table by its columns, the list with its search, and the page of one. */
import type { ComponentChildren } from 'preact'
import { type Page, request } from '../api-client.ts'
import { formatCount, showText } from '../format.ts'
import type { Loaded } from '../load.ts'
import { Paged, type Pages, Search } from '../paging.tsx'
import { linkTo, projectId, query } from '../router.ts'
import { currentSession } from '../session.ts'
import { Empty, Show, Table } from '../states.tsx'

/** A column: its title as {@link Table} takes it, the cell of an item, and the class of its cells. */
export type Column<T> = false | readonly [title: string, cell: (item: T, index: number) => ComponentChildren, style?: string]

interface RowsProps<T> {
  label: string
  of: readonly T[]
  columns: readonly Column<T>[]
  /** Tells rows apart when the list changes; default: by their place. */
  keyOf?: ((item: T) => string | number) | undefined
  class?: string
  styleOf?: (item: T) => string
}

/** A table with a row for each item; numbers are counts. */
export function Rows<T> ({ label, of, columns, keyOf, class: style, styleOf }: RowsProps<T>) {
  const shown = columns.filter((column) => column !== false)
  return (
    <Table label={label} head={shown.map(([title]) => title)} class={style}>
      {of.map((item, index) => (
        <tr key={keyOf?.(item) ?? index} class={styleOf?.(item)}>
          {shown.map(([title, cell, style = title.startsWith('#') ? 'number' : undefined]) => {
            const content = cell(item, index)
            return <td key={title} class={style}>{typeof content === 'number' ? formatCount(content) : content}</td>
          })}
        </tr>
      ))}
    </Table>
  )
}

export const SDK_COLUMNS: Column<{ lib: string, lib_version: string }>[] = [
  ['SDK', ({ lib }) => lib === '' ? 'not said' : showText(lib, 60), 'value'],
  ['Version', ({ lib_version: version }) => showText(version, 40), 'value']
]

interface ListScreenProps<T> extends Pick<RowsProps<T>, 'columns' | 'keyOf' | 'class'> {
  title: string
  hint?: ComponentChildren
  of: Pages<Page<T>>
  tools?: ComponentChildren
  /** Shown when there is nothing, and when nothing was found; without the second there is no search. */
  none: ComponentChildren
  unfound?: ComponentChildren
  children?: ComponentChildren
}

/** A list of a project, whose search is in the address. */
export function ListScreen<T> ({ title, hint, of, tools, none, unfound, children, ...rows }: ListScreenProps<T>) {
  const empty = unfound === undefined || searched() === '' ? none : unfound
  return (
    <section>
      <h1>{title}</h1>
      {hint !== undefined && <p class='hint'>{hint}</p>}
      <div class='toolbar'>
        {unfound !== undefined && <Search label={`Search ${title.toLowerCase()}`} />}
        {tools}
      </div>
      <Paged of={of} what={title} empty={<Empty>{typeof empty === 'string' ? <p>{empty}</p> : empty}</Empty>}>
        {(results) => <Rows label={title} of={results} {...rows} />}
      </Paged>
      {children}
    </section>
  )
}

/** A button of a row that opens a dialog; the name of the row is for screen readers. */
export function RowAction ({ of, title, onPress }: { of: string, title: string, onPress: () => void }) {
  return <button type='button' onClick={onPress}>{title}<span class='hidden'> {showText(of, 63)}</span> …</button>
}

export function searched (): string {
  return query.value.get('search') ?? ''
}

interface OneOfProps<T> {
  /** The last part of the path of the list, and its title. */
  home: string
  title: string
  of: Loaded<T>
  what: string
  children: (value: T) => ComponentChildren
}

export function OneOf<T> ({ home, title, of, what, children }: OneOfProps<T>) {
  return (
    <section>
      <BackTo home={home} title={title} />
      <Show of={of} what={what}>{children}</Show>
    </section>
  )
}

export function BackTo ({ home, title }: { home: string, title: string }) {
  return <p><a {...linkTo(`/projects/${projectId.value}/${home}`)}>{title}</a></p>
}

/** More are found by none of these lists. */
const LISTED = 1000

const RESOURCES = {
  question: ['questions', ''], saved_query: ['saved_queries', ' (saved query)'], board: ['boards', ' (board)']
} as const

interface Named { id: number, name: string, definition?: { kind: string } }

/**
 * What boards and alerts may be about: stored objects of these kinds, as `kind id` with a name for people. Saved queries
 * only for keys of all projects.
 *
 * @param isWanted  Called with the kind of a question, and with undefined for everything else.
 */
export async function listSubjects (
  kinds: readonly (keyof typeof RESOURCES)[], signal: AbortSignal, isWanted: (question: string | undefined) => boolean = () => true
): Promise<[key: string, name: string][]> {
  const lists = await Promise.all(kinds.filter((kind) => kind !== 'saved_query' || currentSession().all_projects).map(async (kind) => {
    const [resource, words] = RESOURCES[kind]
    const { results } = await request<Page<Named>>(`/api/projects/${projectId.value}/${resource}/`, { query: { limit: LISTED }, signal })
    return results.filter(({ definition }) => isWanted(definition?.kind)).map(({ id, name }): [string, string] => [`${kind} ${id}`, `${showText(name, 80)}${words}`])
  }))
  return lists.flat()
}
