import { HttpError } from '../errors.ts'

/** What can be wrong with the bytes of a body; the `code` of the answer. */
export type BodyErrorCode =
  | 'empty_body'
  | 'invalid_body'
  | 'invalid_json'
  | 'invalid_gzip'
  | 'invalid_encoding'
  | 'invalid_base64'
  | 'invalid_lz64'
  | 'invalid_form'

/** A body that cannot be decoded: answered with 400, nothing of it is used. */
export function bodyError (code: BodyErrorCode, detail: string, cause?: unknown): HttpError {
  return new HttpError(400, 'validation_error', code, detail, cause === undefined ? {} : { cause })
}

/** A body that is too large on the wire, or that inflates to more than is allowed: answered with 413. */
export function bodyTooLarge (what: string, maxBytes: number): HttpError {
  return new HttpError(413, 'validation_error', 'body_too_large', `${what} is larger than ${maxBytes} bytes.`)
}
