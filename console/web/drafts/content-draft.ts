import { useState } from 'preact/hooks'
import { ApiError } from '../api-client.ts'
import { isFields } from '../../../engines/fields.ts'
import { type DraftLanguage, readJson, type TextError, toTextError, writeJson } from './json-text.ts'

/** The draft of a content as it is written. */
export interface ContentDraft {
  text: string
  /** The name of a part that was typed and not added yet: it counts as added for `says` and `read`. */
  typed: string
  type: (name: string) => void
  /** Known error of the draft. */
  wrong: TextError | undefined
  change: (text: string) => void
  /** Whether it would be stored as this content. Omitted fields have their defaults. */
  says: (content: unknown) => boolean
  /** Content to store; undefined if it is invalid, after showing the error. */
  read: () => object | undefined
  /** Does something with it; what the API says against the draft is shown there, and the outcome is undefined. */
  explain: <T>(work: () => Promise<T>) => Promise<T | undefined>
}

/**
 * State of a draft and its error.
 *
 * @param initial  Its text at first.
 * @param onTouched  What it says has changed.
 */
export function useContentDraft (initial: string, language: DraftLanguage, onTouched = (): void => {}): ContentDraft {
  const [text, setText] = useState(initial)
  const [typed, setTyped] = useState('')
  const [wrong, setWrong] = useState<TextError>()

  function change (next: string): void {
    setText(next)
    setWrong(undefined)
    onTouched()
  }

  function type (name: string): void {
    setTyped(name)
    onTouched()
  }

  function parse (): { fields?: object, value?: unknown, error?: TextError } {
    const json = readJson(text)
    if (json.error !== undefined) return { error: json.error }
    const value = typed !== '' && isFields(json.value) ? language.add?.(json.value, typed) ?? json.value : json.value
    const { error, ...rest } = language.read(value)
    return error === undefined ? { ...rest, value } : { error: toTextError(error, language.root) }
  }

  function says (content: unknown): boolean {
    const { fields } = parse()
    return fields !== undefined && JSON.stringify(language.contentOf(fields)) === JSON.stringify(content)
  }

  function read (): object | undefined {
    const { fields, value, error } = parse()
    setWrong(error)
    if (fields !== undefined && typed !== '') {
      setText(writeJson(value))
      setTyped('')
    }
    return fields
  }

  async function explain<T> (work: () => Promise<T>): Promise<T | undefined> {
    try {
      return await work()
    } catch (cause) {
      if (!(cause instanceof ApiError) || !language.isOf(cause.attr)) throw cause
      setWrong(toTextError(cause, language.root))
      return undefined
    }
  }

  return { text, typed, type, wrong, change, says, read, explain }
}
