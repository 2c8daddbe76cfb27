import { fieldsOf, isFields } from '../../../engines/fields.ts'
import { ApiError, request } from '../api-client.ts'

/**
 * Changes an object that was read as of `readAt`. When somebody else has changed it since, the first try says so and
 * changes nothing; the next one replaces what is stored by then, so that nothing that was typed is lost.
 *
 * @returns sends changes, as often as they are tried.
 */
export function changerOf<T extends { updated_at: string }> (
  path: string, readAt: string
): (changes: object) => Promise<T> {
  let base = readAt
  return async (changes) => {
    try {
      return await request<T>(path, { method: 'PATCH', body: { ...changes, updated_at: base } })
    } catch (error) {
      if (!(error instanceof ApiError) || error.status !== 409 || error.attr !== 'updated_at') throw error
      base = (await request<T>(path)).updated_at
      throw outdated(error.attr)
    }
  }
}

/** Says at the first try that the next one replaces what somebody else has stored. */
export function outdated (attr: string): ApiError {
  return new ApiError(409, 'conflict', 'It was changed since you read it, so your change was not saved. Saving it again replaces what is stored now.', attr)
}

type Fields = Readonly<Record<string, unknown>>

/** `stored` with what was changed from `before` to `now`, at any depth: the rest is as others have left it. */
export function withTouched (stored: Fields, before: Fields, now: Fields): Fields {
  const merged = { ...stored }
  for (const name of Object.keys({ ...before, ...now })) {
    const [was, is] = [before[name], now[name]]
    if (JSON.stringify(was) === JSON.stringify(is)) continue
    merged[name] = isFields(is) ? withTouched(fieldsOf(stored[name]), fieldsOf(was), is) : is
  }
  return merged
}
