import { useState } from 'preact/hooks'
import { ApiError, request } from '../api-client.ts'
import { formatAgo, formatTime, showText } from '../format.ts'
import { useLoaded } from '../load.ts'
import { linkTo, navigate, projectId } from '../router.ts'
import { may } from '../session.ts'
import { Dialog, Failed, Show } from '../states.tsx'
import { FilterEditor } from './filter-editor.tsx'
import { describeCondition, type FeatureFlag, type FlagFilters } from './flag-filters.ts'
import { TestAs } from './test-as.tsx'

const path = (): string => `/api/projects/${projectId.value}/feature_flags`

/** One flag: for whom it is what, its draft, and what it would be for somebody. @param id  Of the flag, or `new`. */
export function FlagDetail ({ id }: { id: string }) {
  const flag = useLoaded(`flag ${projectId.value} ${id}`, async (signal) => id === 'new'
    ? NEW_FLAG
    : await request<FeatureFlag>(`${path()}/${encodeURIComponent(id)}/`, { signal }))
  return (
    <section>
      <p><a {...linkTo(`/projects/${projectId.value}/flags`)}>Flags</a></p>
      <Show of={flag} what='The flag'>{(saved) => <Editor key={saved.version} saved={saved} onSaved={flag.reload} />}</Show>
    </section>
  )
}

const NEW_FLAG: FeatureFlag = {
  id: 0,
  key: '',
  name: '',
  active: true,
  filters: { groups: [{ properties: [], rollout_percentage: 100 }] },
  ensure_experience_continuity: false,
  version: 0,
  created_at: '',
  updated_at: ''
}

interface DraftFields {
  key: string
  name: string
  active: boolean
  filters: FlagFilters
}

function Editor ({ saved, onSaved }: { saved: FeatureFlag, onSaved: () => void }) {
  const isNew = saved.id === 0
  const [draft, setDraft] = useState<DraftFields>({ key: saved.key, name: saved.name, active: saved.active, filters: saved.filters })
  const [error, setError] = useState<ApiError>()
  const [isDeleting, setDeleting] = useState(false)
  const change = (fields: Partial<DraftFields>): void => setDraft((before) => ({ ...before, ...fields }))
  const changed = (Object.keys(draft) as (keyof DraftFields)[]).filter((name) => JSON.stringify(draft[name]) !== JSON.stringify(saved[name]))
  const mayWrite = may('feature_flag:write')

  async function save (): Promise<void> {
    setError(undefined)
    try {
      const fields = Object.fromEntries(changed.map((name) => [name, draft[name]]))
      const stored = await request<FeatureFlag>(isNew ? `${path()}/` : `${path()}/${saved.id}/`, {
        method: isNew ? 'POST' : 'PATCH', body: isNew ? draft : fields
      })
      if (isNew) navigate(`/projects/${projectId.value}/flags/${stored.id}`)
      else onSaved()
    } catch (cause) {
      setError(cause instanceof ApiError ? cause : new ApiError(0, 'console_error', String(cause)))
    }
  }

  return (
    <>
      <h1>{isNew ? 'New flag' : showText(saved.key, 80)}</h1>
      {!isNew && (
        <p class='hint'>
          Version {saved.version}, changed {formatAgo(saved.updated_at, Date.now())} ({formatTime(saved.updated_at)} UTC).
          As saved: {saved.active ? '' : 'off for everyone; when on: '}{(saved.filters.groups ?? []).map(describeCondition).join('; ') || 'nobody'}.
        </p>
      )}
      <form
        class='flag-editor' onSubmit={(event) => {
          event.preventDefault()
          void save()
        }}
      >
        <fieldset disabled={!mayWrite}>
          <label>Key, as SDKs ask for it <input required value={draft.key} onInput={(event) => change({ key: event.currentTarget.value })} /></label>
          <label>Name <input value={draft.name} onInput={(event) => change({ name: event.currentTarget.value })} /></label>
          <label class='line'><input type='checkbox' checked={draft.active} onChange={(event) => change({ active: event.currentTarget.checked })} /> On</label>
          <FilterEditor filters={draft.filters} onChange={(filters) => change({ filters })} />
        </fieldset>
        {error !== undefined && <Failed error={error} onRetry={() => { void save() }} />}
        {mayWrite && (
          <p class='actions'>
            <span class='hint' role='status'>{changed.length === 0 ? 'Nothing is changed.' : `Changed: ${changed.join(', ')}.`}</span>
            {!isNew && <button type='button' onClick={() => setDeleting(true)}>Delete …</button>}
            <button type='submit' class='primary' disabled={changed.length === 0}>Save</button>
          </p>
        )}
      </form>
      <h2>Test as</h2>
      <p class='hint'>The flag as it is drafted above, saved or not. Nothing is counted or stored.</p>
      <TestAs draft={{ key: draft.key, active: draft.active, filters: draft.filters }} />
      {isDeleting && <DeleteDialog flag={saved} onClose={() => setDeleting(false)} />}
    </>
  )
}

function DeleteDialog ({ flag, onClose }: { flag: FeatureFlag, onClose: () => void }) {
  const [typed, setTyped] = useState('')
  const [error, setError] = useState<ApiError>()

  async function remove (): Promise<void> {
    try {
      await request(`${path()}/${flag.id}/`, { method: 'DELETE' })
      navigate(`/projects/${projectId.value}/flags`)
    } catch (cause) {
      setError(cause instanceof ApiError ? cause : new ApiError(0, 'console_error', String(cause)))
    }
  }

  return (
    <Dialog title={`Delete ${showText(flag.key, 60)}`} onClose={onClose}>
      <p>SDKs that ask for it get no value any more and use what their code falls back to. To stop a change, turn it off instead.</p>
      <form onSubmit={(event) => {
        event.preventDefault()
        if (typed === flag.key) void remove()
      }}
      >
        <label>Type its key to delete it <input value={typed} onInput={(event) => setTyped(event.currentTarget.value)} /></label>
        {error !== undefined && <Failed error={error} onRetry={() => { void remove() }} />}
        <p class='actions'>
          <button type='button' onClick={onClose}>Cancel</button>
          <button type='submit' class='primary' disabled={typed !== flag.key}>Delete</button>
        </p>
      </form>
    </Dialog>
  )
}
