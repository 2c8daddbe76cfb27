import { InvalidArgumentError } from 'commander'
import { parseIsoDateTime } from '../api/http/request-values.ts'
import { cutText, isStorableText } from '../engines/body/storable-text.ts'

const UNIT_SECONDS: Record<string, number> = { s: 1, m: 60, h: 3600, d: 86_400, w: 604_800 }

/** Reads a duration such as `90d`, `12h` or `0`, in seconds. */
export function readDuration (text: string): number {
  const [, amount = '', unit = 's'] = /^(\d{1,9})([smhdw])?$/.exec(text) ?? []
  const seconds = Number(amount) * (UNIT_SECONDS[unit] ?? Number.NaN)
  // A century at most, which keeps dates within the range of the databases.
  if (amount === '' || seconds > 3_155_760_000) throw new InvalidArgumentError('Give a number with s, m, h, d or w, such as 90d.')
  return seconds
}

export function readId (text: string): number {
  const id = Number(text)
  if (!/^\d+$/.test(text) || id < 1 || id > 2_147_483_647) throw new InvalidArgumentError('Give a whole number of at least 1.')
  return id
}

export function collectIds (text: string, before: number[] = []): number[] {
  return [...before, readId(text)]
}

/** Reads values of an option that may be repeated, or list several with commas. */
export function collectStrings (text: string, before: string[] = []): string[] {
  const items = text.split(',').map((item) => item.trim()).filter((item) => item !== '')
  if (items.length === 0) throw new InvalidArgumentError('Give a value.')
  return [...before, ...items]
}

/** Readers of options that may be given several times. */
export const COLLECTORS: readonly unknown[] = [collectIds, collectStrings]

/** Reads a string that its column can store; `maxLength` is in characters, as Postgres counts. */
export function readString (maxLength: number): (text: string) => string {
  return (text) => {
    if (text.trim() === '' || cutText(text, maxLength) !== text || !isStorableText(text)) {
      throw new InvalidArgumentError(`Give 1 to ${maxLength} characters.`)
    }
    return text
  }
}

/** Reads a whole number of at least 1. */
export function readCount (text: string): number {
  const count = Number(text)
  if (!/^\d+$/.test(text) || count < 1 || !Number.isSafeInteger(count)) throw new InvalidArgumentError('Give a whole number of at least 1.')
  return count
}

/** Reads an ISO 8601 date or date-time; UTC when it names no zone. */
export function readInstant (text: string): Date {
  const instant = parseIsoDateTime(text)
  if (instant === undefined) throw new InvalidArgumentError('Give an ISO 8601 time, such as 2026-01-31T12:00:00Z.')
  return instant
}
