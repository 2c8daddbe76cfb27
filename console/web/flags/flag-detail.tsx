import { useRef, useState } from 'preact/hooks'
import { request } from '../api-client.ts'
import { Confirm } from '../confirm.tsx'
import { formatAgo, showText } from '../format.ts'
import { useLoaded } from '../load.ts'
import { linkTo, navigate, projectId, query, setQuery } from '../router.ts'
import { may } from '../session.ts'
import { Show, Time } from '../states.tsx'
import { FlagEditor } from './flag-editor.tsx'
import { describeCondition, EMPTY_FLAG, type FeatureFlag, type FlagDefinition, giveToEverybody, toDefinition } from './flag-filters.ts'
import { FlagHistory, type FlagChange } from './flag-history.tsx'
import { TestAs } from './test-as.tsx'
import { Title } from '../title.tsx'

const path = (): string => `/api/projects/${projectId.value}/feature_flags`

/** One flag: its conditions, its draft, a test for one user, and its history. @param id  Flag id, or `new`. */
export function FlagDetail ({ id }: { id: string }) {
  const flag = useLoaded(`flag ${projectId.value} ${id}`, async (signal) => id === 'new'
    ? NEW_FLAG
    : await request<FeatureFlag>(`${path()}/${encodeURIComponent(id)}/`, { signal }))
  return (
    <section>
      <p><a {...linkTo(`/projects/${projectId.value}/flags`)}>Flags</a></p>
      <Show of={flag} what='The flag'>{(saved) => <FlagPage key={saved.version} loaded={saved} onSaved={flag.reload} />}</Show>
    </section>
  )
}

const NEW_FLAG: FeatureFlag = {
  ...EMPTY_FLAG,
  id: 0,
  filters: { groups: [{ properties: [], rollout_percentage: 100 }] },
  version: 0,
  created_at: '',
  updated_at: ''
}

/** The flag, or with the variant that an experiment found for everybody, as the address asks. */
function draftOf (flag: FeatureFlag): FlagDefinition {
  const winner = query.value.get('everybody')
  const definition = toDefinition(flag)
  return winner === null ? definition : { ...definition, active: true, filters: giveToEverybody(definition.filters, winner) }
}

function FlagPage ({ loaded, onSaved }: { loaded: FeatureFlag, onSaved: () => void }) {
  // What the draft is based on: another one than was loaded after a conflict.
  const [saved, setSaved] = useState(loaded)
  const [draft, setDraft] = useState<FlagDefinition>(() => draftOf(loaded))
  const [isDeleting, setDeleting] = useState(false)
  const editor = useRef<HTMLDivElement>(null)
  const isNew = saved.id === 0
  const mayWrite = may('feature_flag:write')

  function putBack (change: FlagChange): void {
    setDraft(toDefinition(change.definition))
    editor.current?.scrollIntoView()
    editor.current?.focus()
  }

  return (
    <>
      <Title name={isNew ? 'New flag' : saved.key} max={80} />
      {!isNew && (
        <p class='hint'>
          Version {saved.version}, changed {formatAgo(saved.updated_at, Date.now())} (<Time at={saved.updated_at} isZoned />).
          As saved: {saved.active ? '' : 'off for everyone; when on: '}{showText((saved.filters.groups ?? []).map(describeCondition).join('; ') || 'nobody', 600)}.
        </p>
      )}
      <div ref={editor} tabIndex={-1}>
        <FlagEditor
          saved={saved} draft={draft} onDraft={setDraft} onRebase={setSaved} onDelete={() => setDeleting(true)}
          onSaved={(id) => {
            setQuery({ everybody: '' })
            if (isNew) navigate(`/projects/${projectId.value}/flags/${id}`)
            else onSaved()
          }}
        />
      </div>
      <h2>Test as</h2>
      <p class='hint'>Tests the draft above, saved or not. Nothing is counted or stored.</p>
      <TestAs draft={draft} />
      {!isNew && <h2>History</h2>}
      {!isNew && <FlagHistory key={saved.version} flag={saved} onPutBack={mayWrite ? putBack : undefined} />}
      {isDeleting && (
        <Confirm
          title={`Delete ${showText(saved.key, 60)}`} word={saved.key} action='Delete' onClose={() => setDeleting(false)}
          onConfirm={async () => await request(`${path()}/${saved.id}/`, { method: 'DELETE' })} onDone={() => navigate(`/projects/${projectId.value}/flags`)}
        >
          <p>SDKs no longer get a value and use the fallback in their code. To only stop the rollout, turn the flag off instead.</p>
        </Confirm>
      )}
    </>
  )
}
