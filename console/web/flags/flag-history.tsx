import { useRef, useState } from 'preact/hooks'
import type { Schema } from '../../api-types.ts'
import type { Page } from '../api-client.ts'
import { formatCount, showText } from '../format.ts'
import { type Change, Changes, ToDraft } from '../frame/differences.tsx'
import { useAnswer } from '../load.ts'
import { projectId } from '../router.ts'
import { Show } from '../states.tsx'
import { EMPTY_FLAG, type FeatureFlag, type FlagDefinition, toDefinition } from './flag-filters.ts'

type FlagChange = Omit<Schema<'FeatureFlagActivity'>, 'definition'> & { definition: FlagDefinition }

/** Changes that are shown at first, and more at a time. */
const STEP = 10

/**
 * The versions of a flag, newest first.
 *
 * @param onPutBack  Makes a draft of an earlier version; absent when the key may not write.
 */
export function FlagHistory ({ flag, onPutBack }: { flag: FeatureFlag, onPutBack?: ((definition: FlagDefinition) => void) | undefined }) {
  const [limit, setLimit] = useState(STEP)
  const changes = useAnswer<Page<FlagChange>>(`/api/projects/${projectId.value}/feature_flags/${flag.id}/activity/`, { limit })
  // What was shown stays while more is fetched.
  const shown = useRef<Page<FlagChange> | undefined>(undefined)
  shown.current = changes.value ?? shown.current
  return (
    <Show of={{ ...changes, value: shown.current }} what='Versions'>
      {({ results, count, next }) => (
        <>
          {count === 0 && <p class='hint'>No history: the flag was last changed before Millrace recorded changes.</p>}
          <Changes of={results.map(toChange)}>
            {({ version, content }) => onPutBack !== undefined && version !== flag.version && <ToDraft version={version} onPress={() => onPutBack(content)} />}
          </Changes>
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

function toChange ({ version, activity, created_at: at, user, key_label: label, experiment, definition, detail }: FlagChange): Change<FlagDefinition> {
  const content = toDefinition(definition)
  return {
    version, at, by: user?.email ?? 'somebody who is gone', content,
    about: `${label === '' ? '' : ` with the key “${showText(label, 40)}”`}${experiment === null ? '' : `, for the experiment “${showText(experiment, 80)}”`}`,
    // What changed is turned back.
    before: activity === 'created' ? EMPTY_FLAG : { ...content, ...Object.fromEntries(detail.changes.map(({ field, before }) => [field, before])) }
  }
}
