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
      throw new ApiError(409, error.code, 'It was changed since you read it, so your change was not saved. Saving it again replaces what is stored now.', error.attr)
    }
  }
}
