import { isUtf8 } from 'node:buffer'
import { TextDecoder } from 'node:util'

/**
 * The decoder of the charset that a content type names, of all that browsers know; undefined for UTF-8, which JSON is
 * in by itself, and when the name says nothing.
 */
export function decoderOf (contentType: string | undefined): TextDecoder | undefined {
  // What nearly every client sends.
  if (contentType === undefined || contentType === 'application/json') return undefined
  const [, label = 'utf-8'] = /;\s*charset\s*=\s*"?([^\s";]+)/i.exec(contentType) ?? []
  try {
    const decoder = new TextDecoder(label, { fatal: true })
    return decoder.encoding === 'utf-8' ? undefined : decoder
  } catch {
    return undefined
  }
}

/**
 * Whether bytes are in the charset of a decoder. Many clients name a charset and send UTF-8, and text of another one is
 * hardly ever valid UTF-8 beyond ASCII.
 */
export function isInCharset (bytes: Uint8Array, decoder: TextDecoder | undefined): decoder is TextDecoder {
  if (decoder === undefined || (!decoder.encoding.startsWith('utf-16') && isUtf8(bytes))) return false
  try {
    decoder.decode(bytes)
    return true
  } catch {
    return false
  }
}
