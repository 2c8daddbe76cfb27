import { useState } from 'preact/hooks'
import { ApiError } from '../api-client.ts'
import { type DraftLanguage, type Fields, readJson, type TextError, toTextError } from './json-text.ts'

export interface ContentDraft {
  text: string
  /** Content to store, with defaults for omitted fields; undefined if the text is invalid. */
  content: Fields | undefined
  wrong: TextError | undefined
  change: (text: string) => void
  /** Sends the content. Resolves to undefined after showing an error of the draft. */
  submit: <T>(send: (fields: object) => Promise<T>) => Promise<T | undefined>
}

/**
 * State of a draft and its error.
 *
 * @param initial  Its text at first.
 * @param onTouched  What it says has changed.
 */
export function useContentDraft (initial: string, language: DraftLanguage, onTouched = (): void => {}): ContentDraft {
  const [text, setText] = useState(initial)
  const [wrong, setWrong] = useState<TextError>()

  function change (next: string): void {
    setText(next)
    setWrong(undefined)
    onTouched()
  }

  function parse (): { fields?: object, error?: TextError } {
    const json = readJson(text)
    if (json.error !== undefined) return { error: json.error }
    const { error, fields } = language.read(json.value)
    return error === undefined ? { fields } : { error: toTextError(error, language.root) }
  }

  async function submit<T> (send: (fields: object) => Promise<T>): Promise<T | undefined> {
    const { fields, error } = parse()
    setWrong(error)
    if (fields === undefined) return undefined
    try {
      return await send(fields)
    } catch (cause) {
      if (!(cause instanceof ApiError) || !language.isOf(cause.attr)) throw cause
      setWrong(toTextError(cause, language.root))
      return undefined
    }
  }

  const { fields } = parse()
  return { text, content: fields === undefined ? undefined : language.contentOf(fields), wrong, change, submit }
}
