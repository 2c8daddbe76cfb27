import { formatCount, showText } from '../format.ts'
import { Table } from '../states.tsx'

/** Properties of a person or group, by name. */
export function Properties ({ properties }: { properties: Readonly<Record<string, unknown>> }) {
  const names = Object.keys(properties).sort()
  return (
    <>
      <h2>Properties <span class='hint'>{formatCount(names.length)}</span></h2>
      {names.length === 0
        ? <p class='hint'>No properties.</p>
        : (
          <Table label='Properties' head={['Name', 'Value']}>
            {names.map((name) => {
              const value = properties[name]
              return <tr key={name}><td>{showText(name, 80)}</td><td class='wide'>{showText(typeof value === 'string' ? value : JSON.stringify(value))}</td></tr>
            })}
          </Table>
          )}
    </>
  )
}
