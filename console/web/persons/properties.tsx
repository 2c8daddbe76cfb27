import { formatCount, showText } from '../format.ts'
import { Rows } from '../frame/lists.tsx'

export function Properties ({ properties }: { properties: Readonly<Record<string, unknown>> }) {
  const names = Object.keys(properties).sort()
  return (
    <>
      <h2>Properties <span class='hint'>{formatCount(names.length)}</span></h2>
      {names.length === 0
        ? <p class='hint'>No properties.</p>
        : (
          <Rows
            label='Properties' of={names} columns={[
              ['Name', (name) => showText(name, 80)],
              ['Value', (name) => showText(typeof properties[name] === 'string' ? properties[name] : JSON.stringify(properties[name])), 'wide']
            ]}
          />
          )}
    </>
  )
}
