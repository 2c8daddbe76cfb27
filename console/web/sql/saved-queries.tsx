import { useState } from 'preact/hooks'
import type { Schema } from '../../../schema/api-types.ts'
import { type Page, request } from '../api-client.ts'
import { Ask, FormDialog } from '../confirm.tsx'
import { formatAgo, formatCount, formatUtc, showText } from '../format.ts'
import type { Loaded } from '../load.ts'
import { linkTo, projectId } from '../router.ts'
import { may } from '../session.ts'
import { Checkbox, Show } from '../states.tsx'

export type SavedQuery = Schema<'SavedQuery'>

export type SavedQueryFields = Pick<SavedQuery, 'query' | 'parameters' | 'chart'>

/** Where the saved queries of the project are. */
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
export function SaveDialog ({ fields, saved, onSaved, onClose }: SaveDialogProps) {
  const [name, setName] = useState(saved?.name ?? '')
  const [description, setDescription] = useState(saved?.description ?? '')
  const [asNew, setAsNew] = useState(false)
  const save = async (): Promise<SavedQuery> => {
    const body = { ...fields, name: name.trim(), description }
    return saved === undefined || asNew
      ? await request(savedQueriesPath(), { method: 'POST', body })
      : await request(savedQueriesPath(saved.id), { method: 'PATCH', body: { ...body, updated_at: saved.updated_at } })
  }
  return (
    <FormDialog title='Save the query' action='Save' isReady={name.trim() !== ''} onConfirm={save} onDone={onSaved} onClose={onClose}>
      <label>Name <input required maxLength={200} value={name} onInput={(event) => setName(event.currentTarget.value)} /></label>
      <label>Description <textarea rows={2} maxLength={3000} value={description} onInput={(event) => setDescription(event.currentTarget.value)} /></label>
      {saved !== undefined && <Checkbox label='Save as new' isOn={asNew} onChange={setAsNew} />}
      <p class='hint'>Saves text, parameter values and chart, visible to everyone whose key can read queries of this project.</p>
    </FormDialog>
  )
}

/** Deletes the query that is open. */
export function DeleteQuery ({ saved, onDeleted }: { saved: SavedQuery, onDeleted: () => void }) {
  const [isAsking, setAsking] = useState(false)
  if (!may('query:write')) return null
  const remove = async () => await request(savedQueriesPath(saved.id), { method: 'DELETE' })
  return (
    <>
      <button type='button' onClick={() => setAsking(true)}>Delete …</button>
      {isAsking && (
        <Ask title={`Delete ${showText(saved.name, 80)}?`} action='Delete' onClose={() => setAsking(false)} onConfirm={remove} onDone={onDeleted}>
          <p>Links to this query will stop working. Nothing else is lost.</p>
        </Ask>
      )}
    </>
  )
}
