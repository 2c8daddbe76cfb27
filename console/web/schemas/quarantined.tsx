import { fetchGroups } from '../dead-letters/dead-letters.ts'
import { formatCount, showText, UNKNOWN } from '../format.ts'
import { useLoaded } from '../load.ts'
import { linkTo, projectId, shownProjectId } from '../router.ts'
import { may } from '../session.ts'
import { linkToQuarantined } from './event-schemas.ts'

/** Dead letters of stage `schema` by name of the event; undefined until it is known, or when it cannot be. */
export function useQuarantined (): ReadonlyMap<string, number> | undefined {
  const groups = useLoaded(`quarantined ${projectId.value}`, async (signal) => {
    const counts = new Map<string, number>()
    if (!may('dead_letter:read')) return counts
    for (const { event, count } of (await fetchGroups({ stage: 'schema' }, signal)).results) {
      if (event !== null) counts.set(event, (counts.get(event) ?? 0) + count)
    }
    return counts
  })
  return groups.value
}

/** How many events of a name are in quarantine, with the way to them. */
export function Quarantined ({ event, counts }: { event: string, counts: ReadonlyMap<string, number> | undefined }) {
  if (counts === undefined) return <>{UNKNOWN}</>
  const count = counts.get(event) ?? 0
  if (count === 0) return <>0</>
  return (
    <a {...linkTo(linkToQuarantined(shownProjectId(), event))}>{formatCount(count)}<span class='hidden'> dead letters of {showText(event, 60)}</span></a>
  )
}
