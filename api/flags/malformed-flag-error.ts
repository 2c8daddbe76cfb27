import { MillraceError } from '../../platform/errors.ts'

/**
 * What can be wrong with one field of a flag. The code becomes the `code` of the API's answer, and the reason of a
 * flag whose stored filters are malformed.
 */
export type MalformedFlagCode = 'required' | 'invalid' | 'invalid_choice' | 'invalid_key' | 'invalid_regex' | 'unique'

/**
 * The filters of a flag (or of a cohort it asks for) cannot be evaluated.
 *
 * Thrown when a flag is compiled. On write it becomes the client's 400; for a stored flag it makes this one flag
 * fail and leaves the others alone.
 */
export class MalformedFlagError extends MillraceError {
  /** The field at fault, nested by `__`, as `filters__groups__0__rollout_percentage`. */
  readonly attr: string

  constructor (code: MalformedFlagCode, attr: string, message: string) {
    super(code, message, { action: 'dead-letter', details: { attr } })
    this.name = 'MalformedFlagError'
    this.attr = attr
  }
}
