/** How the console writes numbers, times and text from events. Nothing here depends on the browser's language. */
import { signal } from '@preact/signals'
import { cityOf, formatSeconds, formatterOf, UNKNOWN } from '../../engines/figures.ts'

export * from '../../engines/figures.ts'

/** `5 min ago`. @param now  Epoch milliseconds. */
export function formatAgo (iso: string | null, now: number): string {
  if (iso === null) return 'never'
  const seconds = (now - Date.parse(iso)) / 1000
  return seconds < 1 ? 'just now' : `${formatSeconds(seconds)} ago`
}

/**
 * Milliseconds by which the clock behind the `date` of an answer is ahead: as known, or, where no such clock can have
 * written an answer that took this long, the least that is possible: no time is named that is still to come.
 */
export function clockAhead (known: number, date: string | null, sentAt: number, receivedAt: number): number {
  const written = Date.parse(date ?? '')
  return known < written - receivedAt || known > written + 1000 - sentAt ? written - receivedAt : known
}

/** IANA name of the zone in which times are shown; `time-zone.tsx` sets it. */
export const zone = signal('UTC')

/** `2026-11-22 15:04:05` in the zone that is shown. @param digits  Of the fraction of the second. */
export function formatTime (iso: string | null, digits: 0 | 3 = 0): string {
  if (iso === null) return UNKNOWN
  const time = formatterOf(zone.value).format(new Date(iso))
  return digits === 0 ? time : `${time}.${new Date(iso).toISOString().slice(20, 23)}`
}

export function formatZoned (iso: string | null, digits: 0 | 3 = 0): string {
  return iso === null ? UNKNOWN : `${formatTime(iso, digits)} ${zoneLabel()}`
}

/** The city of the zone that is shown. */
export const zoneLabel = (): string => cityOf(zone.value)

export function quote (text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`
}

/** Text that was typed into a field for a number, and the number that the field had then. */
export interface TypedNumber { text: string, value: number }

/** The text as typed while the number is still the one that it led to; else the number. */
export function showNumber (value: number, typed: TypedNumber | undefined): string {
  return typed?.value === value ? typed.text : String(value)
}
