import { useEffect, useState } from 'preact/hooks'
import { formatCount } from './format.ts'
import { query, setQuery } from './router.ts'

/** Rows of a page of a list. */
export const PAGE = 50

/** Typing pauses when no key came for so many milliseconds. */
const TYPING_MS = 150

/**
 * Text that is typed, and a parameter of the address when the typing pauses.
 *
 * @returns the text, which is the address's whenever nobody is typing, and a function that takes what was typed.
 */
export function useTypedParameter (name: string): [text: string, type: (text: string) => void] {
  const [typed, setTyped] = useState<string>()
  useEffect(() => {
    if (typed === undefined) return
    const timer = setTimeout(() => {
      setQuery({ [name]: typed })
      setTyped(undefined)
    }, TYPING_MS)
    return () => clearTimeout(timer)
  }, [typed])
  return [typed ?? query.value.get(name) ?? '', setTyped]
}

/** A search whose text is in the address. */
export function Search ({ label }: { label: string }) {
  const [text, type] = useTypedParameter('search')
  return <input type='search' aria-label={label} placeholder={label} value={text} onInput={(event) => type(event.currentTarget.value)} />
}

interface PagerProps {
  page: { count: number, next: string | null, results: readonly unknown[] }
  offset: number
  onOffset: (offset: number) => void
}

/** Which rows of how many are shown, and the way to the others when there are any. */
export function Pager ({ page: { count, next, results }, offset, onOffset }: PagerProps) {
  return (
    <div class='toolbar'>
      <span role='status'>{formatCount(offset + 1)} to {formatCount(offset + results.length)} of {formatCount(count)}</span>
      {(offset > 0 || next !== null) && (
        <>
          <button type='button' disabled={offset === 0} onClick={() => onOffset(Math.max(0, offset - PAGE))}>Previous</button>
          <button type='button' disabled={next === null} onClick={() => onOffset(offset + PAGE)}>Next</button>
        </>
      )}
    </div>
  )
}
