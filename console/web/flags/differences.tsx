import { showText } from '../format.ts'
import { cutAlike, describeDifferences, type Difference } from './flag-diff.ts'
import type { FlagDefinition } from './flag-filters.ts'

/** What a flag was beside what it is or would be, difference by difference. */
export function Differences ({ before, after, label }: { before: FlagDefinition, after: FlagDefinition, label: string }) {
  const differences = describeDifferences(before, after)
  if (differences.length === 0) return <p class='hint'>They are the same.</p>
  return (
    <dl class='differences' aria-label={label}>
      {differences.map((difference, index) => <DifferenceItem key={index} {...difference} />)}
    </dl>
  )
}

function DifferenceItem ({ what, before, after }: Difference) {
  const [was, is] = before === null || after === null ? [before, after] : cutAlike(before, after)
  return (
    <div>
      <dt>{showText(what)}</dt>
      <dd>
        {was !== null && <del><span class='hidden'>{is === null ? 'removed' : 'before'}: </span>{showText(was, MAX_CHARACTERS)}</del>}
        {is !== null && <ins><span class='hidden'>{was === null ? 'new' : 'after'}: </span>{showText(is, MAX_CHARACTERS)}</ins>}
      </dd>
    </div>
  )
}

/** Longer than what `cutAlike` leaves. */
const MAX_CHARACTERS = 450
