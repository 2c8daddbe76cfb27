import { useState } from 'preact/hooks'
import type { Schema } from '../../api-types.ts'
import { type Page, request } from '../api-client.ts'
import { TextsDialog } from '../confirm.tsx'
import { formatAgo, formatCount, formatUtc, showText } from '../format.ts'
import type { Loaded } from '../load.ts'
import { changerOf } from '../frame/change-stored.ts'
import { linkTo, projectId } from '../router.ts'
import { Checkbox, Show } from '../states.tsx'

export type SavedQuery = Schema<'SavedQuery'>

export type SavedQueryFields = Pick<SavedQuery, 'query' | 'parameters' | 'chart'>

export function savedQueriesPath (id?: number): string {
  return `/api/projects/${projectId.value}/saved_queries/${id === undefined ? '' : `${id}/`}`
}

/** Saved queries of a list at once; a search finds the others. */
export const LISTED = 100

export function SavedQueryList ({ list, current }: { list: Loaded<Page<SavedQuery>>, current: number | undefined }) {
  return (
    <Show of={list} what='Saved queries'>
      {({ results, count }) => results.length === 0
        ? <p class='hint'>No saved queries yet. Save a query to give it a name and a link.</p>
        : (
          <>
            <ul class='names'>
              {results.map(({ id, name, created_by: by, updated_at: at }) => (
                <li key={id}>
                  <a {...linkTo(`/projects/${projectId.value}/sql?saved=${id}`)} aria-current={id === current ? 'true' : undefined}>{showText(name, 80)}</a>
                  <span class='hint' title={formatUtc(at)}>{showText(by?.first_name !== undefined && by.first_name !== '' ? by.first_name : by?.email ?? 'nobody', 40)}, {formatAgo(at, Date.now())}</span>
                </li>
              ))}
            </ul>
            {count > results.length && <p class='hint'>{formatCount(count - results.length)} more: search for them.</p>}
          </>
          )}
    </Show>
  )
}

interface SaveDialogProps {
  fields: SavedQueryFields
  /** The one that was opened; absent: a new one. */
  saved: SavedQuery | undefined
  onSaved: (saved: SavedQuery) => void
  onClose: () => void
}

/** Saves a query under a name: a new one, or changes the one that is open. */
export function SaveDialog ({ fields, saved, ...props }: SaveDialogProps) {
  const [asNew, setAsNew] = useState(false)
  const [change] = useState(() => saved && changerOf<SavedQuery>(savedQueriesPath(saved.id), saved.updated_at))
  const save = async (texts: Record<string, string>): Promise<SavedQuery> => {
    const body = { ...fields, ...texts }
    return change === undefined || asNew ? await request(savedQueriesPath(), { method: 'POST', body }) : await change(body)
  }
  return (
    <TextsDialog title='Save the query' texts={{ name: saved?.name ?? '', description: saved?.description ?? '' }} save={save} onDone={props.onSaved} onClose={props.onClose}>
      {saved !== undefined && <Checkbox label='Save as new' isOn={asNew} onChange={setAsNew} />}
      <p class='hint'>Saves text, parameter values and chart, visible to everyone who can read queries of this project.</p>
    </TextsDialog>
  )
}
