/** How the console and the command line write numbers, and text that anybody may have sent. */
export const UNKNOWN = '–'

const WHOLE = new Intl.NumberFormat('en', { maximumFractionDigits: 0 })

const DECIMAL = new Intl.NumberFormat('en', { minimumFractionDigits: 2, maximumFractionDigits: 2 })

/** A measure; nothing is left of very small ones. */
export function formatMeasure (value: number | null): string {
  if (value === null) return UNKNOWN
  if (Number.isInteger(value)) return formatCount(value)
  return Math.abs(value) < 0.01 ? value.toPrecision(2) : DECIMAL.format(value)
}

/** Null of nobody, and where one of them is not known. */
export const shareOf = (part: number | null, whole: number | null | undefined): number | null =>
  part === null || whole === null || whole === undefined || whole === 0 ? null : part / whole

/** `12.3 %`, of a share. */
export function formatShare (share: number | null): string {
  return share === null ? UNKNOWN : `${(share * 100).toFixed(1)} %`
}

/** `1,234,567`. */
export function formatCount (value: number | null | undefined): string {
  return value === null || value === undefined ? UNKNOWN : WHOLE.format(value)
}

/**
 * `1 message`, `1,234 messages`: a number and what it counts.
 *
 * @param many  The plural, where it is not the noun with an s.
 */
export function formatCounted (value: number | null | undefined, one: string, many: string = `${one}s`): string {
  return `${formatCount(value)} ${value === 1 ? one : many}`
}

/** A rate per second: `0.3`, `12`, `18,400`. */
export function formatRate (value: number | null): string {
  if (value === null) return UNKNOWN
  return value > 0 && value < 10 ? value.toFixed(1) : WHOLE.format(value)
}

const UNITS = ['B', 'KB', 'MB', 'GB', 'TB', 'PB']

/** `1.5 GB`, in powers of a thousand. */
export function formatBytes (value: number | null | undefined): string {
  if (value === null || value === undefined) return UNKNOWN
  const power = Math.min(UNITS.length - 1, Math.max(0, Math.floor(Math.log10(Math.max(1, Math.abs(value))) / 3)))
  const scaled = value / 1000 ** power
  return `${power === 0 || Math.abs(scaled) >= 100 ? Math.round(scaled) : scaled.toFixed(1)} ${UNITS[power]}`
}

/** Milliseconds as `3.2 ms`, `450 ms` or `1.2 s`. */
export function formatMs (value: number | null): string {
  if (value === null) return UNKNOWN
  if (value >= 1000) return formatSeconds(value / 1000)
  return `${value < 10 ? value.toFixed(1) : Math.round(value)} ms`
}

/** Seconds as `0.4 s`, `48 s`, `5 min`, `3 h` or `12 days`. */
export function formatSeconds (value: number | null): string {
  if (value === null) return UNKNOWN
  if (value < 60) return `${value < 10 ? value.toFixed(1) : Math.round(value)} s`
  if (value < 3600) return `${Math.round(value / 60)} min`
  if (value < 2 * 86_400) return `${Math.round(value / 3600)} h`
  return formatCounted(Math.round(value / 86_400), 'day')
}

/** `2026-11-22 15:04:05 UTC`: what ClickHouse shows, so that it can be compared. */
export function formatUtc (iso: string | null): string {
  return iso === null ? UNKNOWN : `${new Date(iso).toISOString().slice(0, 19).replace('T', ' ')} UTC`
}

let formatter: { zone: string, format: Intl.DateTimeFormat } | undefined

/** Dates as ISO 8601 writes them, by the clock of a zone: those of Swedish. */
export function formatterOf (timeZone: string): Intl.DateTimeFormat {
  if (formatter?.zone !== timeZone) {
    formatter = { zone: timeZone, format: new Intl.DateTimeFormat('sv', { timeZone, dateStyle: 'short', timeStyle: 'medium' }) }
  }
  return formatter.format
}

/** The start of a point of an answer; hours by the clock of the project. */
export function pointName (start: string, timezone: string): string {
  return start.length === 10 ? start : formatterOf(timezone).format(new Date(start)).slice(0, 16)
}

/** The city of a zone: `Berlin`, `Buenos Aires`; or `UTC`. */
export function cityOf (timezone: string): string {
  return (timezone.split('/').at(-1) ?? '').replaceAll('_', ' ')
}

/**
 * Characters that change how the text around them looks, or cannot be seen: controls, marks of direction, zero widths,
 * blanks other than the space (Unicode categories Cc, Cf, Zl, Zp and Zs).
 */
const INVISIBLE = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]|(?! )\p{Zs}/gu

/** Text longer than this is cut, in characters: a name that fills the screen tells nothing more. */
const MAX_CHARACTERS = 200

/**
 * Text that anybody may have sent, so that two names that differ never look alike: invisible characters become their
 * code, blanks at the ends are marked, long text is cut.
 */
export function showText (text: string, maxCharacters: number = MAX_CHARACTERS): string {
  const cut = text.length > maxCharacters ? `${text.slice(0, maxCharacters)}…` : text
  return cut
    .replace(INVISIBLE, (character) => `\\u{${(character.codePointAt(0) ?? 0).toString(16)}}`)
    .replace(/^ +| +$/g, (blanks) => '␣'.repeat(blanks.length))
}
