import { useEffect, useState } from 'preact/hooks'
import { formatCount } from './format.ts'
import { setQuery } from './router.ts'

/** Rows of a page of a list. */
export const PAGE = 50

/** The search waits so long for the next key, in milliseconds. */
const TYPING_MS = 150

/** A search whose text is in the address. */
export function Search ({ value, label }: { value: string, label: string }) {
  const [typed, setTyped] = useState(value)
  useEffect(() => {
    if (typed === value) return
    const timer = setTimeout(() => setQuery({ search: typed }), TYPING_MS)
    return () => clearTimeout(timer)
  }, [typed])
  return <input type='search' aria-label={label} placeholder={label} value={typed} onInput={(event) => setTyped(event.currentTarget.value)} />
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
