/** What changed, difference by difference, and who changed it. */
import type { ComponentChildren } from 'preact'
import { showText } from '../format.ts'
import { Time } from '../states.tsx'
import { listDifferences } from './json-text.ts'

const LIMIT = 50

/** Of a text in a difference: as long as a payload is likely to be. */
const MAX_CHARACTERS = 4_000

/** Two values beside each other, difference by difference. */
export function Differences ({ before, after, label }: { before: object, after: object, label: string }) {
  const differences = listDifferences(before, after, LIMIT)
  if (differences.length === 0) return <p class='hint'>No differences.</p>
  return (
    <>
      <dl class='differences' aria-label={label}>
        {differences.map(({ place, before: was, after: is }) => (
          <div key={place}>
            <dt>{showText(place)}</dt>
            <dd>
              {was !== null && <del><span class='hidden'>{is === null ? 'removed' : 'before'}: </span>{showText(was, MAX_CHARACTERS)}</del>}
              {is !== null && <ins><span class='hidden'>{was === null ? 'new' : 'after'}: </span>{showText(is, MAX_CHARACTERS)}</ins>}
            </dd>
          </div>
        ))}
      </dl>
      {differences.length === LIMIT && <p class='hint'>At most {LIMIT} differences are shown.</p>}
    </>
  )
}

/** A version, and what it was made from. */
export interface Change<C> {
  version: number
  at: string
  by: string
  about?: string
  content: C
  before: C | undefined
}

/** Who stored what when, newest first. @param props.children  The buttons of a change. */
export function Changes<C extends object> ({ of, children }: { of: readonly Change<C>[], children: (change: Change<C>) => ComponentChildren }) {
  return (
    <ol class='history' aria-label='Versions, newest first'>
      {of.map((change) => (
        <li key={change.version}>
          <div class='toolbar'>
            <h3>Version {change.version}</h3>
            <span class='hint'><Time at={change.at} isZoned /> by {showText(change.by, 80)}{change.about}</span>
            {children(change)}
          </div>
          {change.before !== undefined && <Differences before={change.before} after={change.content} label={`Version ${change.version}`} />}
        </li>
      ))}
    </ol>
  )
}

export function ToDraft ({ version, onPress }: { version: number, onPress: () => void }) {
  return <button type='button' onClick={onPress}>To the draft<span class='hidden'> from version {version}</span></button>
}
