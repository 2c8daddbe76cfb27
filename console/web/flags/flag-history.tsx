import { useRef, useState } from 'preact/hooks'
import type { Schema } from '../../../schema/api-types.ts'
import type { Page } from '../api-client.ts'
import { type Difference, listDifferences } from '../drafts/json-text.ts'
import { formatAgo, formatCount, formatUtc, showText } from '../format.ts'
import { useAnswer } from '../load.ts'
import { projectId } from '../router.ts'
import { Show } from '../states.tsx'
import { EMPTY_FLAG, type FeatureFlag, type FlagDefinition, toDefinition } from './flag-filters.ts'

export type FlagChange = Omit<Schema<'FeatureFlagActivity'>, 'definition'> & { definition: FlagDefinition }

/** Changes that are shown at first, and more at a time. */
const STEP = 10

/**
 * The changes of a flag, newest first.
 *
 * @param onPutBack  Makes a draft of an earlier version; absent when the key may not write.
 */
export function FlagHistory ({ flag, onPutBack }: { flag: FeatureFlag, onPutBack?: ((change: FlagChange) => void) | undefined }) {
  const [limit, setLimit] = useState(STEP)
  const changes = useAnswer<Page<FlagChange>>(`/api/projects/${projectId.value}/feature_flags/${flag.id}/activity/`, { limit })
  // What was shown stays while more is fetched.
  const shown = useRef<Page<FlagChange> | undefined>(undefined)
  shown.current = changes.value ?? shown.current
  return (
    <Show of={{ ...changes, value: shown.current }} what='History'>
      {({ results, count, next }) => (
        <>
          {count === 0 && <p class='hint'>No history: the flag was last changed before Millrace recorded changes.</p>}
          <ol class='history' aria-label='Changes, newest first'>
            {results.map((change) => (
              <li key={change.id}>
                <Change change={change} onPutBack={change.version === flag.version ? undefined : onPutBack} />
              </li>
            ))}
          </ol>
          {next !== null && (
            <p>
              <button type='button' disabled={changes.isLoading} onClick={() => setLimit(limit + STEP)}>Show older changes</button>{' '}
              <span class='hint'>{formatCount(results.length)} of {formatCount(count)}</span>
            </p>
          )}
          {next === null && count > 0 && results.at(-1)?.activity !== 'created' && <p class='hint'>Older changes are not kept.</p>}
        </>
      )}
    </Show>
  )
}

function Change ({ change, onPutBack }: { change: FlagChange, onPutBack: ((change: FlagChange) => void) | undefined }) {
  const { version, activity, created_at: at, user, key_label: label, experiment, definition } = change
  const by = user === null ? 'somebody who is gone' : user.email
  return (
    <>
      <div class='toolbar'>
        <h3>Version {version}{activity === 'created' ? ', created' : ''}</h3>
        <span class='hint'>
          <time dateTime={at} title={formatUtc(at)}>{formatAgo(at, Date.now())}</time> by {showText(by, 80)}
          {label !== '' && <> with the key “{showText(label, 40)}”</>}
          {experiment !== null && <>, for the experiment “{showText(experiment, 80)}”</>}
        </span>
        {onPutBack !== undefined && (
          <button type='button' onClick={() => onPutBack(change)}>Put version {version} back as a draft</button>
        )}
      </div>
      <Differences before={readBefore(change)} after={definition} label={`Version ${version}`} />
    </>
  )
}

/** The flag before a change: what changed is turned back. */
function readBefore ({ activity, definition, detail }: FlagChange): FlagDefinition {
  if (activity === 'created') return EMPTY_FLAG
  return { ...definition, ...Object.fromEntries(detail.changes.map(({ field, before }) => [field, before])) }
}

/** Differences that are shown at most. */
const LIMIT = 50

/** What a flag was beside what it is or would be, difference by difference. */
export function Differences ({ before, after, label }: { before: FlagDefinition, after: FlagDefinition, label: string }) {
  const differences = listDifferences(toDefinition(before), toDefinition(after), LIMIT)
  if (differences.length === 0) return <p class='hint'>No differences.</p>
  return (
    <>
      <dl class='differences' aria-label={label}>
        {differences.map((difference) => <DifferenceItem key={difference.place} {...difference} />)}
      </dl>
      {differences.length === LIMIT && <p class='hint'>At most {LIMIT} differences are shown.</p>}
    </>
  )
}

function DifferenceItem ({ place, before, after }: Difference) {
  return (
    <div>
      <dt>{showText(place)}</dt>
      <dd>
        {before !== null && <del><span class='hidden'>{after === null ? 'removed' : 'before'}: </span>{showText(before, MAX_CHARACTERS)}</del>}
        {after !== null && <ins><span class='hidden'>{before === null ? 'new' : 'after'}: </span>{showText(after, MAX_CHARACTERS)}</ins>}
      </dd>
    </div>
  )
}

/** Of a text in a difference: as long as a payload is likely to be. */
const MAX_CHARACTERS = 4_000
