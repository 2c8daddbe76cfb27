import { useState } from 'preact/hooks'
import { ApiError } from '../api-client.ts'
import { locateError, readJson, type TextError } from '../drafts/json-text.ts'
import { isOfContent, readContent, type RuleContent, testOf } from './event-rules.ts'

/** The draft of a rule as it is written. */
export interface RuleDraft {
  text: string
  /** What is wrong with it, as far as it is known. */
  wrong: TextError | undefined
  /** The test that failed last. */
  failing: { index: number, message: string } | undefined
  change: (text: string) => void
  /** Whether it would be stored as this content: what is left out of it has its default. */
  says: (content: unknown) => boolean
  /** What would be stored; undefined when it is none, which is shown then. */
  read: () => RuleContent | undefined
  /** Does something with it; what the API says against the draft is shown there, and the outcome is undefined. */
  explain: <T>(work: () => Promise<T>) => Promise<T | undefined>
}

/** Keeps a draft, and what is wrong with it. @param initial  Its text at first. */
export function useRuleDraft (initial: string): RuleDraft {
  const [text, setText] = useState(initial)
  const [wrong, setWrong] = useState<TextError>()
  const [failing, setFailing] = useState<RuleDraft['failing']>()

  function change (next: string): void {
    setText(next)
    setWrong(undefined)
    setFailing(undefined)
  }

  function says (content: unknown): boolean {
    const json = readJson(text)
    const rule = json.error === undefined ? readContent(json.value) : undefined
    return rule?.error === undefined && JSON.stringify(rule?.content) === JSON.stringify(content)
  }

  function read (): RuleContent | undefined {
    const json = readJson(text)
    const rule = json.error === undefined ? readContent(json.value) : undefined
    setWrong(json.error ?? (rule?.error === undefined ? undefined : locateError(text, rule.error)))
    return rule?.error === undefined ? rule?.content : undefined
  }

  async function explain<T> (work: () => Promise<T>): Promise<T | undefined> {
    setFailing(undefined)
    try {
      return await work()
    } catch (cause) {
      if (!(cause instanceof ApiError) || !isOfContent(cause.attr)) throw cause
      setWrong(locateError(text, cause))
      const index = testOf(cause.attr)
      if (index !== undefined) setFailing({ index, message: cause.message })
      return undefined
    }
  }

  return { text, wrong, failing, change, says, read, explain }
}
