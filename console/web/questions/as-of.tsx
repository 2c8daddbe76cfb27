import { formatTime, UNKNOWN, zoneLabel } from '../format.ts'

/** `as of 21:17 Berlin`; with the day when that is not today, or `isWhole`. */
export function describeAsOf (through: string | null, isWhole = false): string {
  if (through === null) return `as of ${UNKNOWN}`
  const at = formatTime(through).slice(0, 16)
  const isToday = at.slice(0, 10) === formatTime(new Date().toISOString()).slice(0, 10)
  return `as of ${isToday && !isWhole ? at.slice(11) : at} ${zoneLabel()}`
}

interface AsOfProps {
  through: string | null
  /** Why a part of the answer is missing. */
  gap?: string | undefined
  facts: string
}

/** How new an answer is; the rest of what it was computed from opens. */
export function AsOf ({ through, gap, facts }: AsOfProps) {
  return (
    <details class='as-of'>
      <summary class='hint numbers'><span role='status'>{describeAsOf(through)}{gap !== undefined && ` · ${gap}`}</span> <span class='info' aria-hidden='true'>i</span><span class='hidden'>: about this answer</span></summary>
      <p class='hint numbers'>{facts}</p>
    </details>
  )
}
