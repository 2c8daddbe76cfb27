import { useEffect, useState } from 'preact/hooks'
import type { Round } from './board-tile.tsx'

const EVERY_MS = 60_000

/** When the tiles of a board ask again, all together: each minute while the page is seen, and when they are told to. */
export function useRounds (): { round: Round, ask: (isForced: boolean) => void } {
  const [round, setRound] = useState<Round>({ number: 0, isForced: false })
  const ask = (isForced: boolean): void => setRound(({ number }) => ({ number: number + 1, isForced }))
  useEffect(() => {
    const timer = setInterval(() => { if (document.visibilityState === 'visible') ask(false) }, EVERY_MS)
    return () => clearInterval(timer)
  }, [])
  return { round, ask }
}
