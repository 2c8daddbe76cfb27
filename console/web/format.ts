/** How the console writes numbers, times and text from events. Nothing here depends on the browser's language. */
import { signal } from '@preact/signals'
import { formatCount, formatSeconds, UNKNOWN } from '../../engines/figures.ts'

export * from '../../engines/figures.ts'

const DECIMAL = new Intl.NumberFormat('en', { minimumFractionDigits: 2, maximumFractionDigits: 2 })

/** A measure; nothing is left of very small ones. */
export function formatMeasure (value: number | null): string {
  if (value === null) return UNKNOWN
  if (Number.isInteger(value)) return formatCount(value)
  return Math.abs(value) < 0.01 ? value.toPrecision(2) : DECIMAL.format(value)
}

/** `5 min ago`. @param now  Epoch milliseconds. */
export function formatAgo (iso: string | null, now: number): string {
  if (iso === null) return 'never'
  const seconds = (now - Date.parse(iso)) / 1000
  return seconds < 1 ? 'just now' : `${formatSeconds(seconds)} ago`
}

/** IANA name of the zone in which times are shown; `time-zone.tsx` sets it. */
export const zone = signal('UTC')

/** `2026-11-22 15:04:05` in the zone that is shown. @param digits  Of the fraction of the second. */
export function formatTime (iso: string | null, digits: 0 | 3 = 0): string {
  if (iso === null) return UNKNOWN
  // In Swedish, dates are written like those of ISO 8601.
  const time = formatterOf(zone.value).format(new Date(iso))
  return digits === 0 ? time : `${time}.${new Date(iso).toISOString().slice(20, 23)}`
}

let formatter: { zone: string, format: Intl.DateTimeFormat } | undefined

/** Dates as ISO 8601 writes them, by the clock of a zone. */
export function formatterOf (timeZone: string): Intl.DateTimeFormat {
  if (formatter?.zone !== timeZone) {
    formatter = { zone: timeZone, format: new Intl.DateTimeFormat('sv', { timeZone, dateStyle: 'short', timeStyle: 'medium' }) }
  }
  return formatter.format
}

export function formatZoned (iso: string | null, digits: 0 | 3 = 0): string {
  return iso === null ? UNKNOWN : `${formatTime(iso, digits)} ${zoneLabel()}`
}

/** The city of the zone that is shown: `Berlin`, `Buenos Aires`; or `UTC`. */
export function zoneLabel (): string {
  return (zone.value.split('/').at(-1) ?? '').replaceAll('_', ' ')
}

export function quote (text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`
}
